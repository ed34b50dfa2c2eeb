"""A reduction of the one term at an index that an element holds is a gather, with the same values for all elements."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.inputs import Inputs
from cugen.runtime.verify import make_job, outputs_of
from cugen.spec.load import load_text

B, V, D = 57, 33, 13
TEXT = """
cugen: 1
kernel: f
params: {B: %d, V: %d, D: %d}
arrays:
  t: {shape: [B], dtype: %s}
  w: {shape: [V, D], dtype: %s}
  e: {shape: [B, D], dtype: %s}
compute: e[b, d] = %s
"""
TAKEN = [
    ("sum(w[v, d], v, where=t[b] == v)", 0),
    ("sum(w[v, d] if v == t[b] else 0, v)", 0),
    ("sum(w[v, d], v, where=t[b] == v and w[v, 0] > 0)", 0),
    ("3 + sum(w[v, d] + w[v, d] * w[0, d], v, where=t[b] == v)", 3),
    ("max(w[v, d], v, where=t[b] == v)", None),
    ("min(w[v, d], v, where=t[b] == v)", None),
    ("prod(w[v, d], v, where=t[b] == v)", 1),
]
OF_INTEGERS = [("sum(w[v, d] * (t[b] == v), v)", 0), ("sum((v == t[b]) * w[v, d], v)", 0)]
KEPT = [
    "sum(w[v, d] * (t[b] == v), v)",  # of floats: 0 * inf is NaN
    "sum(w[v, d] * v, v, where=t[b] == v)",  # the index is a value
    "sum(w[v, d], v, where=t[b] + 1 == v)",  # a sum of int32 may wrap
    "sum(w[v, d], v, where=t[b] <= v)",
    "argmax(w[v, d], v, where=t[b] == v)",
]


def kernel_of(value: str, index: str = "int32", dtype: str = "float32", text: str = TEXT) -> Kernel:
    (spec,) = load_text(text % (B, V, D, index, dtype, dtype, value))
    return generate(spec, analysis=False)


@pytest.mark.parametrize("value", [value for value, _ in TAKEN])
def test_it_is_a_gather(value):
    assert [launch.family for launch in kernel_of(value).plan.kernels] == ["map"]


@pytest.mark.parametrize("value", KEPT)
def test_others_are_loops(value):
    kernel = kernel_of(value)
    assert "map" not in [launch.family for launch in kernel.plan.kernels]


@pytest.mark.parametrize(
    ("key", "setting"), [("w: {", "w: {memory: constant, "), ("compute", "schedule: {family: direct}\ncompute")]
)
def test_what_the_spec_places_or_schedules_is_left_as_it_is(key, setting):
    kernel = kernel_of(TAKEN[0][0], text=TEXT.replace(key, setting))
    assert "for (int v = 0; v < V; ++v)" in kernel.source


@pytest.mark.sampled(47)
@pytest.mark.parametrize("index", ["int32", "int64", "int8"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(("value", "nothing"), TAKEN)
def test_every_bit_is_that_of_the_loop(value, nothing, index, dtype):
    agrees(value, nothing, index, dtype)


@pytest.mark.parametrize(("value", "nothing"), OF_INTEGERS)
def test_masks_of_integers_choose_an_element(value, nothing):
    assert [launch.family for launch in kernel_of(value, dtype="int16").plan.kernels] == ["map"]
    agrees(value, nothing, "int32", "int16")


def agrees(value: str, nothing: int | None, index: str, dtype: str) -> None:
    """Compares the gather with a loop, bit by bit, at positions in and out of bounds, of zeros, NaN and inf."""
    rng = np.random.default_rng(0)
    w = rng.integers(-9, 10, (V, D)).astype(dtype)
    if w.dtype.kind == "f":
        w[0], w[1], w[2], w[3] = -0.0, np.nan, np.inf, 0.0
    t = rng.permutation(np.resize(np.arange(-3, V + 3), B)).astype(index)
    loop = TEXT.replace("compute", "schedule: {family: direct}\ncompute")
    results = []
    for text in (TEXT, loop):
        kernel = kernel_of(value, index, dtype, text)
        job = make_job(kernel.source, kernel.manifest, Inputs({"t": t, "w": w}, {}), {})
        results.append(outputs_of(job, CpuDevice(sanitize=True).run(job))["e"])
    gathered, looped = results
    assert gathered.tobytes() == looped.tobytes()
    if nothing is not None:
        assert (gathered[(t < 0) | (t >= V)] == nothing).all()
