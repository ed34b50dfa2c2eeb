"""The limits of texture objects, as cudaDeviceProp has them."""

from __future__ import annotations

import pytest

from cugen.machine import target
from cugen.plan.symbols import integer
from cugen.plan.textures.limits import limits


@pytest.mark.parametrize(("name", "elements"), [("sm_37", 2**27), ("sm_70", 2**27), ("sm_75", 2**28), ("sm_90", 2**28)])
def test_linear_memory_has_a_limit_of_elements(name: str, elements: int) -> None:
    (limit,) = limits((integer(5),), target(name))
    assert (limit.text.format(limit.value), limit.maximum) == ("5 elements", elements)


@pytest.mark.parametrize(
    ("name", "maxima"),
    [
        ("sm_37", (65000, 65000, 1048544)),
        ("sm_52", (65536, 65536, 1048544)),
        ("sm_61", (131072, 65000, 2097120)),
        ("sm_90", (131072, 65000, 2097120)),
        ("sm_120", (131072, 65000, 2097120)),
    ],
)
def test_pitched_memory_has_limits_of_width_height_and_pitch(name: str, maxima: tuple[int, int, int]) -> None:
    found = list(limits((integer(5), integer(7), integer(32)), target(name)))
    assert tuple(limit.maximum for limit in found) == maxima
    texts = [limit.text.format(limit.value) for limit in found]
    assert texts == ["rows of 5 elements", "7 rows", "a pitch of 32 bytes"]
