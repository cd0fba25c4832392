"""Close connections whose request does not arrive: a limit for headers, as the guard has one for bodies."""

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["limit_headers"]


def limit_headers(seconds: float) -> type[H11Protocol]:
    """Make a protocol that waits this long for the headers of a request, however slowly they arrive."""

    class LimitedProtocol(H11Protocol):
        _limit: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _watch(self) -> None:
            """Start to wait where the headers of a request are not complete, once for each request."""
            if self.conn.their_state is not h11.IDLE:
                self._stop()
            elif self._limit is None:
                self._limit = self.loop.call_later(seconds, self._close)

        def _stop(self) -> None:
            if self._limit is not None:
                self._limit.cancel()
                self._limit = None

        def _close(self) -> None:
            if self.conn.their_state is h11.IDLE:
                self.transport.close()

    return LimitedProtocol
