"""The sizes that a verdict on a dynamic kernel names attain its figure: a walk over some blocks has such a request."""

from __future__ import annotations

import re

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text
from tests.fuzz.operators import draw

IDEALS = {"sectors": "ideal_sectors", "wavefronts": "ideal_wavefronts", "requests": "ideal_wavefronts"}
DATA = ("depends on data", "which is read from memory")  # ends of what an unknown verdict says
# (size of params that a verdict does not name, blocks and iterations of a loop to walk); each where those before have
# no such request. At the first size a scan may have a single block.
PASSES = ((1 << 12, 3, 4), (1 << 12, 80, 16), (1 << 18, 80, 16))
PER_BATCH, BATCHES = 100, 40
FIRST_SEED = 300_000


def named_sizes(reason):
    """The sizes that a reason names."""
    sizes = re.search(r"^(?:worst )?at .*?, as at (.*?)(?:, where its guards hold)?: ", reason)
    return {} if not sizes else {name: int(size) for name, size in (p.split(" = ") for p in sizes[1].split(" and "))}


def size_near(param, size):
    """A size that the param may have."""
    return min(max(-(-size // param.multiple_of) * param.multiple_of, param.minimum), param.maximum)


def walked_figures(walk, kernel, n, sizes, each, access):
    """(cost, ideal) of the requests of some blocks, and where they don't have the figure of a report, of more."""
    for size, blocks, trips in PASSES:
        params = sizes(size)
        walked = walk(kernel.plan.kernels[n], params, kernel.spec.target, record=True, blocks=blocks, trips=trips)
        costs = [warp.cost for warp in walked.warps.get(id(access), ())]
        figures = {(getattr(cost, each.unit), getattr(cost, IDEALS[each.unit])) for cost in costs}
        if (each.worst, each.worst_ideal) in figures:
            break
    return figures


def false_figures(walk, text):
    """(figures that no walked request has at the sizes that are named, figures that were compared)"""
    (spec,) = load_text(text)
    dynamic = [param for param in spec.params if param.value is None]
    if not dynamic:
        return [], 0
    kernel = generate(spec)
    accesses = [(n, access) for n, report in enumerate(kernel.reports) for access in report.accesses]
    if any(access.doubt.endswith(DATA) for _, access in accesses):
        return [], 0  # the walk has no data
    names = dict(kernel.plan.param_symbols)
    fixed = {names[p.name]: p.value for p in spec.params if p.value is not None}
    false, compared = [], 0
    for n, access in accesses:
        each = access.per_request
        if each is None or each.worst < 2:
            continue  # unknown, or what any lanes cost
        named = fixed | named_sizes(access.reason)

        def sizes(size, named=named):
            return {names[p.name]: size_near(p, size) for p in dynamic} | named

        figures = walked_figures(walk, kernel, n, sizes, each, access.access)
        compared += 1
        if (each.worst, each.worst_ideal) not in figures:
            false.append(f"{access.text}: {access.claim}; {access.reason}; walked {sorted(figures)}")
    return false, compared


ARRAYS = """
cugen: 1
kernel: k
params: {M: {range: [1, 60000]}, N: {range: [1, 60000], multiple_of: 3}}
arrays:
  A: {shape: [M, N], dtype: float32, layout: LAYOUT}
  C: {shape: SHAPE, dtype: float32}
"""
TRANSPOSED = ARRAYS.replace("SHAPE", "[N, M]") + "compute: C[n, m] = A[m, n] * 2\n"
SUMS = ARRAYS.replace("SHAPE", "[N]") + "compute: C[n] = sum(A[m, n], m)\n"
ROWS = ARRAYS.replace("SHAPE", "[M, N]") + "compute: C[m, n] = A[m, n] * 2\nschedule: {family: direct}\n"
TRANSPOSITION = """
cugen: 1
kernel: k
params: {M: SIZE, N: SIZE}
arrays:
  A: {shape: [M, N], dtype: DTYPEMEMORY}
  B: {shape: [N, M], dtype: DTYPE}
compute: B[j, i] = A[i, j]
"""
MEMORIES = {"default": "", "shared": ", memory: shared", "padded": ", memory: {space: shared, pad: 1}"}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("layout", ["row", "column"])
@pytest.mark.parametrize("text", [TRANSPOSED, SUMS, ROWS], ids=["transposed", "column sums", "rows"])
def test_the_worst_request_is_attained_at_the_sizes_that_its_reason_names(walk, text, layout):
    false, compared = false_figures(walk, text.replace("LAYOUT", layout))
    assert compared
    assert false == []


@pytest.mark.slow
@pytest.mark.parametrize("size", ["dynamic", "{multiple_of: 4}", "{multiple_of: 16}"])
@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "float16"])
def test_every_figure_of_a_dynamic_transposition_is_attained(walk, dtype, memory, size):
    text = TRANSPOSITION.replace("SIZE", size).replace("MEMORY", MEMORIES[memory]).replace("DTYPE", dtype)
    false, compared = false_figures(walk, text)
    assert compared
    assert false == []


@pytest.mark.slow
def test_some_figures_of_drawn_specs_are_attained_at_the_sizes_that_are_named(walk):
    found = [false_figures(walk, draw(seed)) for seed in range(FIRST_SEED, FIRST_SEED + 20)]
    assert [text for false, _ in found for text in false] == []
    assert sum(compared for _, compared in found)


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_all_figures_of_drawn_specs_are_attained_at_the_sizes_that_are_named(walk, batch):
    for seed in range(FIRST_SEED + PER_BATCH * batch, FIRST_SEED + PER_BATCH * (batch + 1)):
        false, _ = false_figures(walk, draw(seed))
        assert false == [], f"seed {seed}"
