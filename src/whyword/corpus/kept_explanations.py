"""Explanations made again from what a run wrote: all of them, or as much as was kept."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from ..attribute.flow import Flow, Route
from ..errors import InputError
from ..ledger import Ledger
from ..results.explanation import Explanation
from ..results.prediction import Choice
from ..tokens import Tokens
from ..tokens.tokens import Token

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["KeptExplanation", "read_explanation"]

_VIEWS = {"block": "blocks", "depth": "blocks", "head": "flow", "routes": "flow"}
"""What must have been kept for a view."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class KeptExplanation(Explanation):
    """An explanation of a row, with its id and what the file says beside the question."""

    id: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    """The columns that were carried along."""
    keep: str = "flow"
    """How much the run wrote: scores, blocks or flow."""

    def __repr__(self) -> str:
        return f"<{self.id}: {super().__repr__()[1:]}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document; refused, in words, where the run did not keep enough for it."""
        self.require("head", "document")
        return super().to_dict()

    def describe(self, by: str | None = None) -> dict[str, Any]:
        """Return the document that shows a view: the explanation's own, or what its scores alone give.

        `by`: block, head, depth, routes, token or word, or a unit that the prompt is divided into.
        """
        if by in (None, "word", "token") and self.keep != "flow":
            return self.by("word").to_dict()
        if by in _VIEWS or by in (None, "word", "token"):
            self.require(by or "word")
            return super().to_dict()
        return self.by(by).to_dict()

    def require(self, view: str, what: str = "view") -> None:
        """Refuse a view that what was kept cannot give."""
        needed = "flow" if what == "document" else _VIEWS.get(view, "scores")
        # Pages and tables of blocks show heads beside them: only all of it is a document again.
        if needed == "scores" or self.keep == "flow":
            return
        wanted = "given as a whole document" if what == "document" else f"shown by {view}"
        lost = "heads and routes" if self.keep == "blocks" else "blocks, depths, heads and routes"
        raise InputError(
            f"Row {self.id!r} cannot be {wanted}: the run kept {self.keep}, without {lost}.",
            "Ask for its scores by token, word or part, or run the file again and keep flow.",
        )

    def show(self, by: str | None = None, top: int | None = None) -> None:
        """Print the terminal view; what was not kept is refused in words."""
        from rich.console import Console

        self.print_to(Console(highlight=False), by, top)

    def print_to(self, console: "Console", by: str | None, top: int | None) -> None:
        """Print the terminal view to a console."""
        from ..view.showing import print_by_kind

        document = self.describe(by)
        print_by_kind(document, console, by if document["schema"] == self.schema else None, top)


@dataclass(frozen=True)
class _Kept:
    """A record that was read, and what is known of its run."""

    record: Mapping[str, Any]
    keep: str

    def tensor(self, name: str, *sizes: int, dtype: torch.dtype = torch.float64) -> Any:
        """Give the numbers of a column as a tensor of some sizes."""
        return torch.tensor([*self.record[name]], dtype=dtype, device="cpu").reshape(sizes)


def read_explanation(record: Mapping[str, Any], keep: str, carried: Mapping[str, Any]) -> KeptExplanation:
    """Make the explanation of a record that was read."""
    kept = _Kept(record, keep)
    tokens = _read_tokens(record)
    blocks, seen = len(record["mlp"]), len(tokens)
    rows = record["scores"] if keep == "scores" else record["by_block"]
    return KeptExplanation(
        id=record["id"],
        columns=dict(carried),
        keep=keep,
        model=record["model"],
        method=record["method"],
        tokens=tokens,
        forced=record["forced"],
        position=record["position"],
        target=Choice(**record["target"]),
        foils=tuple(Choice(**foil) for foil in record["foils"]),
        first_attention=record["first_attention"],
        computed_in=record["computed_in"],
        ledger=_read_ledger(kept, blocks, seen),
        by_block=torch.tensor([*rows], dtype=torch.float32, device="cpu").reshape(-1, seen),
        mixing=kept.tensor("mixing", blocks, seen, dtype=torch.float32)
        if record.get("mixing") is not None
        else None,
        traced=_read_traced(kept, blocks, seen),
    )


def _read_tokens(record: Mapping[str, Any]) -> Tokens:
    names = ("ids", "starts", "ends", "words", "special")
    cells = [record[f"token_{name}"] for name in names]
    none = [None] * len(record["tokens"])
    places = [
        none if record[f"token_{name}"] is None else record[f"token_{name}"]
        for name in ("roles", "turns", "parts")
    ]
    records = tuple(
        Token(id_, text, start, end, word, special, *place)
        for text, id_, start, end, word, special, *place in zip(
            record["tokens"], *cells, *places, strict=True
        )
    )
    return Tokens(record["text"], records, record["start"])


def _read_ledger(kept: _Kept, blocks: int, seen: int) -> Ledger:
    record = kept.record
    by_head = torch.zeros(blocks, 0, seen, dtype=torch.float32, device="cpu")
    if kept.keep == "flow":
        by_head = kept.tensor("by_head", blocks, -1, seen, dtype=torch.float32)
    return Ledger(
        embedding=record["embedding"],
        attention=kept.tensor("attention", blocks),
        attention_bias=kept.tensor("attention_bias", blocks),
        mlp=kept.tensor("mlp", blocks),
        norm_bias=record["norm_bias"],
        unembedding_bias=record["unembedding_bias"],
        total=record["total"],
        logit=record["difference"],
        error=record["ledger_error"],
        by_head=by_head,
    )


def _read_traced(kept: _Kept, blocks: int, seen: int) -> Flow | None:
    """Read flow; of a run that kept scores alone, the one depth that they are read at."""
    record = kept.record
    if record["depth"] is None:
        return None
    depth = record["depth"]
    if kept.keep == "scores":
        flow = torch.full((blocks + 1, seen), torch.nan, dtype=torch.float64, device="cpu")
        bias = torch.full((blocks + 1,), torch.nan, dtype=torch.float64, device="cpu")
        flow[depth], bias[depth] = kept.tensor("scores", seen), record["bias"]
        return Flow(flow, bias, (), depth)
    names = ("blocks", "heads", "sources", "destinations", "amounts")
    cells = [record.get(f"route_{name}") or [] for name in names]
    routes = tuple(Route(*each) for each in zip(*cells, strict=True))
    return Flow(kept.tensor("flow", blocks + 1, seen), kept.tensor("flow_bias", blocks + 1), routes, depth)
