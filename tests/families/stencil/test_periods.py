"""Transposed convolutions: a thread computes whole periods of the output, at constant phases."""

from __future__ import annotations

from random import Random

import pytest

from cugen.families.stencil.family import FAMILY
from cugen.kernel import generate
from cugen.plan.registers.estimate import dynamic_arrays
from cugen.plan.symbols import FloorDiv, Mod
from cugen.plan.traversal.walking import accesses
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from tests.rewrite.transposed.drawing import SPELLINGS, Transposed, draw

IMAGE = Transposed("remainder", (64, 64), (128, 128), (4, 4), (2, 2), (1, 1), (1, 1), 16, 16, 64)


def made(drawn: Transposed, schedule: str = "", **changes):
    text = Transposed(**{**vars(drawn), **changes}).text
    (spec,) = load_text(f"{text}\nschedule: {{{schedule}}}\n" if schedule else text)
    return generate(spec, analysis=False)


def test_a_thread_computes_whole_periods_of_several_features():
    (kernel,) = made(IMAGE).plan.kernels
    assert kernel.family == "stencil"
    assert kernel.reasons[0] == "register windows of x for 2 x 8 x 4 outputs per thread"


def test_no_division_depends_on_a_loop_but_over_unrolled_outputs():
    kernel = made(IMAGE)
    (launch,) = kernel.plan.kernels
    assert dynamic_arrays(launch, kernel.plan.context) == frozenset()
    used = {
        str(symbol)
        for access in accesses(launch.body)
        for sub in access.subscripts
        for division in sub.atoms(FloorDiv, Mod)
        for symbol in division.free_symbols
    }
    assert used == {"i10", "row", "v"}  # the first output of the thread in a row, and the numbers of the others


def test_rows_that_are_not_aligned_are_stored_one_by_one():
    kernel = made(IMAGE, outputs=(128, 127))
    assert kernel.plan.kernels[0].reasons[1].startswith("outputs are stored one by one")


def test_rows_of_one_dimension_share_weights_of_several_batches():
    signal = Transposed("remainder", (4096,), (16384,), (8,), (4,), (1,), (2,), 16, 16, 64)
    (kernel,) = made(signal).plan.kernels
    assert kernel.reasons[0] == "register windows of x for 4 x 4 x 4 outputs per thread"


def test_a_schedule_with_parts_of_periods_is_refused():
    with pytest.raises(Exception, match="CG2102"):
        made(IMAGE, "family: stencil, vector: 1")
    (kernel,) = made(IMAGE, "family: stencil, vector: 2, rows: 2").plan.kernels
    assert "2 x 2 outputs" in kernel.reasons[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("stride", [9, 16])
def test_long_periods_are_left_to_others(stride):
    assert made(IMAGE, stride=(1, stride), taps=(3, 20)).plan.kernels[0].family != "stencil"


@pytest.mark.sampled(8)
@pytest.mark.parametrize("seed", range(8))
def test_drawn_transposed_convolutions_are_right(seed):
    source, taken = Random(seed), 0
    while taken < 2:
        drawn = draw(source, source.choice(SPELLINGS), 11, is_dynamic=source.random() < 0.3)
        kernel = made(drawn)
        if all(launch.family == FAMILY.name for launch in kernel.plan.kernels):
            taken += 1
            device = CpuDevice(shuffle=seed, sanitize=seed == 0)
            run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=drawn.dynamic)
            assert run.verification.passed, [drawn, *run.verification.messages]
