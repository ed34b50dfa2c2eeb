"""Every 5xxx code has a page."""

from pathlib import Path

import pytest

from cugen.abi.codes import CODES

PAGES = Path(__file__).parents[2] / "cugen" / "explain"


@pytest.mark.parametrize("code", CODES)
def test_every_code_has_a_page_with_the_table_s_title(code: str) -> None:
    text = (PAGES / f"{code}.md").read_text()
    assert text.startswith(f"# {code}: {CODES[code]}\n")
    assert "\n## When it happens\n" in text
    assert "\n## What to do\n" in text
