"""The README shows what is so: its spec, the kernel that this gives, and links that lead somewhere."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from cugen.cli.main import COMMANDS
from cugen.kernel import generate
from cugen.spec.load import load

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
MAX_LINES = 110  # two screens, with tables
SHOWN = ROOT / "specs" / "matmul_tiled.yaml"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md")), *sorted(ROOT.glob("examples/*/README.md"))]


def test_the_readme_shows_a_spec_of_the_gallery(golden_part: Callable[[Path, str, str], None]) -> None:
    golden_part(README, "spec", f"```yaml\n{SHOWN.read_text()}```\n")


def test_the_readme_shows_the_main_loop_that_this_spec_gives(golden_part: Callable[[Path, str, str], None]) -> None:
    source = generate(load(SHOWN), remarks="all").source
    main_loop = re.search(r"^    for \(int k0.*?^    }\n", source, re.DOTALL | re.MULTILINE)
    assert main_loop
    golden_part(README, "kernel", f"```cuda\n{textwrap.dedent(main_loop[0])}```\n")


def test_the_readme_is_under_two_screens() -> None:
    assert len(README.read_text().splitlines()) <= MAX_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    links = [link for link in re.findall(r"\]\(([^)]+)\)", prose) if "://" not in link]
    missing = [link for link in links if not (page.parent / link.split("#")[0]).exists()]
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    headings = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    missing += [link for link in links if link.startswith("#") and link[1:] not in headings]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_speak_of_commands_that_exist(page: Path) -> None:
    named = set(re.findall(r"\bcugen ([a-z]+) (?=[A-Za-z./-]*[A-Z./-])", page.read_text()))
    assert named <= set(COMMANDS)
