"""The page over a run: its rows in an order, and the explanation of one; no model is loaded."""

import socket
from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any

import uvicorn
from fastapi import FastAPI, Query, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from .. import __version__
from ..corpus.opened_run import OpenedRun
from ..corpus.sorted_rows import RowTable, list_rows
from .access import Access
from .answering import add_errors, encode, respond
from .assets import read_assets
from .guard import Guard
from .slow_requests import limit_headers

__all__ = ["host_run", "make_run_application", "make_run_server"]

_PAGE = "run_browser.html"


def make_run_application(run: OpenedRun, access: Access) -> ASGIApp:
    """Make the application that shows a run on a page."""
    application = FastAPI(
        title="whyword", version=__version__, openapi_url=None, docs_url=None, redoc_url=None
    )
    add_errors(application)
    assets = read_assets()

    @lru_cache
    def sorted_by(method: str) -> RowTable:
        return list_rows(run, method)

    @application.get("/")
    def page() -> Response:
        return assets[_PAGE].respond()

    @application.get("/assets/{name}")
    def asset(name: str) -> Response:
        if name not in assets:
            raise HTTPException(404)
        return assets[name].respond()

    @application.get("/api/run")
    def about() -> Response:
        table = sorted_by(run.methods[0])
        known: dict[str, Any] = {**run.summary(), "names": list(run.methods), "keep": run.settings["keep"]}
        return respond(encode({**known, "folder": run.folder.name, "parts": list(table.shares)}))

    @application.get("/api/rows")
    def rows(
        method: str | None = None,
        sort: str = "row",
        descending: bool = False,
        offset: Annotated[int, Query(ge=0)] = 0,
        count: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        table = sorted_by(method or run.methods[0])
        found = table.page(sort, descending, offset, count)
        return respond(encode({"total": len(table), "offset": offset, "rows": found}))

    @application.get("/api/row")
    def row(id: str, method: str | None = None) -> Response:
        return respond(encode(run[id, method or run.methods[0]].describe()))

    return Guard(application, access)


def host_run(run: OpenedRun, access: Access, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Serve a run until interrupted; `ready` is called when the port answers."""
    make_run_server(run, access, ready).run(sockets=[opened])


def make_run_server(run: OpenedRun, access: Access, ready: Callable[[], None]) -> uvicorn.Server:
    """Make the server of a run's page."""
    config = uvicorn.Config(
        make_run_application(run, access),
        http=limit_headers(access.limits.patience),
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

    return Server(config)
