"""Accesses some of whose elements nothing reads: which of them are left in the machine code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cugen.analysis.totals.sites import sites
from cugen.compiled.addresses import Form
from cugen.compiled.sass import Instruction
from cugen.compiled.transformations import unrolled_trips
from cugen.compiled.transformations.live_elements import live_elements, register_stores
from cugen.kernel import generate
from cugen.spec.load import load_text


def stencil(x: str, y: str, compute: str):
    (spec,) = load_text(f"""
cugen: 1
kernel: stencil
params: {{H: 50, W: 169}}
indices: {{i: H, j: W}}
arrays:
  x: {{dtype: float32, {x}}}
  y: {{dtype: float32, {y}}}
compute: "{compute}"
schedule: {{family: stencil}}
""")
    return generate(spec)


def params(kernel):
    return {kernel.context.symbols[p.name].name: p.value for p in kernel.spec.params}


def loads(kernel, name="x"):
    (plan,) = kernel.plan.kernels
    actual = [s for s in sites(plan, params(kernel)) if s.access.array.symbol == name and s.access.kind == "load"]
    return register_stores(plan, params(kernel)), actual


def test_of_a_window_the_places_that_are_read_are_used():
    around = " + ".join(f"x[i + {r}, j + {c}]" for r in range(3) for c in range(3) if (r, c) != (1, 1))
    kept, (site,) = loads(stencil("shape: [H + 2, W + 2]", "shape: [H, W]", f"y[i, j] = {around}"))
    row, column = (c.symbol for c in site.counters if str(c.symbol).startswith("loop"))
    actual = [
        [bool(live_elements(site, {row: r, column: c}, kept[site.access.serial])) for c in range(3)] for r in range(3)
    ]
    assert actual == [[True, True, True], [True, False, True], [True, True, True]]


def test_what_is_computed_with_at_once_is_in_no_window():
    (spec,) = load_text("""
cugen: 1
kernel: plain
params: {N: 100}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}
compute: "y[i] = x[i] + 1"
""")
    assert loads(generate(spec))[0] == {}


@pytest.fixture(scope="module")
def vectors():
    """The access that moves two elements at once in each of three trips, and what of it is used."""
    pitched = "shape: [H, W], layout: {strides: [170, 1]}"  # a row ends within a vector
    compute = "y[i, j] = 0.25 * (x[i, j - 1] + x[i, j + 1] + x[i - 1, j] + x[i + 1, j])"
    kernel = stencil(f"{pitched}, boundary: zero", pitched, compute)
    kept, actual = loads(kernel)
    (site,) = (s for s in actual if s.access.width == 2 and any("loop" in str(c.symbol) for c in s.counters))
    (loop,) = (c for c in site.counters if "loop" in str(c.symbol))
    trips = [{loop.symbol: n} for n in range(loop.count)]
    return (
        site,
        trips,
        [live_elements(site, address, kept[site.access.serial]) for address in trips],
        kernel.plan.kernels[0].block,
    )


def test_of_the_vectors_at_the_ends_one_element_is_used(vectors):
    _, _, wanted, _ = vectors
    assert wanted == [frozenset({1}), frozenset({0, 1}), frozenset({0})]


def test_vectors_of_which_a_part_is_used_are_no_whole_trips(vectors):
    site, trips, wanted, _ = vectors
    assert unrolled_trips.whole_trips(site, trips, wanted, [instruction(0, 8)] * 3) is None


def instruction(address: int, width: int) -> Instruction:
    return Instruction(address, "", {4: "LDG.E", 8: "LDG.E.64"}[width], ("R0", "desc[UR4][R2.64]"), 1)


def address(constant: int, **steps: int) -> Form:
    names = {"bx": "SR_CTAID.X", "by": "SR_CTAID.Y", "tx": "SR_TID.X", "ty": "SR_TID.Y", "p": "c[0x0][0x210]"}
    return Form(constant % (1 << 32), tuple(sorted((names[name], step) for name, step in steps.items())))


STEPS = {"bx": 256, "by": 2720, "tx": 8, "ty": 680, "p": 1}


def addressed(vectors, *moves, **changed):
    site, trips, wanted, threads = vectors
    instructions = [instruction(16 * n, width) for n, (_, width) in enumerate(moves)]
    forms = {16 * n: address(position, **{**STEPS, **changed}) for n, (position, _) in enumerate(moves)}
    return unrolled_trips.by_address(site, trips, wanted, instructions, forms, threads)


def test_addresses_determine_the_moved_elements(vectors):
    actual = addressed(vectors, (-4, 4), (8, 4), (0, 8))
    assert [(s.access.width, s.offset - vectors[0].offset.subs(vectors[1][0])) for s in actual] == [
        (1, 1),
        (1, 4),
        (2, 2),
    ]


@pytest.mark.parametrize(
    "moves",
    [
        ((-4, 4), (0, 8)),  # the last element is used, too
        ((-4, 4), (0, 8), (8, 4), (8, 4)),  # one twice
        ((-4, 4), (0, 8), (16, 4)),  # outside
        ((-4, 4), (2, 8), (8, 4)),  # between elements
    ],
)
def test_inconsistent_addresses_give_no_elements(vectors, moves):
    assert addressed(vectors, *moves) is None


@pytest.mark.parametrize("changed", [{"tx": 4}, {"p": 2}, {"by": 680}])
def test_an_address_with_another_stride_gives_no_elements(vectors, changed):
    assert addressed(vectors, (-4, 4), (8, 4), (0, 8), **changed) is None


def test_trips_at_the_same_address_are_not_distinguished(vectors):
    site, trips, _, _ = vectors
    (loop,) = trips[0]
    still = replace(site, offset=site.offset.subs({loop: 0}))
    every = [frozenset({0, 1})] * 2 + [frozenset()]
    assert unrolled_trips.whole_trips(still, trips, every, [instruction(0, 8), instruction(16, 8)]) is None
    assert len(unrolled_trips.whole_trips(site, trips, every, [instruction(0, 8), instruction(16, 8)])) == 2
