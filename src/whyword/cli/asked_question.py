"""What `whyword explain` asks of every model, and how a model answers it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..attribute.methods import METHODS
from .reporting import show_progress
from .sources import Source

if TYPE_CHECKING:
    from ..models import Model
    from ..results.continuation import Continuation
    from ..results.explanation import Explanation
    from ..results.shown import Shown

__all__ = ["OWN_ANSWER", "AskedQuestion"]

OWN_ANSWER = 60
"""Tokens of the model's own answer about documents."""


@dataclass(frozen=True)
class AskedQuestion:
    """What is asked of every model."""

    source: Source
    target: str | int | None
    foil: Any
    """A list of words or ids, "auto", or None."""
    methods: Sequence[str]
    depth: int | None
    new_tokens: int | None
    """How many tokens are generated; None without `said`: explain the next token only."""
    said: str | list[int] | None
    """The continuation to explain."""
    parts: str | None
    """What the prompt is divided into."""
    max_memory: str | None

    def answer(self, model: "Model") -> "Iterator[Shown]":
        """Explain by every method."""
        doing = f"Explaining with {model.name} …"
        if self.new_tokens is None and self.said is None:
            with show_progress(doing):
                found = self._explain_token(model)
            yield from found if self.parts is None else (each.by(self.parts) for each in found)
            return
        for method in self.methods:
            with show_progress(doing):
                continued = self._explain_answer(model, method)
                shown = continued.complete() if self.parts is None else continued.by(columns=self.parts)
            yield shown

    def _explain_token(self, model: "Model") -> "list[Explanation]":
        from ..pipeline.one_prompt import compare

        erasing = self.parts is not None and any(METHODS[method].erases for method in self.methods)
        compared = compare(
            model,
            self.source.prompt(model),
            target=self.target,
            foil=self.foil,
            methods=self.methods,
            depth=self.depth,
            parts=self.parts if erasing else None,
            max_memory=self.max_memory,
        )
        return [compared[method] for method in self.methods]

    def _explain_answer(self, model: "Model", method: str) -> "Continuation":
        from ..pipeline.one_continuation import explain_continuation

        return explain_continuation(
            model,
            self.source.prompt(model),
            self.said,
            foil=self.foil[0] if isinstance(self.foil, list) else self.foil,
            method=method,
            depth=self.depth,
            new_tokens=self.new_tokens or OWN_ANSWER,
            max_memory=self.max_memory,
        )
