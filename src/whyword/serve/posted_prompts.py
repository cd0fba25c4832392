"""Prompts as they are posted: a text, token ids, chat turns, documents with a question; target and foils."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ..ask.document_question import ASKED, ask_documents, put_in_chat
from ..ask.filled_prompt import fill
from ..ask.prompt import Prompt, read_prompt
from ..ask.sentence_pair import Pair, pair_up
from ..document.kinds import Document
from ..errors import InputError
from ..models.model import Model
from ..pipeline.one_prompt import ask, require_decoder
from ..pipeline.one_translation import require_translator
from ..tokens import Tokens
from .access import Limits

__all__ = [
    "FORM",
    "SEVERAL",
    "Choosing",
    "DocumentQuestion",
    "PostedQuestion",
    "Prompting",
    "Text",
    "TokenIds",
    "Turn",
    "Turns",
    "Word",
    "pair_within",
    "require_room",
]

FORM = ConfigDict(extra="forbid", strict=True)
Text = Annotated[str, Field(min_length=1)]
ShortText = Annotated[str, Field(min_length=1, max_length=200)]
TokenId = Annotated[int, Field(ge=0, strict=True)]
Word = TokenId | ShortText
TokenIds = Annotated[list[TokenId], Field(min_length=1, fail_fast=True)]
SEVERAL = Field(min_length=1, max_length=32, fail_fast=True)
"""The length of a list of words or names."""


class Turn(BaseModel):
    """One message of a chat."""

    model_config = FORM
    role: Text
    content: str


Turns = Annotated[list[Turn], Field(min_length=1, max_length=200, fail_fast=True)]


class PostedQuestion(BaseModel):
    """What all requests share: each is one question to one model."""

    model_config = FORM
    model: str | None = Field(None, description="A name that /api/models lists; default: the first of them.")

    def answer(self, model: Model, limits: Limits) -> Document:
        """Run the model and return the document."""
        raise NotImplementedError


class NamedDocument(BaseModel):
    """A document that is asked about."""

    model_config = FORM
    name: ShortText
    text: Text


class DocumentQuestion(BaseModel):
    """Documents, and a question about them; asked in a chat where the model has a template for it."""

    model_config = FORM
    documents: Annotated[list[NamedDocument], Field(min_length=1, max_length=100, fail_fast=True)]
    question: Text | None = Field(None, description="May be left out where a template does without it.")
    template: Text | None = Field(
        None, description="A text with {documents} and {question}; default: one that fits the model."
    )
    chat: bool = Field(False, description="Whether the template is the user's turn of a chat.")

    def write(self, model: Model) -> Prompt:
        """Return the prompt that a model reads; refuse a name that is there twice."""
        documents = {each.name: each.text for each in self.documents}
        if len(documents) < len(self.documents):
            names = [each.name for each in self.documents]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"Two documents are named {twice!r}.", "Give every document its own name.")
        if self.template is None and self.question is None:
            raise InputError("There is no question about the documents.", "Give one, or a template.")
        if self.template is None and not self.chat:
            return ask_documents(model, documents, self.question or "")
        asked = {} if self.question is None else {"question": self.question}
        filled = fill(self.template or ASKED, documents=documents, **asked)
        return put_in_chat(filled) if self.chat else filled


class Prompting(PostedQuestion):
    """A question about what comes after a prompt."""

    prompt: Text | Turns | TokenIds | DocumentQuestion = Field(
        description="A text, the turns of a chat, token ids, or documents with a question about them."
    )

    def read(self, model: Model, limits: Limits) -> Tokens:
        """Return the prompt's tokens; refuse more of them than the operator allows."""
        tokens = read_prompt(require_decoder(model), self.write(model))
        require_room("prompt", len(tokens), limits)
        return tokens

    def write(self, model: Model) -> Prompt:
        """Return the prompt as the library takes it."""
        if isinstance(self.prompt, DocumentQuestion):
            return self.prompt.write(require_decoder(model))
        if isinstance(self.prompt, str):
            return self.prompt
        return [dict(each) if isinstance(each, Turn) else each for each in self.prompt]  # type: ignore[return-value]


class Choosing(Prompting):
    """A question about a target, and what it is compared with."""

    target: Word | None = Field(None, description="A word or token id; default: the model's first choice.")
    foil: Word | Annotated[list[Word], SEVERAL] | None = Field(
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


def require_room(what: str, tokens: int, limits: Limits) -> None:
    """Refuse more tokens than the operator allows."""
    if tokens > limits.tokens:
        raise InputError(
            f"The {what} has {tokens:,} tokens, but this server accepts at most {limits.tokens:,}.",
            "Shorten it, or start the server with --max-tokens.",
        )


def pair_within(
    limits: Limits,
    model: Model,
    source: str,
    translation: str | None,
    languages: tuple[str | None, str | None],
) -> Pair:
    """Read a source and its translation, or let the model translate, within what the operator allows."""
    # The source is checked before anything is generated; its translation may be longer.
    pair = pair_up(require_translator(model), source, translation or source, languages)
    require_room("source", len(pair.source), limits)
    if translation is None:
        pair = pair_up(model, source, None, languages)
    require_room("translation", len(pair.target), limits)
    return pair
