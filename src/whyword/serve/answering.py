"""Answers: a document, lines of progress with the document last, or an error in the same form everywhere."""

import json
import logging
from collections.abc import AsyncIterator
from dataclasses import asdict

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ..document.kinds import Document
from ..errors import WhywordError
from ..runs.progress import report
from .guard import refuse
from .work import BusyError, Cancelled, Job, Progress, follow

__all__ = ["add_errors", "encode", "respond", "write_document", "write_lines"]

_logger = logging.getLogger("whyword.serve")
GIVEN_UP = 499
"""Status of a request whose client has disconnected; nobody reads it."""
_FAILED = "The server failed.", "Its log says why."
_SEE = "See /api/openapi.json for what can be asked."


def respond(written: bytes) -> Response:
    """Answer with a document."""
    return Response(written, media_type="application/json")


def encode(document: Document) -> bytes:
    """Encode a document; a continuation in parts, since one long call would block all other threads."""
    if "explanations" not in document:
        return _encode(document)
    parts = []
    for done, part in enumerate(document["explanations"]):
        parts.append(_encode(part))
        report("explanations written", done + 1, len(document["explanations"]))
    rest = _encode({name: value for name, value in document.items() if name != "explanations"})
    return rest[:-1] + b',"explanations":[' + b",".join(parts) + b"]}"


async def write_document(request: Request, job: Job) -> Response:
    """Wait for a run and answer with its document."""
    try:
        async for event in follow(job, request.is_disconnected):
            if not isinstance(event, Progress):
                return respond(event)
    except Cancelled:
        pass
    except Exception as error:
        return refuse(*_explain(error))
    return Response(status_code=GIVEN_UP)


async def write_lines(request: Request, job: Job) -> AsyncIterator[bytes]:
    """Write progress as it comes, and the document or the error last."""
    try:
        async for event in follow(job, request.is_disconnected):
            if isinstance(event, Progress):
                yield _encode({"progress": asdict(event)}) + b"\n"
            else:
                yield b'{"document":' + event + b"}\n"
    except Cancelled:
        return
    except Exception as error:
        status, wrong, remedy = _explain(error)
        yield _encode({"error": {"status": status, "wrong": wrong, "remedy": remedy}}) + b"\n"


def _explain(error: Exception) -> tuple[int, str, str]:
    """Return the status and the two lines of a run's error; unexpected errors are only logged."""
    if isinstance(error, WhywordError):
        return 422, error.wrong, error.remedy
    _logger.error("A run failed.", exc_info=error)
    return 500, *_FAILED


def add_errors(application: FastAPI) -> None:
    """Answer every error in the same form, without a traceback."""

    @application.exception_handler(WhywordError)
    async def tell(_: Request, error: WhywordError) -> Response:
        return refuse(422, error.wrong, error.remedy)

    @application.exception_handler(RequestValidationError)
    async def tell_invalid(_: Request, error: RequestValidationError) -> Response:
        # The deepest error is the most specific; of alternative types, take the one that the value has.
        found = max(error.errors(), key=lambda each: (len(each["loc"]), not each["type"].endswith("_type")))
        # The names of alternative types stand between those of fields: "list[Turn]".
        names = [str(part) for part in found["loc"][1:] if str(part).isidentifier() or isinstance(part, int)]
        return refuse(422, f"{'.'.join(names) or 'The body'}: {found['msg']}.", _SEE)

    @application.exception_handler(BusyError)
    async def tell_busy(_: Request, busy: BusyError) -> Response:
        return refuse(503, busy.wrong, busy.remedy, busy.seconds)

    @application.exception_handler(HTTPException)
    async def tell_http(request: Request, error: HTTPException) -> Response:
        wrong = f"{request.method} {request.url.path}: {error.detail}."
        answer = refuse(error.status_code, wrong, _SEE)
        answer.headers.update(error.headers or {})
        return answer

    @application.exception_handler(Exception)
    async def tell_failed(_: Request, error: Exception) -> Response:
        return refuse(500, *_FAILED)  # the server logs the traceback


def _encode(document: Document) -> bytes:
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
