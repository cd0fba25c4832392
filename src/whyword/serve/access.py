"""Who may ask, and how much: what the operator decides."""

from collections.abc import Collection
from dataclasses import dataclass

__all__ = ["LOCAL", "LOOPBACK", "Access", "Limits"]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Limits:
    """How much may be asked for at once."""

    tokens: int = 1024
    """Of a prompt, a source, or a translation."""
    new_tokens: int = 100
    """Of a continuation, generated or given."""
    numbers: int = 4_000_000
    """Of a document: those by head of a continuation grow with the product of its length and the prompt's."""
    body: int = 256 * 1024
    """Bytes of a request."""
    waiting: int = 16
    """Runs that wait or go on, of all models together; more are refused."""


@dataclass(frozen=True)
class Access:
    """Under which names the server is asked, and how much."""

    names: Collection[str] = ("localhost", LOOPBACK, "::1")
    """In lower case."""
    any_address: bool = False
    """Whether any numeric address will do: where the server listens on all of them."""
    limits: Limits = Limits()


LOCAL = Access()
"""For this machine only."""
