"""Serve the application on a port of this machine."""

import ipaddress
import socket
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import uvicorn

from ..errors import InputError
from ..models.model import Model
from .access import LOCAL, Access
from .guard import read_name
from .routes import make_application, make_desk
from .slow_requests import limit_headers

__all__ = ["host", "is_loopback", "make_access", "make_server", "open_socket"]

_PATIENCE = 2
"""Seconds that pending answers get when the server is stopped."""


def host(models: Sequence[Model], access: Access, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until interrupted; `ready` is called when the port answers."""
    make_server(models, access, ready).run(sockets=[opened])


def make_server(
    models: Sequence[Model], access: Access, ready: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """Make a server that trusts no proxy headers and does not identify itself."""
    desk = make_desk(models, access)
    config = uvicorn.Config(
        make_application(models, access, desk),
        http=limit_headers(access.limits.patience),  # h11 is strict about malformed requests
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        ws="none",
        lifespan="on",
        timeout_graceful_shutdown=_PATIENCE,
    )

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            desk.stop()  # so that pending answers end
            await super().shutdown(sockets)

    return Server(config)


def open_socket(address: str, port: int) -> socket.socket:
    """Open a port (0: any free one), or refuse one that is in use."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family)
    if sys.platform == "win32":  # there SO_REUSEADDR would open a port that another server listens on
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((address, port))
    except (OSError, OverflowError) as error:
        opened.close()
        raise InputError(
            f"{address} port {port} cannot be used: {getattr(error, 'strerror', None) or error}.",
            "Choose another one with --port; 0 takes any free port.",
        ) from None
    return opened


def make_access(address: str, names: Collection[str] = (), access: Access = LOCAL) -> Access:
    """Accept the server's address and the names that the operator allowed."""
    local = is_loopback(address)
    own = (address,) if local else (address, socket.gethostname())
    every = {*access.names, *map(_normalise, names), *(name.lower() for name in own)}
    return replace(access, names=frozenset(every), any_address=not local)


def _normalise(name: str) -> str:
    """Write a name as browsers send it: without its port, in ASCII."""
    try:
        bare = read_name(name if name.isascii() else name.encode("idna").decode())
    except UnicodeError:
        bare = ""
    if not bare:
        raise InputError(f"{name!r} is not a host name.", "Use a name such as lab.example.")
    return bare


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
