"""The requests, as JSON: each validates itself and is answered with the library's document."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..ask.foil_names import AUTO, RUNNER_UP
from ..ask.prompt import continue_prompt, read_prompt
from ..ask.sentence_pair import pair_up
from ..attribute.methods import DEFAULT_METHOD, METHODS, TRANSLATION_METHODS
from ..document.kinds import Document
from ..errors import InputError
from ..inside.neurons import neurons
from ..models.model import Model
from ..pipeline.one_continuation import explain_continuation
from ..pipeline.one_prompt import ask, compare, explain, predict, require_decoder
from ..pipeline.one_translation import explain_translation, require_translator
from ..results.account import describe_fully
from ..results.explanation import Explanation
from ..results.two_explanations import difference
from ..tokens import Tokens
from .access import Limits

__all__ = [
    "Comparing",
    "Continuing",
    "Differing",
    "Explaining",
    "PostedQuestion",
    "Predicting",
    "RankingNeurons",
    "Translating",
]


def _name_one(names: Iterable[str]) -> Any:
    """Declare a field that takes one of several names; the library itself refuses others."""
    return Field(DEFAULT_METHOD, json_schema_extra={"enum": list(names)})


_FORM = ConfigDict(extra="forbid", strict=True)
Text = Annotated[str, Field(min_length=1)]
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
TokenId = Annotated[int, Field(ge=0, strict=True)]
Word = TokenId | ShortText
_FEW = Field(min_length=1, max_length=32, fail_fast=True)


_DEPTH = Field(None, description="Where flow is read: 0 is before block 1; default: a tenth of the blocks.")


class Turn(BaseModel):
    """One message of a chat."""

    model_config = _FORM
    role: Text
    content: str


class PostedQuestion(BaseModel):
    """What all requests share: each is one question to one model."""

    model_config = _FORM
    model: str | None = Field(None, description="A name that /api/models lists; default: the first of them.")

    def answer(self, model: Model, limits: Limits) -> Document:
        """Run the model and return the document."""
        raise NotImplementedError


class Prompting(PostedQuestion):
    """A question about what comes after a prompt."""

    prompt: Text | Annotated[list[Turn], Field(min_length=1, max_length=200, fail_fast=True)] = Field(
        description="A text, or the turns of a chat."
    )

    def read(self, model: Model, limits: Limits) -> Tokens:
        """Return the prompt's tokens; refuse more of them than the operator allows."""
        prompt = self.prompt if isinstance(self.prompt, str) else [dict(turn) for turn in self.prompt]
        tokens = read_prompt(require_decoder(model), prompt)
        require_room("prompt", len(tokens), limits)
        return tokens


class Choosing(Prompting):
    """A question about a target, and what it is compared with."""

    target: Word | None = Field(None, description="A word or token id; default: the model's first choice.")
    foil: Word | Annotated[list[Word], _FEW] | None = Field(
        "auto",
        description="A word, a token id or several; null: none; auto (the default): the best-ranked rival of "
        "the target's kind; runner-up: the likeliest other token.",
    )

    def read(self, model: Model, limits: Limits) -> Tokens:
        """Return the prompt's tokens, including those that target and foil share at the start."""
        tokens = super().read(model, limits)
        context, _ = ask(model, tokens, self.target, self.foil)
        require_room("prompt with the beginning of target and foil", len(context), limits)
        return tokens


class Predicting(Prompting):
    """The next tokens that the model considers most likely."""

    top: int = Field(10, ge=1, le=100)

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the likeliest tokens."""
        return predict(model, self.read(model, limits), top=self.top).to_dict()


class Explaining(Choosing):
    """Why the target and not the foil, by one method."""

    method: str = _name_one(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = _DEPTH
    account: bool = Field(False, description="Put MLPs and the embedding on tokens too (heuristic).")

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanation."""
        found = explain(
            model,
            self.read(model, limits),
            target=self.target,
            foil=self.foil,
            method="alti-logit" if self.account and "method" not in self.model_fields_set else self.method,
            depth=self.depth,
        )
        return describe_fully(found) if self.account else found.to_dict()


class Differing(Choosing):
    """What another prompt, or another model, changes."""

    versus: Text | Annotated[list[Turn], Field(min_length=1, max_length=200, fail_fast=True)] | None = Field(
        None, description="The other prompt; default: the same one."
    )
    versus_model: str | None = Field(None, description="The other model; default: the same one.")
    method: str = _name_one(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = _DEPTH

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the difference of two prompts."""
        return self.explain_second(self.explain_first(model, limits), model, limits)

    def explain_first(self, model: Model, limits: Limits) -> Explanation:
        """Explain what is changed."""
        if self.versus is None and self.versus_model is None:
            raise InputError("There is nothing to compare with.", "Give another prompt, or another model.")
        prompt = self.read(model, limits)
        return self._explain(model, prompt, self.target, self.foil)

    def explain_second(self, first: Explanation, model: Model, limits: Limits) -> Document:
        """Explain what it is changed into, about the same words, and return the difference."""
        words: dict[str, Any] = {"target": self.target, "foil": self.foil}
        if self.target is None or self.foil in (AUTO, RUNNER_UP):  # the first model chose them
            same = self.versus_model in (None, self.model)
            target, *foils = [each.id if same else each.text for each in (first.target, *first.foils)]
            words = {"target": target, "foil": foils or None}
        other = self.model_copy(update={**words, "prompt": self.versus or self.prompt})
        found = self._explain(model, other.read(model, limits), **words)
        return difference(first, found).to_dict()

    def _explain(self, model: Model, prompt: Tokens, target: Any, foil: Any) -> Explanation:
        return explain(model, prompt, target=target, foil=foil, method=self.method, depth=self.depth)


class Comparing(Choosing):
    """Why the target and not the foil, by several methods."""

    methods: Annotated[list[str], _FEW] | None = Field(
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

    continuation: Text | None = Field(None, description="Default: what the model generates.")
    foil: Literal["auto", "runner-up"] | None = Field(
        "auto", description="At each position. auto: the best-ranked rival; runner-up; null: none."
    )
    method: str = _name_one(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = _DEPTH
    new_tokens: int = Field(12, ge=1)

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanations of all tokens."""
        prompt, count = self.read(model, limits), self.new_tokens
        if self.continuation is not None:
            count = len(continue_prompt(model, prompt, self.continuation))
            require_room("prompt with its continuation", len(prompt) + count, limits)
        if count > limits.new_tokens:
            raise InputError(
                f"The continuation has {count:,} tokens.",
                f"This server explains at most {limits.new_tokens} new tokens at once.",
            )
        heads = len(model.blocks) * int(model.config.num_attention_heads)
        if (numbers := (len(prompt) + count) * count * heads) > limits.numbers:
            raise InputError(
                f"{count} tokens after {len(prompt):,} give {numbers:,} numbers by head and token.",
                f"This server returns at most {limits.numbers:,}: use fewer new tokens, or a shorter prompt.",
            )
        return explain_continuation(
            model,
            prompt,
            self.continuation,
            foil=self.foil,
            method=self.method,
            depth=self.depth,
            new_tokens=self.new_tokens,
        ).to_dict()


class PlacedFoil(BaseModel):
    """A word, and which word of the translation it is contrasted with, counted from 1."""

    model_config = _FORM
    word: Word
    place: int = Field(ge=1)


class Translating(PostedQuestion):
    """Why every word of a translation."""

    source: Text
    translation: Text | None = Field(None, description="Default: the model's own.")
    foil: PlacedFoil | None = None
    method: str = _name_one(TRANSLATION_METHODS)
    source_language: str | None = None
    target_language: str | None = None

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanation of all words."""
        languages = self.source_language, self.target_language
        # Check the length of the source before generating anything.
        pair = pair_up(require_translator(model), self.source, self.translation or self.source, languages)
        require_room("source", len(pair.source), limits)
        require_room("translation", len(pair.target), limits)
        return explain_translation(
            model,
            self.source,
            self.translation,
            foil=None if self.foil is None else (self.foil.word, self.foil.place),
            method=self.method,
            source_language=self.source_language,
            target_language=self.target_language,
        ).to_dict()


def require_room(what: str, tokens: int, limits: Limits) -> None:
    """Refuse more tokens than the operator allows."""
    if tokens > limits.tokens:
        raise InputError(
            f"The {what} has {tokens:,} tokens, but this server accepts at most {limits.tokens:,}.",
            "Shorten it, or start the server with --max-tokens.",
        )
