"""Loop variables have a name, a range, and the limit of an extent over params."""

from __future__ import annotations

import pytest

from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import loop_variable, repeated, shared_loop_variable, unrolled, value_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.names import Names
from cugen.plan.symbols import integer, symbol
from cugen.spec.types import FLOAT32

N = symbol("N")


@pytest.fixture
def lowering():
    return Lowering(Names(), {}, {}, {N: (1, 100)})


def test_a_count_gives_the_range(lowering):
    index = loop_variable("v", 4, lowering)
    assert (index.range, lowering.ranges[index.symbol]) == ((0, 3), (0, 3))
    assert index.symbol not in lowering.limits


def test_an_extent_over_params_is_the_limit(lowering):
    index = loop_variable("i", N, lowering, symbol("first"))
    assert index.range == (0, 99)
    assert lowering.limits[index.symbol] == N


def test_a_loop_may_start_behind_zero(lowering):
    loop = unrolled(loop_variable("group", 4, lowering, integer(1)), ()).loop
    assert (loop.start, loop.stop, loop.unroll) == (1, 4, True)


def test_successive_loops_over_a_range_share_the_name(lowering):
    assert shared_loop_variable("v", (0, 3), lowering) == shared_loop_variable("v", (0, 3), lowering)
    assert shared_loop_variable("v", (0, 7), lowering).name != "v"


def test_a_tile_is_row_major():
    tile = dense_array("t", FLOAT32, (2, 3, 4), "shared")
    assert tile.strides == (12, 4, 1)


def test_the_pad_of_a_tile_is_in_its_pitch_and_not_in_its_shape():
    tile = dense_array("t", FLOAT32, (2, 3, 4), "shared", 1)
    assert (tile.shape, tile.strides, tile.pad) == ((2, 3, 4), (15, 5, 1), 1)


def test_a_repeated_loop_of_one_value_is_its_body(lowering):
    once, twice = (shared_loop_variable(name, (0, last), lowering) for name, last in (("i", 0), ("j", 1)))
    assert (value_of(once), repeated(once, ())) == (0, ())
    assert value_of(twice) == twice.symbol
    (loop,) = repeated(twice, ())
    assert (loop.loop.stop, loop.loop.unroll) == (2, True)
