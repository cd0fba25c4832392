"""Ask a running server from another process, without importing what runs models.

Requests go to the named address itself: the proxies of the environment are not for servers of this machine,
and an answer that points elsewhere is not followed.
"""

import base64
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import InputError
from ..runs.progress import report

__all__ = ["Server", "reach_server"]

_PATIENCE = 5
"""Seconds to wait for a connection, and for what a server says of itself; runs may take longer."""
_AGAIN = "See whether whyword serve is still running, then try again."
_NOT_OURS = "Give the address that `whyword serve` printed."


@dataclass(frozen=True)
class Server:
    """A server that answered, and what it said of itself."""

    url: SplitResult
    version: str
    models: list[str]
    """The names of its models, the default first."""

    @property
    def address(self) -> str:
        """Its address for people, without a password."""
        return _name(self.url)

    def ask(self, route: str, question: Mapping[str, Any]) -> dict[str, Any]:
        """Post a question and return the document; progress is reported as by a run of this process."""
        headers = {"Content-Type": "application/json", "Accept": "application/x-ndjson"}
        with _open(self.url, None) as connection:
            connection.request("POST", _path(self.url, route), json.dumps(question), _sign(self.url, headers))
            answer = connection.getresponse()
            if answer.status != http.client.OK:
                raise _read_refusal(answer, self.address)
            for line in answer:
                said = json.loads(line)
                if "error" in said:
                    raise InputError(said["error"]["wrong"], said["error"]["remedy"])
                if "document" in said:
                    document: dict[str, Any] = said["document"]
                    return document
                step = said["progress"]
                report(step["what"], step["done"], step["total"])
        raise InputError(f"The answer of {self.address} ended before it was whole.", _AGAIN)


def reach_server(address: str) -> Server:
    """Ask a server for its version and models; refuse what is not an address, or not our server."""
    url = _read_address(address)
    with _open(url, _PATIENCE) as connection:
        connection.request("GET", _path(url, "models"), headers=_sign(url, {}))
        answer = connection.getresponse()
        if answer.status != http.client.OK:
            raise _read_refusal(answer, _name(url))
        said = json.loads(answer.read())
        return Server(url, str(said["version"]), [str(model["name"]) for model in said["models"]])


def _read_address(address: str) -> SplitResult:
    try:
        url = urlsplit(address)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and (url.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or url.query or url.fragment:
        raise InputError(f"{address!r} is not the address of a server.", "Give http://HOST:PORT.")
    return url


@contextmanager
def _open(url: SplitResult, patience: float | None) -> Iterator[http.client.HTTPConnection]:
    """Open a connection; what breaks it, or an answer that is not of our kind, is told in two lines."""
    secure = url.scheme == "https"
    kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=_PATIENCE)
    try:
        connection.connect()
        connection.sock.settimeout(patience)
        yield connection
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        raise InputError(f"{_name(url)} does not answer: {why}.", _AGAIN) from None
    except (http.client.HTTPException, ValueError, KeyError, TypeError):
        raise InputError(f"What answers at {_name(url)} is not `whyword serve`.", _NOT_OURS) from None
    finally:
        connection.close()


def _path(url: SplitResult, route: str) -> str:
    return f"{url.path.rstrip('/')}/api/{route}"


def _sign(url: SplitResult, headers: Mapping[str, str]) -> dict[str, str]:
    """Add the name and password of an address, which a proxy before the server may ask for."""
    if url.username is None:
        return dict(headers)
    pair = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {**headers, "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}"}


def _name(url: SplitResult) -> str:
    return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path.rstrip('/')}"


def _read_refusal(answer: http.client.HTTPResponse, address: str) -> InputError:
    """Read the two lines of a server's refusal; of another kind of answer, its status."""
    try:
        said = json.loads(answer.read())["error"]
        return InputError(str(said["wrong"]), str(said["remedy"]))
    except (ValueError, KeyError, TypeError):
        return InputError(f"{address} answered {answer.status} {answer.reason}.", _NOT_OURS)
