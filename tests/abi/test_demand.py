"""What blocks ask for: the most of any launch, and the two kinds of shared memory apart."""

from __future__ import annotations

import pytest

from cugen.abi.demand import Demand, demand
from cugen.abi.manifest import LaunchEntry, Manifest


def manifest(*launches: tuple[tuple[int, int, int], int, int]) -> Manifest:
    """Of launches given as block, static and dynamic bytes."""
    entries = tuple(LaunchEntry("k", (1, 1, 1), block, static, dynamic, (), "") for block, static, dynamic in launches)
    return Manifest("k", "1", "k.yaml", "", "sm_90", {}, (), (), (), entries)


def test_a_call_needs_the_most_of_any_of_its_launches() -> None:
    actual = demand(manifest(((32, 8, 1), 100, 0), ((512, 1, 1), 0, 0), ((1, 1, 2), 700, 0)))
    assert actual == Demand(threads=512, static=700, dynamic=0)


def test_static_bytes_beside_dynamic_ones_count_with_them() -> None:
    assert demand(manifest(((32, 1, 1), 100, 4000), ((32, 1, 1), 300, 0))) == Demand(32, 300, 4100)


def test_shared_memory_orders_before_threads() -> None:
    demands = [Demand(1024, 0, 0), Demand(64, 512, 0), Demand(128, 0, 512), Demand(32, 0, 60_000)]
    assert sorted(demands, key=lambda d: d.size) == demands


@pytest.mark.parametrize(
    ("allowed", "fits"),
    [
        ({"threads": 64, "static": 512}, True),
        ({"threads": 63, "static": 512}, False),
        ({"threads": 64, "static": 511}, False),
        ({"threads": 1024}, False),
        ({"threads": 64, "static": 512, "dynamic": 9}, True),
    ],
)
def test_what_fits_finds_enough_of_all_that_it_asks_for(allowed: dict[str, int], fits: bool) -> None:
    assert Demand(64, 512, 0).fits(allowed) is fits


def test_the_text_of_a_demand_names_only_what_is_demanded() -> None:
    assert str(Demand(64, 0, 0)) == "64 threads per block"
    assert str(Demand(64, 512, 0)) == "64 threads and 512 bytes of shared memory per block"
    assert str(Demand(64, 0, 60_000)) == "64 threads and 60000 bytes of opt-in shared memory per block"
