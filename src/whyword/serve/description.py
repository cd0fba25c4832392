"""What the server reports about itself: its models, and the types of its answers for OpenAPI."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fastapi import Response

from .. import __version__
from ..attribute.methods import COMPARED, DEFAULT_METHOD, METHODS
from ..models.model import Model
from ..tokens.languages import Languages
from .access import Limits

__all__ = ["ASKED", "STREAM", "TOLD", "describe_server"]

STREAM = "application/x-ndjson"
"""The content type to accept for progress and the document, line by line."""

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["wrong", "remedy"],
            "properties": {"wrong": {"type": "string"}, "remedy": {"type": "string"}},
        }
    },
}
_DOCUMENT = {
    "type": "object",
    "required": ["schema", "model"],
    "properties": {"schema": {"type": "string"}, "model": {"type": "string"}},
}
_SERVER = {
    "type": "object",
    "required": ["version", "models", "methods", "compared", "default_method", "limits"],
}
_LINES = {"type": "string", "description": "One JSON object per line: progress, then document or error."}
_REFUSED = {
    400: "The body is not valid JSON.",
    403: "The host name is not the server's, or the request comes from another site.",
    408: "The body did not arrive in time.",
    413: "The request is larger than the server allows.",
    415: "The body is not declared as JSON.",
    422: "A value is wrong, or there are too many tokens.",
    500: "The server failed.",
    503: "Too many runs are waiting; Retry-After says when to try again.",
}


def _describe_answers(kinds: Mapping[str, Any], codes: Mapping[int, str]) -> dict[str, Any]:
    """Describe the answers of a route."""
    answers: dict[int, dict[str, Any]] = {
        code: {"description": text, "content": {"application/json": {"schema": _ERROR}}}
        for code, text in codes.items()
    }
    content = {kind: {"schema": schema} for kind, schema in kinds.items()}
    answers[200] = {"description": "The document.", "content": content}
    return {"response_class": Response, "responses": answers}


ASKED = _describe_answers({"application/json": _DOCUMENT, STREAM: _LINES}, _REFUSED)
"""Answers of routes that run a model."""
TOLD = _describe_answers({"application/json": _SERVER}, {403: _REFUSED[403]})
"""Answers of routes that run none."""


def describe_server(models: Mapping[str, Model], limits: Limits) -> dict[str, Any]:
    """Describe the models, methods and limits."""
    return {
        "version": __version__,
        "models": [_describe_model(model) for model in models.values()],
        "methods": [
            {"name": name, "translates": method.translated_by is not None, **asdict(method.measure)}
            for name, method in METHODS.items()
        ],
        "compared": list(COMPARED),
        "default_method": DEFAULT_METHOD,
        "limits": asdict(limits),
    }


def _describe_model(model: Model) -> dict[str, Any]:
    tokenizer, translates = model.tokenizer, model.encoder_stack is not None
    languages = Languages(tokenizer) if translates and tokenizer is not None else None
    return {
        "name": model.name,
        "translates": translates,
        "chat": tokenizer is not None and not translates and tokenizer.chat_template is not None,
        "blocks": len(model.blocks),
        "most_tokens": model.most_tokens,
        "source_languages": languages.codes if languages else [],
        "target_languages": languages.codes or languages.marked if languages else [],
    }
