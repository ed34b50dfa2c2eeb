"""Pages that are served follow their files."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cugen.report.html import failure_html
from cugen.report.server import VERSION_PATH, Server, Site


def answer(url: str) -> str:
    with urllib.request.urlopen(url, timeout=60) as response:
        return response.read().decode()


@contextmanager
def running(build: Callable[[], Site]) -> Iterator[str]:
    server = Server(build, 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        yield server.url
    finally:
        server.stop()
        thread.join(timeout=60)


def test_a_page_is_made_again_when_its_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "spec"
    file.write_text("first")
    builds = []

    def build() -> Site:
        builds.append(file.read_text() if file.exists() else "missing")
        return Site({"page.html": failure_html(builds[-1])}, "page.html", (file,))

    with running(build) as url:
        assert "<pre>first</pre>" in answer(url)
        assert answer(f"{url}page.html?x") == answer(url)
        version = answer(f"{url}{VERSION_PATH[1:]}")
        assert answer(f"{url}{VERSION_PATH[1:]}") == version
        assert builds == ["first"]
        file.write_text("second text")
        assert answer(f"{url}{VERSION_PATH[1:]}") != version
        assert "<pre>second text</pre>" in answer(url)
        file.unlink()
        assert "<pre>missing</pre>" in answer(url)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            answer(f"{url}other.html")


def test_a_served_page_connects_to_its_server_alone() -> None:
    site = Site({"page.html": failure_html("text")}, "page.html", ())
    with running(lambda: site) as url:
        text = answer(url)
    assert "connect-src 'self'" in text
    assert "connect-src" not in site.pages["page.html"]
    assert text.count("<script>") == 1
