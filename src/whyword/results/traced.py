"""What an explanation has when its method traces the whole logit (difference): flow, bias and routes."""

from dataclasses import asdict
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow, Route
from ..attribute.methods import METHODS
from ..errors import InputError

__all__ = ["Traced", "flow_from", "flow_to_dict"]


class Traced:
    """Where the logit (difference) is at every depth, of methods that trace it."""

    method: str
    traced: Flow | None

    @property
    def flow(self) -> Float[Tensor, "depth token"]:
        """How much of the logit (difference) is at each position: before block 1, …, after the last block.

        At every depth it adds up, with `bias`, to the logit (difference); float64.
        """
        return self._require_traced().by_depth

    @property
    def bias(self) -> Float[Tensor, " depth"]:
        """What biases written above each depth add; float64."""
        return self._require_traced().bias

    def routes(self, top: int = 40) -> tuple[Route, ...]:
        """Give what attention heads move from position to position, strongest first: `top` of up to 256."""
        if top < 1:
            raise InputError(f"top is {top}.", "Ask for at least one route.")
        return self._require_traced().routes[:top]

    def _require_traced(self) -> Flow:
        if self.traced is None:
            having = ", ".join(name for name, method in METHODS.items() if method.frozen)
            raise InputError(f"The method {self.method} has no flow.", f"Methods that have: {having}.")
        return self.traced


def flow_to_dict(flow: Flow) -> dict[str, Any]:
    """Give the part of a document that holds flow."""
    routes = [asdict(route) for route in flow.routes]
    return {"by_depth": flow.by_depth.tolist(), "bias": flow.bias.tolist(), "routes": routes}


def flow_from(document: dict[str, Any]) -> Flow:
    """Make the flow of that part of a document."""
    by_depth, bias = (torch.tensor(document[name], dtype=torch.float64) for name in ("by_depth", "bias"))
    return Flow(by_depth, bias, tuple(Route(**route) for route in document["routes"]))
