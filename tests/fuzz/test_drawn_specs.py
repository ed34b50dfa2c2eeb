"""Drawn specs are planned, analysed and compiled without a fault."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compilers

from .checks import compile_faults, plan_faults
from .operators import OPERATORS, draw, sizes

PER_BATCH = 250
BATCHES = 40  # of the slow test: 10,000 specs, three quarters of them exhaustive
COMPILED = 200


def test_a_seed_draws_one_spec_and_seeds_draw_all_operators():
    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(200)}) == 200
    assert len(set(OPERATORS)) > 10


def _faulty(seeds: range) -> dict[int, list[str]]:
    return {seed: found for seed in seeds if (found := list(plan_faults(draw(seed), sizes(seed))))}


@pytest.mark.parametrize("batch", range(2))
def test_some_drawn_specs_have_no_fault(batch):
    assert _faulty(range(100_000 + 25 * batch, 100_000 + 25 * (batch + 1))) == {}


@pytest.mark.thinned(4)
@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_ten_thousand_drawn_specs_have_no_fault(batch):
    assert _faulty(range(PER_BATCH * batch, PER_BATCH * (batch + 1))) == {}


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no CUDA compiler on this machine")
def test_drawn_kernels_compile_without_warnings_and_none_spills():
    for seed in range(50_000, 50_000 + COMPILED):
        (spec,) = load_text(draw(seed))
        assert list(compile_faults(generate(spec, remarks="none"))) == [], f"seed {seed}"
