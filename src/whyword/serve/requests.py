"""The requests, as JSON: each validates itself and is answered with the library's document."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..ask.document_question import ask_documents
from ..ask.prompt import Prompt, continue_prompt, read_prompt
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
from ..results.continuation import Continuation
from ..results.prompt_parts import UNITS
from ..tokens import Tokens
from .access import Limits

__all__ = [
    "DEPTH",
    "Choosing",
    "Comparing",
    "Continuing",
    "Explaining",
    "PostedQuestion",
    "Predicting",
    "RankingNeurons",
    "Supporting",
    "Text",
    "Translating",
    "Turn",
    "name_method",
]


def name_method(names: Iterable[str]) -> Any:
    """Declare a field that takes one of several names; the library itself refuses others."""
    return Field(DEFAULT_METHOD, json_schema_extra={"enum": list(names)})


_FORM = ConfigDict(extra="forbid", strict=True)
Text = Annotated[str, Field(min_length=1)]
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
TokenId = Annotated[int, Field(ge=0, strict=True)]
Word = TokenId | ShortText
_FEW = Field(min_length=1, max_length=32, fail_fast=True)
DEPTH = Field(None, description="Where flow is read: 0 is before block 1; default: a tenth of the blocks.")


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


class NamedDocument(BaseModel):
    """A document that is asked about."""

    model_config = _FORM
    name: ShortText
    text: Text


class DocumentQuestion(BaseModel):
    """Documents, and a question about them; asked in a chat where the model has a template for it."""

    model_config = _FORM
    documents: Annotated[list[NamedDocument], Field(min_length=1, max_length=100, fail_fast=True)]
    question: Text

    def write(self, model: Model) -> Prompt:
        """Return the prompt that a model reads; refuse a name that is there twice."""
        documents = {each.name: each.text for each in self.documents}
        if len(documents) < len(self.documents):
            names = [each.name for each in self.documents]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"Two documents are named {twice!r}.", "Give every document its own name.")
        return ask_documents(model, documents, self.question)


class Prompting(PostedQuestion):
    """A question about what comes after a prompt."""

    prompt: (
        Text | Annotated[list[Turn], Field(min_length=1, max_length=200, fail_fast=True)] | DocumentQuestion
    ) = Field(description="A text, the turns of a chat, or documents with a question about them.")

    def read(self, model: Model, limits: Limits) -> Tokens:
        """Return the prompt's tokens; refuse more of them than the operator allows."""
        prompt: Prompt = [dict(turn) for turn in self.prompt] if isinstance(self.prompt, list) else ""
        if isinstance(self.prompt, DocumentQuestion):
            prompt = self.prompt.write(require_decoder(model))
        elif isinstance(self.prompt, str):
            prompt = self.prompt
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

    method: str = name_method(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = DEPTH
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
    method: str = name_method(METHODS)
    depth: Annotated[int, Field(ge=0, strict=True)] | None = DEPTH
    new_tokens: int = Field(12, ge=1)

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanations of all tokens."""
        return self.go_on(model, limits).to_dict()

    def go_on(self, model: Model, limits: Limits) -> Continuation:
        """Explain the continuation, within the limits of the server."""
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
        by = "turn" if isinstance(self.prompt, list) else "sentence"
        unit = self.by or ("part" if isinstance(self.prompt, DocumentQuestion) else by)
        return self.go_on(model, limits).by(columns=unit).to_dict()


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
    method: str = name_method(TRANSLATION_METHODS)
    source_language: str | None = None
    target_language: str | None = None

    def answer(self, model: Model, limits: Limits) -> Document:
        """Return the explanation of all words."""
        languages = self.source_language, self.target_language
        # Check the length of the source before generating anything.
        pair = pair_up(require_translator(model), self.source, self.translation or self.source, languages)
        require_room("source", len(pair.source), limits)
        translation: Any = self.translation
        if translation is None:  # it may be longer than its source
            pair = pair_up(model, self.source, None, languages)
            translation = pair.target.ids[pair.first :]
        require_room("translation", len(pair.target), limits)
        return explain_translation(
            model,
            self.source,
            translation,
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
