"""The tiles of a spec's first group, for blocks of given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from cugen.families.staged.tile import Tile, find_tiles
from cugen.machine import target
from cugen.plan.context import make_context
from cugen.plan.request import Request
from cugen.rewrite.grouping import group_statements
from cugen.spec.load import load_text
from cugen.spec.model import Schedule

Tiles = Callable[..., tuple[Tile, ...]]


def tiles_of(text: str, spans: Mapping[str, int], array: str = "x") -> tuple[Tile, ...]:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    grouping = group_statements(spec)
    request = Request("k", grouping.groups[0], make_context(spec), Schedule(), target(spec.target), grouping.stored)
    found = find_tiles(request, array, spans)
    assert not isinstance(found, str), found
    return found


@pytest.fixture(scope="session")
def tiles() -> Tiles:
    return tiles_of
