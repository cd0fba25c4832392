"""The requests, as JSON: each validates itself and is answered with the library's document."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from ..ask.prompt import continue_prompt
from ..attribute.methods import DEFAULT_METHOD, METHODS, TRANSLATION_METHODS
from ..document.kinds import Document
from ..errors import InputError
from ..inside.neurons import neurons
from ..models.model import Model
from ..pipeline.one_continuation import explain_continuation
from ..pipeline.one_prompt import compare, explain, predict
from ..pipeline.one_translation import explain_translation
from ..results.account import describe_fully
from ..results.continuation import Continuation
from ..results.token_groups import UNITS
from ..tokens import Tokens
from .access import Limits
from .posted_prompts import (
    FORM,
    SEVERAL,
    Choosing,
    DocumentQuestion,
    PostedQuestion,
    Prompting,
    Text,
    TokenIds,
    Turn,
    Word,
    pair_within,
    require_room,
)

__all__ = [
    "DEPTH",
    "Comparing",
    "Continuing",
    "Explaining",
    "Predicting",
    "RankingNeurons",
    "Supporting",
    "Translating",
    "name_method",
]

DEPTH = Field(None, description="Where flow is read: 0 is before block 1; default: a tenth of the blocks.")


def name_method(names: Iterable[str]) -> Any:
    """Declare a field that takes one of several names; the library itself refuses others."""
    return Field(DEFAULT_METHOD, json_schema_extra={"enum": list(names)})


class Predicting(Prompting):
    """The next tokens that the model considers most likely."""

    top: int = Field(10, ge=1, le=100)

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the likeliest tokens."""
        return predict(model, self.read(model, limits), top=self.top).to_dict()


class Explaining(Choosing):
    """Why the target and not the foil, by one method."""

    method: str = name_method(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = DEPTH
    account: bool = Field(False, description="Put MLPs and the embedding on tokens too (heuristic).")
    by: str | None = Field(
        None,
        description="Add up the scores of every sentence, turn or document of the prompt; default: by token.",
        json_schema_extra={"enum": [*UNITS, None]},
    )

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanation, or its sums by part of the prompt."""
        if self.account and self.by is not None:
            raise InputError(f"account was asked for by {self.by}.", "It is of tokens: leave one out.")
        method = "alti-logit" if self.account and "method" not in self.model_fields_set else self.method
        found = explain(
            model,
            self.read(model, limits),
            target=self.target,
            foil=self.foil,
            method=method,
            depth=self.depth,
            parts=self.by if method in METHODS and METHODS[method].erases else None,
        )
        if self.by is not None:
            return found.by(self.by).to_dict()
        return describe_fully(found) if self.account else found.to_dict()


class Comparing(Choosing):
    """Why the target and not the foil, by several methods."""

    methods: Annotated[list[str], SEVERAL] | None = Field(
        None, description="Names of methods; default: one of every kind."
    )

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the comparison."""
        prompt = self.read(model, limits)
        return compare(model, prompt, target=self.target, foil=self.foil, methods=self.methods).to_dict()


class RankingNeurons(Choosing):
    """Which neurons made the model prefer the target to the foil."""

    top: int = Field(10, ge=1, le=100)

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the neurons that raise and lower most."""
        prompt = self.read(model, limits)
        return neurons(model, prompt, target=self.target, foil=self.foil, top=self.top).to_dict()


class Continuing(Prompting):
    """Why every token of a continuation."""

    continuation: Text | TokenIds | None = Field(
        None, description="A text or token ids; default: what the model generates."
    )
    foil: Literal["auto", "runner-up"] | None = Field(
        "auto", description="At each position. auto: the best-ranked rival; runner-up; null: none."
    )
    method: str = name_method(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = DEPTH
    new_tokens: int = Field(12, ge=1)

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanations of all tokens; refuse more numbers than the operator allows."""
        prompt, count = self.measure(model, limits)
        heads = len(model.blocks) * int(model.config.num_attention_heads)
        if (numbers := (len(prompt) + count) * count * heads) > limits.numbers:
            raise InputError(
                f"{count} tokens after {len(prompt):,} give {numbers:,} numbers by head and token.",
                f"This server returns at most {limits.numbers:,}: use fewer new tokens, or a shorter prompt.",
            )
        return self.go_on(model, prompt).to_dict()

    def measure(self, model: Model, limits: Limits) -> tuple[Tokens, int]:
        """Return the prompt and how many tokens follow it; refuse what is too long for the server."""
        prompt, count = self.read(model, limits), self.new_tokens
        if self.continuation is not None:
            given = self.continuation
            count = len(continue_prompt(model, prompt, given) if isinstance(given, str) else given)
            require_room("prompt with its continuation", len(prompt) + count, limits)
        if count > limits.new_tokens:
            raise InputError(
                f"The continuation has {count:,} tokens.",
                f"This server explains at most {limits.new_tokens} new tokens at once.",
            )
        return prompt, count

    def go_on(self, model: Model, prompt: Tokens) -> Continuation:
        """Explain the continuation of a prompt."""
        return explain_continuation(
            model,
            prompt,
            self.continuation,
            foil=self.foil,
            method=self.method,
            depth=self.depth,
            new_tokens=self.new_tokens,
        )


class Supporting(Continuing):
    """Which part of the prompt supports which sentence of an answer."""

    foil: Literal["auto", "runner-up"] | None = Field(
        None, description="null (the default): none; auto: the best rival at each position; or runner-up."
    )
    by: str | None = Field(
        None,
        description="What the prompt is divided into; default: its documents, turns or sentences.",
        json_schema_extra={"enum": [*UNITS, None]},
    )

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the table."""
        prompt, _ = self.measure(model, limits)
        turns = isinstance(self.prompt, list) and isinstance(self.prompt[0], Turn)
        parts = isinstance(self.prompt, DocumentQuestion)
        unit = self.by or ("part" if parts else "turn" if turns else "sentence")
        return self.go_on(model, prompt).by(columns=unit).to_dict()


class PlacedFoil(BaseModel):
    """A word, and which word of the translation it is contrasted with, counted from 1."""

    model_config = FORM
    word: Word
    place: int = Field(ge=1)


class Translating(PostedQuestion):
    """Why every word of a translation."""

    source: Text
    translation: Text | None = Field(None, description="Default: the model's own.")
    foil: PlacedFoil | None = None
    method: str = name_method(TRANSLATION_METHODS)
    source_language: str | None = None
    target_language: str | None = None

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanation of all words."""
        languages = self.source_language, self.target_language
        pair = pair_within(limits, model, self.source, self.translation, languages)
        translation: Any = self.translation
        if translation is None:
            translation = pair.target.ids[pair.first :]
        return explain_translation(
            model,
            self.source,
            translation,
            foil=None if self.foil is None else (self.foil.word, self.foil.place),
            method=self.method,
            source_language=self.source_language,
            target_language=self.target_language,
        ).to_dict()
