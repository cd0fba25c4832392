"""Put the application on a port of this machine."""

import ipaddress
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import uvicorn

from ..errors import InputError
from ..models.model import Model
from .access import LOCAL, Access
from .application import make_application

__all__ = ["LOOPBACK", "host", "is_loopback", "make_access", "make_server", "open_socket"]

LOOPBACK = "127.0.0.1"
_PATIENCE = 2
"""Seconds that answers may still take when the server is stopped."""


def host(models: Sequence[Model], access: Access, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Serve until the process is interrupted; `ready` is called when the port answers."""
    make_server(models, access, ready).run(sockets=[opened])


def make_server(
    models: Sequence[Model], access: Access, ready: Callable[[], None] = lambda: None
) -> uvicorn.Server:
    """Make a server that trusts no headers of proxies and tells nothing about itself."""
    config = uvicorn.Config(
        make_application(models, access),
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

    return Server(config)


def open_socket(address: str, port: int) -> socket.socket:
    """Take a port, 0: any free one; say so where it is taken."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    opened = socket.socket(family)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((address, port))
    except (OSError, OverflowError) as error:
        opened.close()
        raise InputError(
            f"{address} port {port} cannot be used: {getattr(error, 'strerror', None) or error}.",
            "Give another one with --port; 0 takes any that is free.",
        ) from None
    return opened


def make_access(address: str, names: Collection[str] = (), access: Access = LOCAL) -> Access:
    """Let the server be asked by its address and by the names the operator gave."""
    local = is_loopback(address)
    own = () if local else (address, socket.gethostname())
    every = frozenset(name.lower() for name in (*access.names, *names, *own))
    return replace(access, names=every, any_address=not local)


def is_loopback(address: str) -> bool:
    """Tell an address that only this machine reaches from others."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
