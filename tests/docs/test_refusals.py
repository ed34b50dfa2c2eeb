"""The explanation of each refusal that the page of refusals is about leads there."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "cannot-say.md").read_text()
CODES = sorted(set(re.findall(r"\bCG\d{4}\b", PAGE)))
ANCHORS = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in re.findall(r"^## (.*)$", PAGE, re.M)}


@pytest.mark.parametrize("code", CODES)
def test_the_explanation_of_a_refusal_leads_to_what_to_do_instead(code: str) -> None:
    text = (ROOT / "cugen" / "explain" / f"{code}.md").read_text()
    anchors = re.findall(r"\]\(\.\./\.\./docs/cannot-say\.md#([\w-]+)\)", text)
    assert anchors
    assert set(anchors) <= ANCHORS


def test_the_table_of_refusals_leads_to_every_section() -> None:
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) == ANCHORS
