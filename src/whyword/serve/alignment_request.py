"""The request for a word alignment."""

from typing import Annotated, Literal

from pydantic import Field

from ..alignment.aligner import align
from ..alignment.linking import RECALL
from ..document.kinds import Document
from ..models.model import Model
from .access import Limits
from .posted_prompts import PostedQuestion, Text, pair_within

__all__ = ["Aligning"]


class Aligning(PostedQuestion):
    """Which word of the source each word of a translation comes from."""

    source: Text
    translation: Text | None = Field(None, description="Default: the model's own.")
    recall: Annotated[float, Field(ge=0, le=1)] = Field(
        RECALL, description="0: words that are each other's best alone; the higher, the more links."
    )
    words: Literal["auto", "spaces", "characters"] = Field("auto", description="What texts are split into.")
    source_language: str | None = None
    target_language: str | None = None

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the links, with those that other recalls would make."""
        languages = self.source_language, self.target_language
        pair = pair_within(limits, model, self.source, self.translation, languages)
        translation = self.translation
        if translation is None:
            translation = "".join(token.text for token in pair.target if not token.special).strip()
        return align(
            model,
            self.source,
            translation,
            recall=self.recall,
            words=self.words,
            source_language=self.source_language,
            target_language=self.target_language,
        ).to_dict()
