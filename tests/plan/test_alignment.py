"""Alignment of vector accesses: required of the arguments, and proved from the definitions of indices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cugen.kernel import generate
from cugen.plan.alignment import required_alignments, unaligned
from cugen.plan.context import Context, make_context
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.nodes import Comparison, Define, For, Guard, If, Index, Load, Loop, Node
from cugen.plan.symbols import BitXor, FloorDiv, Integer, Minimum, Mod, integer, symbol
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_all, load_text
from cugen.spec.types import FLOAT32

SPECS = sorted((Path(__file__).parents[2] / "specs").glob("*.yaml"))
X = symbol("threadIdx.x")


@pytest.fixture
def context() -> Context:
    """A context with a param P that is a multiple of 8."""
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {P: {multiple_of: 8}}\n"
        "arrays: {x: {shape: [P], dtype: float32}, y: {shape: [P], dtype: float32}}\n"
        "compute: y[i] = x[i]\n"
    )
    return make_context(spec)


def load(subscript: Integer, width: int = 4, **fields: Any) -> Load:
    array = replace(Array("x", "x", FLOAT32, (integer(1 << 20),), (integer(1),), "global"), **fields)
    return Load(Vector("x4", FLOAT32, FLOAT32, width), Access(array, (subscript,), "load", width))


def defined(name: str, definition: Integer) -> Define:
    return Define(Index(name, definition, (0, 1 << 20)))


def is_proved(context: Context, *nodes: Node) -> bool:
    return not unaligned(nodes, context)


def test_a_multiple_of_the_width_is_aligned(context):
    assert is_proved(context, load(4 * X))
    assert is_proved(context, load(8 * X + 4))
    assert not is_proved(context, load(3 * X))
    assert not is_proved(context, load(4 * X + 2))


def test_params_divide_by_their_multiple(context):
    p = context.symbols["P"]
    assert is_proved(context, load(p * X))
    assert is_proved(context, load(Minimum(4 * X, p - 4)))
    assert not is_proved(context, load(Minimum(4 * X, p - 3)))


def test_definitions_of_indices_are_followed(context):
    assert is_proved(context, defined("first", 4 * X), load(symbol("first") + 8))
    assert not is_proved(context, defined("first", 44 * X + 1), load(symbol("first")))


def test_a_loop_variable_has_the_divisor_of_its_start_and_step(context):
    k = Index("k", integer(0), (0, 64))
    assert is_proved(context, For(Loop(k, integer(8), integer(64), 4), (load(symbol("k")),)))
    assert not is_proved(context, For(Loop(k, integer(8), integer(64), 2), (load(symbol("k")),)))
    assert not is_proved(context, For(Loop(k, 4 * X + 1, integer(64), 4), (load(symbol("k")),)))


def test_a_name_means_its_definition_in_the_enclosing_block(context):
    """Blocks that exclude each other may define one name differently."""
    guard = Guard((Comparison(X, "<", integer(4)),))
    branches = If(guard, (defined("i", 4 * X), load(symbol("i"))), (defined("i", 3 * X), load(symbol("i"), 1)))
    assert is_proved(context, branches)
    assert not is_proved(context, branches, load(symbol("i")))


@pytest.mark.parametrize(
    ("subscript", "aligned"),
    [
        (4 * FloorDiv(X, integer(3)), True),
        (FloorDiv(8 * X, integer(2)), True),
        (FloorDiv(4 * X, integer(2)), False),
        (Mod(4 * X, integer(12)), True),
        (Mod(4 * X, integer(10)), False),
        (BitXor(4 * X, integer(12)), True),
        (BitXor(4 * X, integer(6)), False),
    ],
    ids=str,
)
def test_integer_functions(context, subscript, aligned):
    assert is_proved(context, load(subscript)) == aligned


def test_a_row_may_start_at_the_boundary_before_it(context):
    """Neither the start of a row nor its misalignment is a multiple of the width; their difference is."""
    row = defined("row", 37 * X)
    shift = defined("misalignment", Mod(37 * X, integer(8)))
    first = defined("first", 4 * symbol("blockIdx.x") - symbol("misalignment"))
    assert is_proved(context, row, shift, first, load(symbol("row") + symbol("first")))
    assert not is_proved(context, row, shift, first, load(symbol("row") + symbol("first") + 2))


def test_a_coordinate_of_a_row_may_be_a_remainder_itself(context):
    c = defined("c", Mod(symbol("blockIdx.z"), integer(63)))
    shift = defined("misalignment", Mod(37 * symbol("c"), integer(8)))
    first = 4 * symbol("blockIdx.x") - symbol("misalignment")
    assert is_proved(context, c, shift, load(37 * symbol("c") + first))
    assert not is_proved(context, c, shift, load(36 * symbol("c") + first))


def test_vectors_may_start_after_the_unaligned_head_of_a_row(context):
    head = defined("head", Mod(8 - Mod(37 * X, integer(8)), integer(8)))
    j = Index("j", symbol("head") + 8 * symbol("threadIdx.y"), (0, 1 << 10))
    loop = Loop(j, j.definition, integer(1 << 10), 64)
    assert is_proved(context, head, For(loop, (load(37 * X + symbol("j"), 8),)))
    assert not is_proved(context, head, For(loop, (load(36 * X + symbol("j"), 8),)))


def test_a_tile_must_be_aligned_itself(context):
    assert is_proved(context, load(4 * X, space="shared", align=16))
    assert not is_proved(context, load(4 * X, space="shared", align=8))
    assert not is_proved(context, load(4 * X, space="shared"))
    assert is_proved(context, load(4 * X, space="shared", dynamic=True, dynamic_offset=32))
    assert not is_proved(context, load(4 * X, space="shared", dynamic=True, dynamic_offset=8))


def test_scalars_and_registers_need_no_alignment(context):
    assert is_proved(context, load(3 * X, 1))
    assert is_proved(context, load(3 * X, space="register"))


def test_the_widest_access_decides_what_an_argument_requires(context):
    assert required_alignments((load(4 * X, 2), load(4 * X, 4)), context) == (("x", 16),)
    assert required_alignments((load(4 * X, 1), load(4 * X, 4, space="shared")), context) == ()


@pytest.mark.sampled(84)
@pytest.mark.whole
@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_every_access_of_the_gallery_is_proved(path):
    for spec in load_all(path):
        plan = make_plan(spec)
        assert not [access for kernel in plan.kernels for access in unaligned(kernel.body, plan.context)]


def test_stored_outputs_are_aligned_too():
    """Columns are summed by vectors of y, whatever the alignment of x."""
    (spec,) = load_text(
        "cugen: 1\nkernel: k\nparams: {N: 512, M: 256}\n"
        "arrays: {x: {shape: [N, M], dtype: float32}, y: {shape: [M], dtype: float32}}\n"
        "compute: y[j] = sum(x[i, j], i)\n"
    )
    (kernel,) = make_plan(spec).kernels
    assert kernel.alignments == (("x", 16), ("y", 16))
    assert "Must be aligned to 16 bytes: x, y." in generate(spec).header
