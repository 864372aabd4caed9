"""A service on this machine, for tools that ask one."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@contextmanager
def serving(answer: Callable[[BaseHTTPRequestHandler], Any]) -> Iterator[str]:
    """The address of a service on this machine; what `answer` returns, if anything, is sent as JSON."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if (said := answer(self)) is not None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
