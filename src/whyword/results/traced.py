"""What an explanation has when its method traces the whole logit (difference): flow, bias and routes."""

from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import torch
from jaxtyping import Float
from torch import Tensor

from ..attribute.flow import Flow, Route
from ..attribute.methods import METHODS
from ..document.numbers import read_tensor, require_index
from ..errors import InputError
from .explained_prediction import Count, Numbers

__all__ = ["FlowRecord", "Traced", "flow_to_dict", "read_flow", "require_flow"]

_Traced = TypeVar("_Traced")


@dataclass(frozen=True, kw_only=True)
class FlowRecord:
    """The logit (difference) at every depth."""

    by_depth: list[Numbers]
    """How much of it is at each position, by depth (before block 1, …, after the last block) and token."""
    bias: Numbers
    """What biases written above each depth add."""
    routes: tuple[Route, ...]
    """What attention heads move from position to position, strongest first."""
    depth: Count
    """The depth that scores are read at."""


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
        """Return what attention heads move from position to position, strongest first: `top` of up to 256."""
        if top < 1:
            raise InputError(f"top is {top}.", "Ask for at least one route.")
        routes = self._require_traced().routes
        if not routes:
            raise InputError(
                "The routes of this sum are not known: of each of its tokens only the strongest were kept.",
                "Ask a continuation that was just explained for its sum: it has the recorded run.",
            )
        return routes[:top]

    def _require_traced(self) -> Flow:
        return require_flow(self.method, self.traced)


def require_flow(method: str, traced: _Traced | None) -> _Traced:
    """Refuse a method that has no flow, and say which have."""
    if traced is None:
        having = ", ".join(name for name, each in METHODS.items() if each.frozen)
        raise InputError(f"The method {method} has no flow.", f"Methods that have: {having}.")
    return traced


def flow_to_dict(flow: Flow) -> dict[str, Any]:
    """Return the part of a document that holds flow."""
    routes = [asdict(route) for route in flow.routes]
    return {
        "by_depth": flow.by_depth.tolist(),
        "bias": flow.bias.tolist(),
        "routes": routes,
        "depth": flow.depth,
    }


def read_flow(declared: FlowRecord, blocks: int, seen: int) -> Flow:
    """Make the flow of that part of a document."""
    require_index("flow.depth", declared.depth, blocks + 1)
    for index, route in enumerate(declared.routes):
        require_index(f"flow.routes[{index}].block", route.block, blocks)
        for name in ("source", "destination"):
            require_index(f"flow.routes[{index}].{name}", getattr(route, name), seen)
    return Flow(
        read_tensor("flow.by_depth", declared.by_depth, (blocks + 1, seen), torch.float64),
        read_tensor("flow.bias", declared.bias, (blocks + 1,), torch.float64),
        declared.routes,
        declared.depth,
    )
