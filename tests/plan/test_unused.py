"""What nothing uses is left out of a kernel."""

from __future__ import annotations

from dataclasses import replace

from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Declare, Define, For, Index, Let, Load, Loop, Store
from cugen.plan.symbols import integer, symbol
from cugen.plan.textures.addressing import Texture2D
from cugen.plan.traversal.unused import without_unused
from cugen.spec.expressions import Const, Local, Op
from cugen.spec.types import FLOAT32

X, Y = (Array(name, name, FLOAT32, (integer(8),), (integer(1),), "global") for name in "xy")
A, B = (Local(name, FLOAT32) for name in "ab")
LOAD = Load(A, Access(X, (symbol("i"),), "load"))
STORE = Store(Access(Y, (symbol("i"),), "store"), Const(0, FLOAT32))


def test_a_value_that_nothing_uses_is_left_out_with_what_it_was_computed_of():
    nodes = (Define(Index("i", integer(1), (1, 1))), LOAD, Let(B, Op("mul", (A, A), FLOAT32)))
    assert without_unused((*nodes, STORE)) == (nodes[0], STORE)


def test_a_value_that_a_later_node_of_the_block_uses_stays():
    nodes = (LOAD, Let(B, Op("mul", (A, A), FLOAT32)), Store(Access(Y, (symbol("i"),), "store"), B))
    assert without_unused(nodes) == nodes


def test_the_coordinates_of_a_fetch_in_a_value_stay():
    array = Array("u", "u", FLOAT32, (integer(8),) * 2, (integer(8), integer(1)), "global")
    texture = replace(array, space="texture", texture_2d=Texture2D(1, is_linear=True))
    fetch = Element.of(Access(texture, (), "load", coordinates=(A, B)))
    nodes = (Let(A, Const(0, FLOAT32)), Let(B, Const(1, FLOAT32)), Store(Access(Y, (symbol("i"),), "store"), fetch))
    assert without_unused(nodes) == nodes


def test_a_value_that_is_assigned_later_stays():
    nodes = (Let(B, Const(0, FLOAT32), mutable=True), STORE)
    assert without_unused(nodes) == nodes


def test_a_value_of_a_loop_is_used_there_or_left_out():
    index = Index("i", integer(0), (0, 7))
    (loop,) = without_unused((For(Loop(index, integer(0), integer(8)), (LOAD, STORE)),))
    assert isinstance(loop, For)
    assert loop.body == (STORE,)


def test_the_rows_of_a_pointer_to_the_last_tile_are_left_out():
    """`float* x_tile` has no extent, and `float (*x_tile)[COLUMNS]` only that of its rows."""
    rows, columns = symbol("ROWS"), symbol("COLUMNS")
    sizes = tuple(Define(Index(str(size), integer(8), (8, 8), constant=True)) for size in (rows, columns))
    tile = Array("x", "x_tile", FLOAT32, (rows, columns), (columns, integer(1)), "shared", dynamic=True)
    assert without_unused((*sizes, Declare(tile), STORE)) == (sizes[1], Declare(tile), STORE)
    static = replace(tile, dynamic=False)
    assert without_unused((*sizes, Declare(static), STORE)) == (*sizes, Declare(static), STORE)
