"""The outermost layer of the application: it decides which requests are let in.

A page of another site can make a browser send requests to a server on this machine. Three checks keep it out:
the Host header must be one of this server's names (not a foreign name that was made to resolve to this
machine: DNS rebinding), the Origin of a POST must be the page's own, and its body must be declared as JSON,
which a browser does not send across sites without asking first (CORS preflight).
"""

import asyncio
import ipaddress
import json
import re
from dataclasses import dataclass

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import Access

__all__ = ["Guard", "read_name", "refuse"]

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}
_READING = ("GET", "HEAD")
_HOST = re.compile(r"(?:\[(?P<address>[0-9a-f:.]+)\]|(?P<name>[^\s:/?#@\[\]\\]+))(?::\d{1,5})?")


def refuse(status: int, wrong: str, remedy: str, retry: int | None = None) -> Response:
    """Answer with an error: what is wrong, and what to do."""
    content = json.dumps({"error": {"wrong": wrong, "remedy": remedy}})
    headers = None if retry is None else {"Retry-After": str(retry)}
    return Response(content, status, headers, "application/json")


@dataclass(frozen=True)
class Guard:
    """Checks requests before the application sees them, and adds the security policy to every answer."""

    app: ASGIApp
    access: Access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        refused = self._check(scope["method"], headers)
        body = b""
        if refused is None and scope["method"] not in _READING:
            try:
                read = await asyncio.wait_for(
                    _read(receive, self.access.limits.body), self.access.limits.patience
                )
            except asyncio.TimeoutError:
                wrong = f"The request did not arrive within {self.access.limits.patience:g} seconds."
                late = refuse(408, wrong, "Send its body at once.")
                late.headers["Connection"] = "close"
                await late(scope, receive, send_guarded)
                return
            if read is None:
                return  # the client disconnected: nobody waits for an answer
            body = read
            if len(body) > self.access.limits.body:
                wrong = f"The request is larger than {self.access.limits.body:,} bytes."
                refused = refuse(413, wrong, "Shorten the text.")
        if refused is not None:
            await refused(scope, receive, send_guarded)
            return
        await self.app(scope, _replay(body, receive), send_guarded)

    def _check(self, method: str, headers: Headers) -> Response | None:
        host = headers.get("host", "")
        if not self._is_own(host):
            return refuse(
                403,
                f"{host!r} is not a name of this server.",
                "Use the address that `whyword serve` printed, or start it with --allow-host NAME.",
            )
        if method in _READING:
            return None
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "same-origin")
        own = (f"http://{host}".lower(), f"https://{host}".lower())  # a proxy may add TLS
        if (origin is not None and origin.lower() not in own) or site not in ("same-origin", "none"):
            return refuse(
                403,
                f"The request comes from another site: {origin!r}.",
                "Ask from this server's own page.",
            )
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            return refuse(
                415, f"The body is declared as {kind!r}.", "Send JSON, with Content-Type: application/json."
            )
        return None

    def _is_own(self, host: str) -> bool:
        name = read_name(host)
        return name in self.access.names or (self.access.any_address and _is_address(name))


def read_name(host: str) -> str:
    """Return the name in a Host header, without its port; empty if it is not a name."""
    found = _HOST.fullmatch(host.lower())
    return "" if found is None else (found["address"] or found["name"])


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


async def _read(receive: Receive, most: int) -> bytes | None:
    """Read a body, up to slightly more than the limit; None if the client disconnects."""
    parts: list[bytes] = []
    size, more = 0, True
    while more and size <= most:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        more = message.get("more_body", False)
    return b"".join(parts)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a body that was already read, and then what follows it."""
    replayed = False

    async def receive_again() -> Message:
        nonlocal replayed
        if replayed:
            return await receive()
        replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
