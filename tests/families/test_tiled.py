"""Contractions through shared tiles: how tiles are laid out and padded, where guards stand, what is refused."""

from __future__ import annotations

import pytest

from cugen.plan.ir import Declare, walk_nodes

PRODUCT = """
params: {{M: {m}, K: {k}, N: {n}}}
arrays:
  A: {{shape: [M, K], dtype: float32{a}}}
  B: {{shape: [{b_shape}], dtype: float32{b}}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[{b_at}], k)
schedule: {{{schedule}}}
"""


def product(m=64, k=32, n=48, a="", b="", transposed=False, schedule="block: {m: 16, n: 16}") -> str:
    shape, at = ("N, K", "n, k") if transposed else ("K, N", "k, n")
    return PRODUCT.format(m=m, k=k, n=n, a=a, b=b, b_shape=shape, b_at=at, schedule=schedule)


def tiles(kernel) -> dict[str, tuple[int, ...]]:
    """The extents of each tile as they are declared, padding included."""
    nodes = [node for node in walk_nodes(kernel.body) if isinstance(node, Declare) and node.array.space == "shared"]
    return {node.array.symbol: tuple(int(e) for e in node.array.padded_shape) for node in nodes}


def test_shapes_that_divide_have_no_guard_at_all(made):
    source = made(product()).source
    assert " < M" not in source
    assert "return;" not in source.split("launch(")[0]


@pytest.mark.parametrize(("sizes", "guard"), [({"m": 65}, "m < M"), ({"n": 49}, "n < N"), ({"k": 33}, "k0 + tx < K")])
def test_a_guard_stands_where_one_size_does_not_divide_and_nowhere_else(made, sizes, guard):
    source = made(product(**sizes)).source
    others = {"m < M", "n < N", "k0 + tx < K"} - {guard}
    assert guard in source
    assert not any(other in source for other in others)


def test_a_tile_keeps_the_order_of_memory_so_that_its_rows_are_read_side_by_side(planned):
    assert tiles(planned(product(transposed=True, b=", memory: shared"))) == {"As": (16, 16), "Bs": (16, 16)}


def test_a_tile_of_the_generators_own_is_padded_where_threads_read_down_its_columns(planned):
    assert tiles(planned(product(transposed=True))) == {"As": (16, 16), "Bs": (16, 17)}
    assert tiles(planned(product())) == {"As": (16, 16), "Bs": (16, 16)}


def test_an_operand_kept_in_global_memory_is_read_there(made):
    source = made(product(b=", memory: global")).source
    assert "Bs[" not in source
    assert "+= As[ty][" in source


def test_blocks_of_a_product_of_any_size_are_numbered_along_x_alone(planned):
    assert [str(extent) for extent in planned(product(m="dynamic")).grid[1:]] == ["1", "1"]
    assert [str(extent) for extent in planned(product(m="{range: [1, 4096]}")).grid[1:]] != ["1", "1"]


def test_two_operands_in_global_memory_leave_nothing_to_stage(reasons):
    found = reasons("tiled", product(a=", memory: global", b=", memory: global"))
    assert any("stages at least one operand" in refusal.reason for refusal in found)


@pytest.mark.parametrize(
    ("schedule", "word"),
    [
        ("block: {k: 16}", "not for k"),
        ("step: {m: 16}", "steps along k"),
    ],
)
def test_a_schedule_that_a_tile_cannot_follow_is_refused_by_name(reasons, schedule, word):
    assert any(word in refusal.reason for refusal in reasons("tiled", product(schedule=schedule)))


@pytest.mark.parametrize("sizes", [(1, 1, 1), (15, 16, 17), (31, 33, 7), (48, 5, 64)])
@pytest.mark.parametrize(
    "schedule", ["block: {m: 16, n: 16}", "block: {m: 32, n: 16}, thread: {m: 4, n: 2}, step: {k: 8}"]
)
def test_edge_sizes_are_right(prove, sizes, schedule):
    m, k, n = sizes
    prove(product(m, k, n, a=", memory: {space: shared, pad: 1}", b=", memory: shared", schedule=schedule), races=True)
