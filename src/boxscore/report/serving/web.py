"""The web application and its server: addresses, headers, and the hosts that are answered.

Nothing is written, nothing is loaded from elsewhere, and no address is ever used as a path.
"""

import errno
import hashlib
import ipaddress
import logging
import os
import re
import socket
from collections.abc import Callable, Iterable

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from boxscore._support.exceptions import InputError
from boxscore.report.serving.connections import MAX_ACCEPTED, LimitedProtocol
from boxscore.report.serving.pages import NotFoundError, Page, Pages, assets, message

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_REPORT_POLICY = "frame-ancestors 'none'"
"""The policy of reports, which list the hashes of their scripts themselves; a page can't restrict its ancestors."""
_HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-cache",
}


_HOST = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s\[\]:/?#@]+))(?::[0-9]{1,5})?")
"""A header `Host`: an IPv6 address in brackets, or a name or IPv4 address; then optionally a port."""


_BACKLOG = 128
"""Maximum number of connections that wait to be accepted."""


class HostCheck:
    """Answers requests only under an IP address, `localhost` or a given name.

    A web site whose name is made to resolve to this machine (DNS rebinding) has another name, so it reads nothing.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str]) -> None:
        self._app, self._names = app, frozenset(name.lower() for name in names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and not self._is_trusted(Headers(scope=scope).get("host", "")):
            refusal = "refused: the host name is unknown; `boxscore serve --allow-host NAME` allows it\n"
            await PlainTextResponse(refusal, status_code=421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_trusted(self, header: str) -> bool:
        found = _HOST.fullmatch(header)
        if found is None:
            return False
        address, name = found.groups()
        return is_address(address) if name is None else name.lower() in self._names or is_address(name)


def is_address(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


class SecurityHeaders:
    """Adds security headers to every response that lacks them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""

        async def send_with_headers(event: Message) -> None:
            if event["type"] == "http.response.start":
                given = {name.lower() for name, _ in event["headers"]}
                more = {**_HEADERS, "content-security-policy": _POLICY}
                event["headers"] = [
                    *event["headers"],
                    *((name.encode(), value.encode()) for name, value in more.items() if name.encode() not in given),
                ]
            await send(event)

        await self._app(scope, receive, send_with_headers)


def make_app(pages: Pages, *, names: Iterable[str] = ()) -> Starlette:
    """Create the application. `names`: host names under which it answers, besides IP addresses and `localhost`."""

    def overview(_: Request) -> Response:
        return HTMLResponse(pages.overview())

    def data(request: Request) -> Response:
        return _tagged(request, pages.data().encode(), "application/json")

    def report(request: Request) -> Response:
        return _report(lambda: pages.report(_given(request, "result")))

    def comparison(request: Request) -> Response:
        return _report(lambda: pages.comparison(_given(request, "first"), _given(request, "second")))

    def asset(request: Request) -> Response:
        found = assets().get(request.path_params["name"])
        if found is None:
            raise HTTPException(404)
        return Response(found[0], media_type=found[1], headers={"cache-control": "max-age=31536000, immutable"})

    def icon(_: Request) -> Response:
        return Response(status_code=204)

    return Starlette(
        routes=[
            Route("/", overview),
            Route("/data", data),
            Route("/report", report),
            Route("/compare", comparison),
            Route("/assets/{name}", asset),
            Route("/favicon.ico", icon),
        ],
        middleware=[Middleware(SecurityHeaders), Middleware(HostCheck, names=("localhost", *names))],
        exception_handlers={404: _not_found},
    )


def _given(request: Request, name: str) -> str:
    values = request.query_params.getlist(name)
    if len(values) != 1:
        raise NotFoundError(f"the address must have `{name}` once; got it {len(values)} times")
    return values[0]


def _report(make: Callable[[], Page]) -> Response:
    """The response with the page, or with the reason why it can't be shown."""
    try:
        page = make()
    except NotFoundError as error:
        return HTMLResponse(message("Not found", str(error)), status_code=404)
    except InputError as error:
        return HTMLResponse(message("This can't be shown", str(error)), status_code=422)
    policy = {"content-security-policy": _REPORT_POLICY} if page.is_report else {}
    return HTMLResponse(page.html.encode("utf-8", "replace"), headers=policy)


async def _not_found(_: Request, __: Exception) -> Response:
    return HTMLResponse(message("Not found", "There is no such page."), status_code=404)


def _tagged(request: Request, body: bytes, media_type: str) -> Response:
    """The response with the body, or 304 if the browser has it already."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:24]}"'
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers={"etag": tag})
    return Response(body, media_type=media_type, headers={"etag": tag})


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that accepts connections; `InputError` names the wrong option."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"--host must be an address or a name of this machine; got {host!r}: {reason}") from None
    listener = socket.socket(family, kind, number)
    if os.name == "posix":  # a port is free as soon as its last server has ended; on Windows this would share it
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} is in use; choose another with --port, or any free one with --port 0"
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"--host must be an address of this machine; got {host!r}") from None
        raise InputError(f"port {port} can't be opened: {error.strerror}; choose another with --port") from None
    return listener


def is_local(listener: socket.socket) -> bool:
    """Whether only this machine can connect."""
    return ipaddress.ip_address(listener.getsockname()[0]).is_loopback


class _Server(uvicorn.Server):
    """A server that logs nothing when it ends: requests in progress are cancelled."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_BACKLOG)  # asyncio has set it to `MAX_ACCEPTED`

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close all connections."""
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        await super().shutdown(sockets)


def run_server(app: ASGIApp, listener: socket.socket) -> None:
    """Serve until a signal arrives, which is then raised again: `KeyboardInterrupt` for Ctrl-C."""
    config = uvicorn.Config(
        app,
        http=LimitedProtocol,
        backlog=MAX_ACCEPTED,
        log_config=None,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    _Server(config).run(sockets=[listener])
