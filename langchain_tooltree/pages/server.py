"""Serves pages to the browsers of this machine: on the loopback address, to be read, and to no page of others."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from langchain_tooltree.errors import ToolTreeError, described
from langchain_tooltree.pages.page import data_in, followed

LOOPBACK = "127.0.0.1"

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Nothing is kept by the browser, told to other servers, taken for something else, or shown within other pages; what a
page itself may do stands in it."""


@dataclass(frozen=True, slots=True)
class Served:
    """Something that has a page, and what changes as soon as that does."""

    version: str
    page: Callable[[], str]


class PageServer(ThreadingHTTPServer):
    """Gives the pages that `find` knows by names, the empty one first; a name is looked up and never made a path."""

    daemon_threads = False  # closing it waits for pages that are being made, which may read a temporary copy
    allow_reuse_address = os.name == "posix"  # elsewhere two programs would share a port

    def __init__(self, find: Callable[[str], Served | None], port: int = 0) -> None:
        super().__init__((LOOPBACK, port), _Asked)
        self.find = find
        self.address = f"http://{LOOPBACK}:{self.server_port}/"
        # A page elsewhere can have its own name stand for this address, but browsers tell the name that they asked for.
        self.names = {f"{name}:{self.server_port}" for name in (LOOPBACK, "localhost")}

    def handle_error(self, *asked: Any) -> None:
        """Tell what went wrong, but not that a browser has gone."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(*asked)


class _Asked(BaseHTTPRequestHandler):
    server: PageServer
    server_version, sys_version = "langchain-tooltree", ""
    timeout = 2  # seconds: who connects and asks for nothing, as browsers do beforehand, holds a thread

    def do_GET(self) -> None:
        """Give the page of a name; `?since=` its data as JSON, if there is more than in that version."""
        hosts = [name.lower() for name in self.headers.get_all("Host", [])]
        if len(hosts) == 1 and hosts[0] in self.server.names:
            self._answer(*self._page())
        else:
            self._answer(HTTPStatus.FORBIDDEN, f"This server is {self.server.address} and goes by no other name.")

    def _page(self) -> tuple[HTTPStatus, str] | tuple[HTTPStatus, str, str]:
        address = urlsplit(self.path)
        try:
            served = self.server.find(unquote(address.path).removeprefix("/"))
            if served is None:
                return HTTPStatus.NOT_FOUND, "There is no such page."
            since = parse_qs(address.query).get("since")
            if since == [served.version]:
                return HTTPStatus.NO_CONTENT, ""
            page = served.page()
        except (ToolTreeError, OSError) as error:  # it is gone, damaged or none of ours
            return HTTPStatus.NOT_FOUND, str(error)
        except Exception as error:  # noqa: BLE001 - what is read may be anything
            return HTTPStatus.INTERNAL_SERVER_ERROR, f"This cannot be shown: {described(error)}"
        if since:
            return HTTPStatus.OK, f'{{"version": "{served.version}", "data": {data_in(page)}}}', "application/json"
        return HTTPStatus.OK, followed(page, served.version), "text/html"

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        body = text.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {
            "Content-Type": f"{kind}; charset=utf-8",
            "Content-Length": str(len(body)),
            **HEADERS,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is logged: addresses hold names of files."""
