"""A webhook on this machine, which answers as it is set and remembers what it was sent."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Server(ThreadingHTTPServer):
    """A webhook that answers as it is set, and remembers what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.pause, self.location = 200, 0.0, ""
        self.taken: list[tuple[str, dict[str, str], str | None]] = []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/T0/s3cr3t?key=s3cr3t"


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.taken.append((self.path, body, self.headers["Host"]))
        time.sleep(self.server.pause)
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""
