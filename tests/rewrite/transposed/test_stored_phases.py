"""Phases of a transposed convolution are convolutions on tensor cores, of which the outputs are gathered."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.families.gemm.tiled import phases
from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import draw, known_params, verify
from cugen.spec.load import load_text
from tests.rewrite.transposed.drawing import Transposed

LARGE = Transposed("exact", (24, 25), (48, 50), (4, 4), (2, 2), (1, 1), (1, 1), 2, 64, 32, dtype="bfloat16")


@pytest.fixture
def whatever_they_cost(monkeypatch):
    """Phases wherever tensor cores take them, also of few outputs."""
    monkeypatch.setattr(phases, "_MIN_SPEEDUP", 0)


def made(after: str = "", target: str = "sm_90", **changes):
    """The kernel of a transposed convolution, with `after` computed of its sums."""
    text = Transposed(**{**vars(LARGE), **changes}).text
    if after:
        head, value = text.rsplit(" = ", 1)
        text = f"{head} = {after.format(value)}".replace("compute:", "  q: {shape: [32], dtype: float32}\ncompute:")
    (spec,) = load_text(text)
    return generate(spec.for_device(target), analysis=False)


def families(kernel) -> list[str]:
    return [launch.family for launch in kernel.plan.kernels]


def convolutions(kernel) -> list[str]:
    return [family for family in families(kernel) if family in ("gemm", "wgmma")]


def passes(kernel, inputs: Inputs | None = None) -> bool:
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), inputs=inputs)
    return run.verification.passed


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("changes", "count"),
    [
        pytest.param({}, 1, id="as many taps in each phase"),
        pytest.param({"after": "{} + q[k]"}, 4, id="of which a bias is added to each"),
        pytest.param({"taps": (3, 4)}, 2, id="fewer taps in a phase of one dimension"),
        pytest.param({"taps": (3, 3)}, 4, id="fewer taps in a phase of two"),
        pytest.param({"taps": (3, 3), "dilation": (2, 2)}, 1, id="a single phase that has taps"),
        pytest.param({"taps": (2, 2), "stride": (3, 3), "outputs": (72, 75)}, 1, id="a phase without taps"),
    ],
)
@pytest.mark.usefixtures("whatever_they_cost")
def test_phases_with_as_many_taps_are_one_convolution(changes, count):
    assert len(convolutions(made(**changes))) == count


@pytest.mark.slow
def test_phases_of_float32_are_left_to_cuda_cores():
    assert "y_0_0_phases" not in made(dtype="float32").source


@pytest.mark.slow
def test_launches_that_cost_more_than_they_save_are_left_out():
    assert len(convolutions(made(taps=(3, 3)))) < 4
    assert len(convolutions(made(taps=(3, 3), batch=64, size=(64, 64), outputs=(128, 128)))) == 4


@pytest.mark.parametrize("changes", [{"is_dynamic": True}, {"channels": 1}, {"size": (3, 3), "outputs": (6, 6)}])
def test_short_sums_and_unknown_sizes_have_no_phases(changes):
    assert not convolutions(made(**changes))


@pytest.mark.sampled(28)
@pytest.mark.parametrize("target", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="channels first"),
        pytest.param({"is_channels_last": True}, id="channels last"),
        pytest.param({"after": "tanh({} + q[k]) * q[k]"}, id="an epilogue of the phases"),
        pytest.param({"after": "{} * i0 + q[k]"}, id="an epilogue of the outputs"),
        pytest.param({"dtype": "float16", "taps": (3, 5), "pad": (0, 3), "outputs": (49, 47)}, id="odd sizes"),
        pytest.param({"stride": (3, 2), "dilation": (2, 1), "outputs": (71, 53)}, id="dilated"),
        pytest.param({"taps": (3, 3), "dilation": (2, 2), "after": "exp({}) + q[k]"}, id="outputs without terms"),
        pytest.param({"stride": (3, 3), "taps": (2, 2), "outputs": (72, 75)}, id="phases without taps"),
        pytest.param({"stride": (1, 2), "outputs": (27, 50)}, id="one stride"),
        pytest.param({"is_flipped": True}, id="flipped"),
        pytest.param({"dtype": "int8"}, id="int8"),
        pytest.param({"dtype": "float8_e4m3"}, id="float8"),
        pytest.param(
            {
                "size": (700,),
                "outputs": (2099,),
                "taps": (5,),
                "stride": (3,),
                "dilation": (2,),
                "pad": (2,),
            },
            id="one dimension",
        ),
        pytest.param(
            {
                "size": (6, 7, 8),
                "outputs": (13, 14, 15),
                "taps": (3, 3, 3),
                "stride": (2, 2, 2),
                "dilation": (1, 1, 1),
                "pad": (1, 1, 1),
            },
            id="three dimensions",
        ),
    ],
)
@pytest.mark.usefixtures("whatever_they_cost")
def test_results_are_right(changes, target):
    kernel = made(target=target, **changes)
    assert convolutions(kernel)
    assert passes(kernel)


@pytest.mark.slow
@pytest.mark.usefixtures("whatever_they_cost")
def test_infinite_inputs_reach_no_output_that_does_not_read_them():
    """Zeros in place of the taps that a phase doesn't have would make them NaN."""
    kernel = made(taps=(3, 3))
    assert len(convolutions(kernel)) == 4
    inputs = draw(kernel.spec, known_params(kernel.spec, {}), 0)
    x = np.array(inputs.arrays["x"])
    x[0, 3, 5, 7] = np.inf
    assert passes(kernel, Inputs({**inputs.arrays, "x": x}, inputs.scalars))
