"""Writes a picture of a page of `cugen report` in Chromium: `python docs/picture.py docs/images/report.png`.

The page is that of a transpose whose tile isn't padded, scrolled to the bank conflicts at which it opens.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from cugen.cli.main import main

SPEC = Path(__file__).parents[1] / "specs" / "transpose_shared.yaml"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
HEADING = "Map of a request"
VIEW = {"width": 1060, "height": 800}


def picture(path: Path) -> None:
    """Writes the picture as PNG."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        sys.exit("docs/picture.py needs a browser: apt-get install chromium")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder) / "page.html"
        if status := main(["report", "--quiet", str(SPEC), "-o", str(page)]):
            sys.exit(status)
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport=VIEW, color_scheme="light")
        tab.goto(page.as_uri())
        tab.get_by_role("heading", name=HEADING).evaluate("heading => heading.scrollIntoView()")
        tab.screenshot(path=str(path))
        browser.close()


if __name__ == "__main__":
    picture(Path(sys.argv[1]))
