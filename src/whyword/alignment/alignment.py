"""An alignment, and its JSON document."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from annotated_types import Ge
from jaxtyping import Float
from torch import Tensor

from ..document.kinds import ALIGNMENT_SCHEMA
from ..document.numbers import read_tensor, require_index
from ..errors import InputError
from ..results.shown import Shown
from ..view.sentences import worded
from .confidence import estimate_confidence
from .linking import Linking, climb_recall
from .links import Link, Links, write_links

__all__ = ["Alignment", "AlignmentDocument", "CandidateLink"]


@dataclass(frozen=True, kw_only=True)
class CandidateLink:
    """A link that is made from some recall on."""

    source: Annotated[int, Ge(0)]
    """The word of the source, counted from 0."""
    target: Annotated[int, Ge(0)]
    """The word of the translation, counted from 0."""
    recall: Annotated[float, Ge(0)]
    """From which recall on it is made; 0: the words are each other's best."""
    confidence: Annotated[float, Ge(0)]
    """How likely it is to be right."""


@dataclass(frozen=True, kw_only=True)
class AlignmentDocument:
    """Which words of a source each word of its translation comes from."""

    model: str
    """The model's name."""
    method: str
    """The name of the method."""
    step: str
    """Whether a word was read where it is produced (output) or consumed (input)."""
    block: Annotated[int, Ge(1)] | None
    """The decoder block, counted from 1; null: all together."""
    source: tuple[str, ...]
    """The words of the source."""
    target: tuple[str, ...]
    """The words of the translation."""
    scores: list[list[float]]
    """How much each word of the source has to do with each word of the translation, a row for each."""
    links: tuple[tuple[int, int], ...]
    """Words of source and translation that belong together, counted from 0."""
    confidence: tuple[float, ...] | None = None
    """How likely each link is to be right; null: not known for this method."""
    recall: Annotated[float, Ge(0)] | None = None
    """The recall that links were chosen at; null: they were chosen otherwise."""
    candidates: tuple[CandidateLink, ...] | None = None
    """All links that a higher recall would make, and those that there are; null: `recall` is."""


@dataclass(frozen=True, eq=False, repr=False)
class Alignment(Shown):
    """Which words of a source each word of its translation comes from."""

    schema: ClassVar[str] = ALIGNMENT_SCHEMA
    model: str
    method: str
    step: str
    """Whether a word was read where it is produced (output) or consumed (input)."""
    block: int | None
    """The decoder block, counted from 1; None: all together."""
    source: tuple[str, ...]
    """The words of the source."""
    target: tuple[str, ...]
    """The words of the translation."""
    scores: Float[Tensor, "target source"]
    """How much each word of the source has to do with each word of the translation; float32."""
    links: tuple[Link, ...]
    """Words of source and translation that belong together, counted from 0."""
    confidence: tuple[float, ...] | None = None
    """How likely each link is to be right, by confidence.py; None: not known for this method."""
    linking: Linking | None = None
    """How links were chosen, where scores are evidence; None: otherwise."""

    def __repr__(self) -> str:
        where = "all blocks" if self.block is None else f"block {self.block}"
        return (
            f"<Alignment: {len(self.source)} × {len(self.target)} words, {len(self.links)} links; "
            f"{self.method}, {where}, on {self.model}>"
        )

    def to_pharaoh(self) -> str:
        """Return the links as a line of a pharaoh file: `0-0 1-2`, words counted from 0."""
        return write_links([Links(frozenset(self.links))], "pharaoh").rstrip("\n")

    def to_talp(self) -> str:
        """Return the links as a line of a talp file: `1-1 2-3`, words counted from 1."""
        return write_links([Links(frozenset(self.links))], "talp").rstrip("\n")

    @worded
    def to_dict(self) -> dict[str, Any]:
        """Return the JSON document."""
        return {
            "schema": self.schema,
            "model": self.model,
            "method": self.method,
            "step": self.step,
            "block": self.block,
            "source": list(self.source),
            "target": list(self.target),
            "scores": self.scores.tolist(),
            "links": [list(link) for link in self.links],
            "confidence": None if self.confidence is None else list(self.confidence),
            "recall": None if self.linking is None else self.linking.recall,
            "candidates": None if self.linking is None else self._list_candidates(self.linking.null),
        }

    def _list_candidates(self, null: float) -> list[dict[str, Any]]:
        """List the links of the highest recall: what a slider between precision and recall chooses from."""
        ladder = climb_recall(self.scores, null)
        confidence = estimate_confidence(self.scores, [link for link, _ in ladder])
        return [
            {"source": own, "target": other, "recall": least, "confidence": likely}
            for ((own, other), least), likely in zip(ladder, confidence, strict=True)
        ]

    @classmethod
    def _from_declared(cls, declared: AlignmentDocument) -> "Alignment":
        sizes = len(declared.target), len(declared.source)
        scores = read_tensor("scores", declared.scores, sizes)
        for index, (own, other) in enumerate(declared.links):
            require_index(f"links[{index}][0]", own, sizes[1])
            require_index(f"links[{index}][1]", other, sizes[0])
        require_same_length(declared)
        return cls(
            model=declared.model,
            method=declared.method,
            step=declared.step,
            block=declared.block,
            source=declared.source,
            target=declared.target,
            scores=scores,
            links=declared.links,
            confidence=declared.confidence,
            linking=None if declared.recall is None else Linking(recall=min(declared.recall, 1.0)),
        )


def require_same_length(declared: AlignmentDocument) -> None:
    """Refuse confidences that are not one for each link."""
    if declared.confidence is not None and len(declared.confidence) != len(declared.links):
        raise InputError(
            f"confidence has {len(declared.confidence)} numbers, but there are {len(declared.links)} links.",
            "There is one for each link, or null.",
        )
