"""The application: the page, and the JSON routes it asks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import StreamingResponse
from starlette.types import ASGIApp

from .. import __version__
from ..errors import InputError
from ..models.model import Model
from .access import LOCAL, Access, Limits
from .alignment_request import Aligning
from .answering import GIVEN_UP, add_errors, encode, respond, write_document, write_lines
from .assets import read_assets
from .description import ASKED, STREAM, TOLD, describe_server
from .difference_request import Differing
from .guard import Guard
from .posted_prompts import PostedQuestion
from .requests import (
    Comparing,
    Continuing,
    Explaining,
    Predicting,
    RankingNeurons,
    Supporting,
    Translating,
)
from .work import Cancelled, Desk, Job, follow

__all__ = ["make_application", "make_desk"]


def make_application(models: Sequence[Model], access: Access = LOCAL, desk: Desk | None = None) -> ASGIApp:
    """Make the application that answers questions about models, and shows them on a page.

    `desk`: where runs are submitted; None: a new one.
    """
    served = {model.name: model for model in models}
    if len(served) < len(models):
        raise InputError(
            f"Two models have the same name: {', '.join(model.name for model in models)}.",
            "Name each model once, or copy one to a folder of another name.",
        )
    return Guard(
        _add_routes(served, desk or make_desk(models, access), access.limits),
        access,
    )


def make_desk(models: Sequence[Model], access: Access) -> Desk:
    """Make the desk of some models."""
    return Desk([model.name for model in models], access.limits.waiting)


def _add_routes(models: dict[str, Model], desk: Desk, limits: Limits) -> FastAPI:
    @asynccontextmanager
    async def live(_: FastAPI) -> AsyncIterator[None]:
        yield
        desk.close()

    application = FastAPI(
        title="whyword",
        version=__version__,
        summary="Why this word and not that one?",
        openapi_url="/api/openapi.json",
        docs_url=None,  # its pages load scripts from other servers
        redoc_url=None,
        redirect_slashes=False,
        lifespan=live,
    )
    add_errors(application)
    assets, about = read_assets(), encode(describe_server(models, limits))

    def find(name: str | None) -> str:
        found = next(iter(models)) if name is None else name
        if found not in models:
            raise InputError(f"There is no model {found!r} here.", f"Models: {', '.join(models)}.")
        return found

    async def answer(request: Request, question: PostedQuestion) -> Response:
        name = find(question.model)
        return await write(request, desk.submit(name, lambda: encode(question.answer(models[name], limits))))

    async def write(request: Request, job: Job) -> Response:
        if STREAM in request.headers.get("accept", ""):
            return StreamingResponse(write_lines(request, job), media_type=STREAM)
        return await write_document(request, job)

    @application.get("/", include_in_schema=False)
    async def page() -> Response:
        return assets["index.html"].respond()

    @application.get("/assets/{name}", include_in_schema=False)
    async def asset(name: str) -> Response:
        if name not in assets:
            raise HTTPException(404)
        return assets[name].respond()

    @application.get("/api/models", summary="The models, methods and limits of this server", **TOLD)
    async def list_models() -> Response:
        return respond(about)

    @application.post("/api/predict", summary="The most likely next tokens", **ASKED)
    async def predict(request: Request, question: Predicting) -> Response:
        return await answer(request, question)

    @application.post("/api/explain", summary="Why the target and not the foil", **ASKED)
    async def explain(request: Request, question: Explaining) -> Response:
        return await answer(request, question)

    @application.post("/api/compare", summary="The same by several methods", **ASKED)
    async def compare(request: Request, question: Comparing) -> Response:
        return await answer(request, question)

    @application.post("/api/difference", summary="What another prompt, or another model, changes", **ASKED)
    async def difference(request: Request, question: Differing) -> Response:
        name, other = find(question.model), find(question.versus_model or question.model)
        if name == other:
            return await answer(request, question)
        # One after the other, each in the thread of its model: a model is never run in two threads.
        found: list[Any] = []

        def begin() -> bytes:
            found.append(question.explain_first(models[name], limits))
            return b""

        try:
            async for _ in follow(desk.submit(name, begin), request.is_disconnected):
                pass
        except Cancelled:
            return Response(status_code=GIVEN_UP)
        second = lambda: encode(question.explain_second(found[0], models[other], limits))  # noqa: E731
        return await write(request, desk.submit(other, second))

    @application.post("/api/neurons", summary="The neurons that decide", **ASKED)
    async def neurons(request: Request, question: RankingNeurons) -> Response:
        return await answer(request, question)

    @application.post("/api/continue", summary="Why every token of a continuation", **ASKED)
    async def go_on(request: Request, question: Continuing) -> Response:
        return await answer(request, question)

    @application.post("/api/support", summary="Which part of the prompt supports which sentence", **ASKED)
    async def support(request: Request, question: Supporting) -> Response:
        return await answer(request, question)

    @application.post("/api/translate", summary="Why every word of a translation", **ASKED)
    async def translate(request: Request, question: Translating) -> Response:
        return await answer(request, question)

    @application.post("/api/align", summary="Which words of a translation come from which", **ASKED)
    async def align(request: Request, question: Aligning) -> Response:
        return await answer(request, question)

    return application
