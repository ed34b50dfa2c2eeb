"""A register fragment has vectors, scalars, or a single one of them."""

from __future__ import annotations

import pytest

from cugen.families.gemm.fragments.vectors import SINGLE, VectorFragment
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import shared_loop_variable, value_of
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Access
from cugen.plan.names import Names
from cugen.plan.nodes import Declare, For, Let, Load
from cugen.plan.symbols import integer
from cugen.spec.expressions import IndexValue, Read
from cugen.spec.types import FLOAT32

TILE = dense_array("As", FLOAT32, (8, 16), "shared")
READ = Read("A", (IndexValue("m"), IndexValue("k")), FLOAT32)


@pytest.mark.parametrize(
    ("rows", "width", "nodes"),
    [(1, 1, (Load,)), (4, 1, (Declare, For)), (1, 4, (Load,)), (4, 4, (Let, For))],
)
def test_a_fragment_declares_as_much_as_it_needs(rows, width, nodes):
    lowering = Lowering(Names(), {}, {}, {})
    row = shared_loop_variable("i", (0, rows - 1), lowering)
    fragment = VectorFragment(READ, TILE, row, SINGLE, width, lowering)
    loads = fragment.load(Access(TILE, (value_of(row), integer(0)), "load", width))
    assert tuple(map(type, loads)) == nodes
