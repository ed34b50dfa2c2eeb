"""Links to other sites are well-formed, and few: pages have to be readable without them. Nothing is fetched."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import PAGES, ROOT, name_of

MAX_LINKS = 5  # of a page to other sites
LINK = re.compile(r"https?://[^\s)>\"'`\]]+")
LOCAL = {"127.0.0.1", "localhost"}
EXPLANATIONS = sorted((ROOT / "cugen" / "explain").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_to_other_sites_are_well_formed_and_few(page):
    links = {link.rstrip(".,;:") for link in LINK.findall(page.read_text())}
    others = [link for link in links if urlsplit(link).hostname not in LOCAL]
    assert [link for link in others if not is_well_formed(link)] == []
    assert len(others) <= MAX_LINKS


def test_explanations_which_a_terminal_prints_link_no_other_site():
    assert [path.name for path in EXPLANATIONS if LINK.search(path.read_text())] == []


@pytest.mark.parametrize(
    "link", ["http://example.org/x", "https://example/x", "https://user@example.org/", "https://example.org:99999/"]
)
def test_a_link_that_is_not_well_formed_is_found(link):
    assert not is_well_formed(link)


def is_well_formed(link: str) -> bool:
    """Whether a link is one of HTTPS to a named site, without a user or a port."""
    parts = urlsplit(link)
    is_named = re.fullmatch(r"(?:[a-z0-9-]+\.)+[a-z]{2,}", parts.netloc) is not None
    return parts.scheme == "https" and is_named
