"""A question about documents: in a chat where the model has a template for it, otherwise as text."""

from collections.abc import Mapping
from typing import Any

from ..models.model import Model
from .filled_prompt import FilledPrompt, fill
from .prompt import Prompt

__all__ = ["ASKED", "ASKED_IN_TEXT", "ask_documents", "put_in_chat"]

ASKED = "Context:\n{documents}\n\nQuestion: {question}"
"""How a question about documents is put to a model in a chat."""
ASKED_IN_TEXT = f"{ASKED}\nAnswer:"
"""How it is put to a model without a chat template."""


def ask_documents(model: Model, documents: Mapping[str, str], question: str) -> Prompt:
    """Make a prompt of documents, by name, and a question about them; each is a part of it."""
    fields: dict[str, Any] = {"documents": documents, "question": question}
    if getattr(model.tokenizer, "chat_template", None) is None:
        return fill(ASKED_IN_TEXT, **fields)
    return put_in_chat(fill(ASKED, **fields))


def put_in_chat(content: str | FilledPrompt) -> Prompt:
    """Make a chat of one turn of the user."""
    return [{"role": "user", "content": content}]
