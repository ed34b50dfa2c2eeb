"""Pages on a port of this machine, made again when a file that they depend on changes; open pages then reload."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from cugen.emit.watched import states
from cugen.report.html import live_html

VERSION_PATH = "/version"
_HOST = "127.0.0.1"


@dataclass(frozen=True)
class Site:
    """Texts of pages by file name, the name of the first, and the files that they depend on."""

    pages: Mapping[str, str]
    first: str
    files: tuple[Path, ...]


class Server:
    """A server of the pages that `build` makes; port 0 is any free one. OSError if the port is in use."""

    def __init__(self, build: Callable[[], Site], port: int) -> None:
        self._build = build
        self._lock = threading.Lock()
        self._site = build()
        self._state = states(self._site.files)
        self._http = ThreadingHTTPServer((_HOST, port), _handler(self.site))

    @property
    def url(self) -> str:
        return f"http://{_HOST}:{self._http.server_port}/"

    def site(self) -> Site:
        """The pages of the files as they are now."""
        with self._lock:
            state = states(self._site.files)
            if state != self._state:
                files, self._site = self._site.files, self._build()
                # That of before: a file that changed meanwhile is read again.
                self._state = state if self._site.files == files else states(self._site.files)
            return self._site

    def run(self) -> None:
        """Answers requests until `stop`, or an interrupt."""
        self._http.serve_forever()

    def stop(self) -> None:
        """Ends `run`, and frees the port."""
        self._http.shutdown()
        self._http.server_close()


def _version(site: Site) -> str:
    return hashlib.sha256("\0".join(site.pages.values()).encode()).hexdigest()


def _handler(site: Callable[[], Site]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            current = site()
            name = self.path.partition("?")[0].lstrip("/") or current.first
            if self.path == VERSION_PATH:
                self._answer(200, _version(current), "text/plain")
            elif name in current.pages:
                self._answer(200, live_html(current.pages[name], _version(current)), "text/html")
            else:
                self._answer(404, "there is no such page\n", "text/plain")

        def _answer(self, status: int, text: str, kind: str) -> None:
            content = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            """Requests are not logged."""

    return Handler
