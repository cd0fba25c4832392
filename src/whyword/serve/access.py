"""Access: who may send requests, and how large they may be. The operator decides."""

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["LOCAL", "LOOPBACK", "Access", "Limits"]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Limits:
    """Limits of one request."""

    tokens: int = 1024
    """Most tokens of a prompt, a source, or a translation."""
    new_tokens: int = 100
    """Most tokens of a continuation, generated or given."""
    numbers: int = 4_000_000
    """Most numbers of a document: those by head grow with the length of prompt × continuation."""
    body: int = 256 * 1024
    """Most bytes of a request."""
    patience: float = 10.0
    """Seconds for the headers of a request, and for its body; slower connections are closed."""
    waiting: int = 16
    """Most runs that wait or are running, over all models; more are refused."""


@dataclass(frozen=True)
class Access:
    """The host names that the server answers to, and its limits."""

    names: Collection[str] = ("localhost", LOOPBACK, "::1")
    """Host names, in lower case."""
    any_address: bool = False
    """Whether any numeric address is accepted: where the server listens on all of them."""
    limits: Limits = Limits()


LOCAL = Access()
"""For this machine only."""
