"""What holds for every request, whatever the addresses."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.analysis import warp_request
from cugen.machine import known_targets, target

MODERN = [name for name in known_targets() if target(name).capability >= (5, 0)]
SECTORED = [name for name in known_targets() if target(name).capability >= (6, 0)]
WIDTHS = st.sampled_from([1, 2, 4, 8, 16])


@st.composite
def requests(draw, widths=WIDTHS, inactive=True):
    """(width, addresses) of a warp with an active lane; often few banks, so that lanes collide."""
    width = draw(widths)
    element = st.integers(0, draw(st.sampled_from([8, 64, 1000])))
    if inactive:
        element = st.none() | element
    elements = draw(st.lists(element, min_size=32, max_size=32).filter(lambda lanes: set(lanes) != {None}))
    return width, [None if element is None else element * width for element in elements]


def moved(addresses, distance):
    return [None if address is None else address + distance for address in addresses]


@given(requests(), st.sampled_from(known_targets()), st.sampled_from(["load", "store"]))
def test_no_request_is_below_its_ideal(request, name, kind):
    width, addresses = request
    for space in ("shared", "global"):
        cost = warp_request(space, kind, width, addresses, name)
        assert cost.wavefronts >= cost.ideal_wavefronts
        assert cost.sectors >= cost.ideal_sectors
    cost = warp_request("constant", "load", width, addresses, name)
    assert cost.wavefronts >= cost.ideal_wavefronts >= 1


@given(requests(), st.sampled_from(known_targets()), st.sampled_from(["load", "store"]), st.integers(1, 9))
def test_a_shift_of_all_addresses_by_whole_rows_of_banks_changes_no_shared_cost(request, name, kind, rows):
    width, addresses = request
    row = 256 if target(name).shared_rule == "double_words" else 128
    shifted = warp_request("shared", kind, width, moved(addresses, rows * row), name)
    assert shifted == warp_request("shared", kind, width, addresses, name)


@given(requests(st.sampled_from([4, 8, 16])), st.integers(1, 9))
def test_a_shift_by_whole_rows_changes_no_copy_and_no_atomic(request, rows):
    width, addresses = request
    for kind in ("async_copy", "atomic"):
        shifted = warp_request("shared", kind, width, moved(addresses, 128 * rows), "sm_90")
        assert shifted == warp_request("shared", kind, width, addresses, "sm_90")


@given(requests(), st.sampled_from(known_targets()), st.sampled_from(["load", "store"]), st.integers(1, 9))
def test_a_shift_by_whole_lines_shifts_the_transactions(request, name, kind, lines):
    width, addresses = request
    cost = warp_request("global", kind, width, addresses, name)
    shifted = warp_request("global", kind, width, moved(addresses, 128 * lines), name)
    assert shifted.transactions == tuple((start + 128 * lines, size) for start, size in cost.transactions)


@given(requests(st.sampled_from([1, 2, 4])), st.sampled_from(MODERN), st.randoms(use_true_random=False))
def test_the_order_of_lanes_does_not_matter_to_narrow_shared_requests(request, name, random):
    width, addresses = request
    shuffled = random.sample(addresses, 32)
    for kind in ("load", "store"):
        before = warp_request("shared", kind, width, addresses, name)
        assert warp_request("shared", kind, width, shuffled, name) == before


@given(requests(), st.sampled_from(SECTORED), st.randoms(use_true_random=False))
def test_the_order_of_lanes_does_not_matter_to_sectors(request, name, random):
    width, addresses = request
    before = warp_request("global", "load", width, addresses, name)
    after = warp_request("global", "load", width, random.sample(addresses, 32), name)
    assert (after.transactions, after.sectors, after.ideal_sectors) == (
        before.transactions,
        before.sectors,
        before.ideal_sectors,
    )


@given(requests(), st.sampled_from(known_targets()), st.sampled_from(["load", "store"]))
def test_transactions_cover_every_requested_byte(request, name, kind):
    width, addresses = request
    cost = warp_request("global", kind, width, addresses, name)
    covered = {byte for start, size in cost.transactions for byte in range(start, start + size)}
    requested = {byte for address in addresses if address is not None for byte in range(address, address + width)}
    assert requested <= covered
    assert sum(size for _, size in cost.transactions) == 32 * cost.sectors
    assert all(start % size == 0 for start, size in cost.transactions)


@given(requests(), st.sampled_from(SECTORED))
def test_sectors_are_those_of_the_bytes_counted_one_by_one(request, name):
    width, addresses = request
    touched = {(address + byte) // 32 for address in addresses if address is not None for byte in range(width)}
    assert warp_request("global", "load", width, addresses, name).sectors == len(touched)


@given(requests(), st.sampled_from(SECTORED), st.integers(0, 31))
def test_a_lane_less_never_moves_more_sectors(request, name, lane):
    width, addresses = request
    fewer = [*addresses[:lane], None, *addresses[lane + 1 :]]
    before = warp_request("global", "load", width, addresses, name)
    assert warp_request("global", "load", width, fewer, name).sectors <= before.sectors


@given(requests(st.just(4)), st.sampled_from(MODERN))
def test_the_wavefronts_of_floats_are_the_distinct_words_of_the_busiest_bank(request, name):
    _, addresses = request
    words = {address // 4 for address in addresses if address is not None}
    max_per_bank = max(sum(word % 32 == bank for word in words) for bank in range(32))
    assert warp_request("shared", "load", 4, addresses, name).wavefronts == max_per_bank


@given(requests())
def test_a_store_never_takes_fewer_wavefronts_than_the_same_load(request):
    width, addresses = request
    load = warp_request("shared", "load", width, addresses, "sm_90")
    assert load.wavefronts <= warp_request("shared", "store", width, addresses, "sm_90").wavefronts


@given(requests(st.just(4)))
def test_an_atomic_never_takes_fewer_wavefronts_than_the_same_store(request):
    _, addresses = request
    store = warp_request("shared", "store", 4, addresses, "sm_90")
    assert store.wavefronts <= warp_request("shared", "atomic", 4, addresses, "sm_90").wavefronts


@given(requests(st.just(4), inactive=False), st.sampled_from(["sm_10", "sm_13"]))
def test_a_half_warp_of_1_x_takes_no_more_passes_than_its_busiest_bank_has_lanes(request, name):
    _, addresses = request
    max_lanes_per_bank = sum(
        max(Counter(address // 4 % 16 for address in half).values()) for half in (addresses[:16], addresses[16:])
    )
    fewest = warp_request("shared", "store", 4, addresses, name).wavefronts
    assert fewest <= warp_request("shared", "load", 4, addresses, name).wavefronts <= max_lanes_per_bank


@pytest.mark.parametrize("matrices", [1, 2, 4])
@given(rows=st.lists(st.integers(0, 200), min_size=32, max_size=32), name=st.sampled_from(["sm_90", "sm_100"]))
def test_the_matrices_of_one_instruction_are_phases_of_their_own(matrices, rows, name):
    addresses = [16 * row if lane < 8 * matrices else None for lane, row in enumerate(rows)]
    whole = warp_request("shared", "matrix_load", 16, addresses, name).wavefronts
    single = [
        warp_request("shared", "matrix_load", 16, addresses[8 * m : 8 * m + 8] + [None] * 24, name).wavefronts
        for m in range(matrices)
    ]
    assert whole == sum(single)
    assert whole == warp_request("shared", "matrix_store", 16, addresses, name).wavefronts
