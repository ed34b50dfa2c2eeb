"""Elements that differ in a number: which of them form a group."""

from __future__ import annotations

import pytest

from cugen.pieces.structures.numbered_elements import numbered_elements
from cugen.spec.expressions import Const, IndexValue, Read
from cugen.spec.types import FLOAT32, INT64


def read(array, *subscripts):
    subs = (IndexValue(sub) if isinstance(sub, str) else Const(sub, INT64) for sub in subscripts)
    return Read(array, tuple(subs), FLOAT32)


def groups_of(*reads):
    return [(group.elements, group.dimension) for group in numbered_elements(reads, lambda read: read.array)]


def test_elements_are_in_the_order_of_their_numbers():
    reads = [read("x", n, "i") for n in (2, 0, 3, 1)]
    assert groups_of(*reads) == [((reads[1], reads[3], reads[0], reads[2]), 0)]


@pytest.mark.parametrize(
    "reads",
    [
        [read("x", n, "i") for n in (0, 1, 2)],  # few
        [read("x", n, "i") for n in (0, 1, 2, 4)],  # one is missing
        [read("x", n, "i") for n in (1, 2, 3, 4)],
        [read("xyzw"[n], n, "i") for n in range(4)],
        [read("x", n, "ijkl"[n]) for n in range(4)],
    ],
    ids=["few", "a gap", "from 1 on", "other arrays", "other places"],
)
def test_other_elements_are_apart(reads):
    assert groups_of(*reads) == []


def test_an_element_is_in_one_group_only():
    reads = [read("x", a, b, "i") for a in range(4) for b in range(4)]
    groups = numbered_elements(reads, lambda read: read.array)
    assert sorted(str(element) for group in groups for element in group.elements) == sorted(map(str, reads))
    assert [group.other_constants for group in groups] == [("0",), ("1",), ("2",), ("3",)]
