"""Connections with time limits, and a limit on their number, so that clients can't hold them open for nothing."""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

MAX_CONNECTIONS = 100
"""Maximum number of open connections. The lowest default limit of open files per process is 256, on macOS."""
MAX_ACCEPTED = 16
"""Number of connections that asyncio accepts at once; it repeats this a few times before the first can be closed."""
REQUEST_SECONDS = 10.0
"""Time limit for sending a request, from the connection or the last response on."""
RESPONSE_SECONDS = 120.0
"""Time limit for reading a response. A system takes the next bytes when a third of its buffer is free, which can take
half a minute on a slow line.
"""


class LimitedProtocol(H11Protocol):
    """An HTTP connection that is closed if its client neither completes a request nor reads a response.

    uvicorn closes a connection that is silent after a response. But it waits forever for the rest of an incomplete
    request, and for a client that does not read, and it accepts any number of connections.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self._timer: asyncio.TimerHandle | None = None
        self._waits_since = 0.0
        self._last_state: tuple[Any, int] = (None, 0)
        self._last_change = 0.0

    @property
    def _unread(self) -> int:
        """Number of response bytes that the client has not read yet."""
        return int(self.transport.get_write_buffer_size())

    @property
    def _is_computing(self) -> bool:
        """Whether a complete request has arrived, and its response is in progress."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer. If there are too many connections, close the one that has waited longest for a request."""
        super().connection_made(transport)
        self._waits_since = self._last_change = self.loop.time()
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._check)
        if len(self.connections) > MAX_CONNECTIONS:
            peers = [each for each in self.connections if isinstance(each, LimitedProtocol)]
            waiting = [each for each in peers if not each._is_computing and not each._unread]  # this one, too
            min(waiting, key=lambda each: each._waits_since)._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        """Restart the wait for the next request."""
        self._waits_since = self.loop.time()
        super().on_response_complete()

    def _check(self) -> None:
        """Close the connection if its client has neither completed a request nor read from a response for too long."""
        state, now = (self.cycle, self._unread), self.loop.time()
        is_making = self._is_computing and not self._unread
        if is_making or state != self._last_state:
            self._last_state, self._last_change = state, now
        elif now - self._last_change > (RESPONSE_SECONDS if self._unread else REQUEST_SECONDS) - 0.001:
            self._abort()
            return
        self._timer = self.loop.call_later(REQUEST_SECONDS, self._check)

    def _abort(self) -> None:
        self.connections.discard(self)  # `connection_lost` would do it later
        self.transport.abort()
