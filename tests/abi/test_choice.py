"""The choice among variants by what a block moves, what it has in flight, and how many are resident."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cugen.abi.choice import BlockCost, Candidate, fastest

SATURATING = 48 * 1024.0
LARGE = BlockCost(12000, 8192, SATURATING)  # of 32 x 32 elements
SMALL = BlockCost(6000, 2048, SATURATING)  # of 16 x 16, so that a grid of them moves twice as much


def test_of_variants_with_equal_bytes_in_flight_the_one_that_moves_least_is_taken() -> None:
    assert fastest([Candidate(SMALL, 4000, 8), Candidate(LARGE, 1000, 2)], 132) == 1


def test_a_large_tile_of_which_few_are_resident_loses() -> None:
    assert fastest([Candidate(LARGE, 1000, 2), Candidate(SMALL, 4000, 20)], 132) == 1
    assert fastest([Candidate(LARGE, 1000, 6), Candidate(SMALL, 4000, 24)], 132) == 0  # both saturate the bandwidth


def test_blocks_that_a_grid_does_not_have_are_not_resident() -> None:
    few = Candidate(LARGE, 10, 2)
    assert fastest([few, Candidate(BlockCost(5000, 8192, SATURATING), 40, 2)], 132) == 1


def test_a_variant_of_which_no_block_is_resident_is_the_last_choice() -> None:
    assert fastest([Candidate(LARGE, 1000, 0), Candidate(SMALL, 4000, 1)], 132) == 1
    assert fastest([Candidate(LARGE, 1000, 0), Candidate(SMALL, 4000, 0)], 132) == 0


def test_for_an_empty_grid_the_first_is_taken() -> None:
    assert fastest([Candidate(SMALL, 0, 8), Candidate(LARGE, 0, 2)], 132) == 0


@given(st.integers(1, 10**6), st.integers(1, 32), st.integers(1, 200))
def test_more_resident_blocks_never_take_longer(blocks: int, resident: int, sms: int) -> None:
    times = [LARGE.time(blocks, count, sms) for count in (resident, resident + 1)]
    assert times[1] <= times[0]
