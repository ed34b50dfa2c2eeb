"""Weights that adjacent outputs read far apart: a copy in another order, and when there is none."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

DEPTHWISE = """cugen: 1
kernel: f
params: {{B: {batch}, H: {rows}, C: 32}}
arrays:
  x: {{shape: [B, H, H, C], dtype: float16, boundary: zero}}
  w: {{shape: [{weights}], dtype: float16{memory}}}
  y: {{shape: [B, H, H, C], dtype: float16}}
compute: y[b, i, j, c] = {activation}(sum(x[b, i + r - 1, j + s - 1, c] * w[{subscripts}], r, s))
{schedule}
"""


def depthwise(batch=4, rows=64, weights="C, 3, 3", subscripts="c, r, s", activation="", memory="", schedule=""):
    (spec,) = load_text(
        DEPTHWISE.format(
            batch=batch,
            rows=rows,
            weights=weights,
            subscripts=subscripts,
            activation=activation,
            memory=memory,
            schedule=schedule,
        )
    )
    return spec


def families_of(spec) -> list[str]:
    return [launch.family for launch in generate(spec, analysis=False).plan.kernels]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("weights", "subscripts"), [("C, 3, 3", "c, r, s"), ("3, C, 3", "r, c, s"), ("C, 3, 3", "c, s, r")]
)
@pytest.mark.parametrize("activation", ["", "relu"])
def test_weights_by_channel_are_copied_to_the_order_of_the_outputs(weights, subscripts, activation):
    spec = depthwise(weights=weights, subscripts=subscripts, activation=activation)
    kernel = generate(spec, analysis=False)
    copy, stencil = kernel.plan.kernels
    assert (copy.family in ("map", "transpose"), stencil.family) == (True, "stencil")
    assert [array.name for array in kernel.plan.workspace] == ["w_ordered"]
    assert verify(spec, kernel.source, kernel.manifest, CpuDevice(), params={}).verification.passed


def test_weights_in_the_order_of_the_outputs_are_read_as_they_are():
    assert families_of(depthwise(weights="3, 3, C", subscripts="r, s, c")) == ["stencil"]


@pytest.mark.parametrize(
    "options",
    [
        {"batch": 1, "rows": 8},
        {"memory": ", memory: readonly"},
        {"schedule": "schedule: {family: direct}"},
    ],
    ids=["few outputs", "placed", "another family"],
)
def test_weights_of_which_a_copy_gains_nothing_are_left(options):
    assert "stencil" not in families_of(depthwise(**options))
