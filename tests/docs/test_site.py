"""The site is built without a warning, its links lead somewhere, and it is read in a browser without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from tests.docs.pages import PAGES, ROOT, name_of

NOT_ON_THE_SITE = {"README.md", "docs/index.md"}  # the start page of the repository, and that of the site
SIZES = {"desktop": (1440, 900), "phone": (390, 844)}
START = ["index", "why", "first-kernel", "first-project", "cannot-say", "recipes", "performance", "measurements", "api"]


class Links(HTMLParser):
    """The ids of a page, and what it links to and loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.targets: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(page.read_text())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attributes if value}
        self.ids.update(values[name] for name in ("id", "name") if name in values)
        links = self.targets if tag == "a" else self.loaded
        links.update(values[name] for name in ("href", "src") if name in values)


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "docs" / "index.md").read_text()
    linked = {(ROOT / "docs" / link).resolve() for link in re.findall(r"\]\(([^)#]+\.md)\)", text)}
    assert sorted(name_of(page) for page in set(PAGES) - linked) == sorted(NOT_ON_THE_SITE)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", ".", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_link_of_the_site_leads_to_a_place_that_exists(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html")}
    assert len(pages) > 150
    broken = []
    for page, links in pages.items():
        for target in links.targets | links.loaded:
            parts = urlsplit(target)
            if parts.scheme or parts.netloc:
                continue
            path = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            ids = pages[path].ids if path in pages else set()
            if not path.exists() or (path in pages and parts.fragment and unquote(parts.fragment) not in ids):
                broken.append(f"{page.relative_to(site)}: {target}")
    assert broken == []


@pytest.mark.slow
def test_the_site_loads_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        assert [url for url in Links(page).loaded if urlsplit(url).netloc] == [], page
    styles = "".join(path.read_text() for path in site.rglob("*.css"))
    assert re.findall(r"url\(['\"]?(?:https?:)?//|@import", styles) == []


@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", START)
def test_a_page_fits_the_screen(site: Path, browser: Any, name: str, size: str) -> None:
    width, height = SIZES[size]
    tab = browser.new_page(viewport={"width": width, "height": height})
    errors: list[str] = []
    tab.on("console", lambda message: errors.append(message.text))
    tab.on("pageerror", lambda error: errors.append(str(error)))
    tab.goto((site / "docs" / f"{name}.html").as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert tab.get_by_role("heading", level=1).is_visible()
    assert (tab.locator(".sidebar-drawer").bounding_box()["x"] >= 0) == (size == "desktop")
    tab.close()
    assert errors == []


@pytest.mark.slow
def test_the_search_finds_what_to_do_without_a_histogram(site: Path, browser: Any) -> None:
    tab = browser.new_page()
    tab.goto(f"{(site / 'search.html').as_uri()}?q=histogram")
    results = tab.locator("#search-results .search li a")
    results.first.wait_for()
    assert any("can’t say" in text or "Histogram" in text for text in results.all_text_contents())
    tab.close()


@pytest.mark.slow
def test_the_root_of_the_site_leads_to_its_start_page(site: Path, browser: Any) -> None:
    tab = browser.new_page()
    tab.goto((site / "index.html").as_uri())
    tab.wait_for_url("**/docs/index.html")
    tab.close()
