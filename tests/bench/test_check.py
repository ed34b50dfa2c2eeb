"""A benchmark times nothing that is wrong: what the check sees in device memory after one run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cugen.bench.buffers import Buffers
from cugen.bench.check import Check, check
from cugen.kernel import generate
from cugen.reference.evaluate import evaluate
from cugen.reference.storage import numpy_dtype
from cugen.runtime.inputs import known_params
from cugen.spec.load import load_text
from cugen.spec.model import Spec

PITCHED = """\
cugen: 1
kernel: pitched
params: {M: 7, N: 10}
arrays:
  x: {shape: [M, N], dtype: float32}
  y: {shape: [M, N], dtype: float32, pitch: 16}
compute: y[i, j] = 2 * x[i, j]
"""
UPDATE = """\
cugen: 1
kernel: update
params: {N: 40}
arrays:
  x: {shape: [N], dtype: bfloat16}
  y: {shape: [N], dtype: float32}
  total: {shape: [], dtype: float32}
compute: |
  y[i] += x[i]
  total = sum(x[i], i)
"""


class Bench:
    """Set 0 after a run whose results are the reference's."""

    def __init__(self, session: Any, text: str) -> None:
        self.session = session
        (self.spec,) = load_text(text)
        self.params = known_params(self.spec, {})
        manifest = generate(self.spec, analysis=False).manifest
        self.buffers = Buffers(session, self.spec, manifest, self.params, seed=5)
        inputs = {
            p.argument.name: self.view(p.argument.name) for p in self.buffers.layout if p.argument.role != "output"
        }
        before = {name: array.copy() for name, array in inputs.items()}
        for name, result in evaluate(self.spec, before).items():
            self.view(name)[...] = result.value

    def view(self, name: str, number: int = 0) -> np.ndarray[Any, Any]:
        """The logical array in the memory of a set."""
        array = self.buffers.array_buffer(name)
        flat = self.session.bytes_at(self.buffers.address(name, number), array.bytes).view(numpy_dtype(array.dtype))
        steps = tuple(s * array.dtype.bytes for s in array.strides)
        return np.lib.stride_tricks.as_strided(flat, array.shape, steps)

    def check(self) -> Check:
        return check(self.session, self.spec, self.buffers, {}, {}, seed=1)


def test_results_of_the_reference_pass_with_gaps_updates_and_scalars(fake: Any) -> None:
    for text in (PITCHED, UPDATE):
        check = Bench(fake, text).check()
        assert check.messages == ()
        assert check.passed
        assert check.checked == "all"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda b: b.view("y").__setitem__((3, 4), 9.0), "elements differ; the first: y[3, 4] is 9"),
        (lambda b: b.session.set_bytes(b.buffers.address("y") + 11 * 4, 0, 4), "1 elements in the gaps of its pitch"),
        (lambda b: b.session.copy(b.buffers.address("y"), b.buffers.address("y", 1), 4), "1 elements were not written"),
        (lambda b: b.view("x").__setitem__((0, 0), -0.0), "x is an input and"),
        (lambda b: b.session.set_bytes(b.buffers.address("x") - 3, 7, 2), "x: 2 bytes before it were written"),
        (
            lambda b: b.session.set_bytes(b.buffers.address("y") + b.buffers.array_buffer("y").bytes, 7, 1),
            "y: 1 bytes behind it were written",
        ),
    ],
)
def test_each_kind_of_damage_is_seen_and_said(fake: Any, damage: Callable[[Bench], None], message: str) -> None:
    bench = Bench(fake, PITCHED)
    damage(bench)
    check = bench.check()
    assert not check.passed
    assert any(message in said for said in check.messages)


def test_large_outputs_are_sampled_with_both_ends(fake: Any) -> None:
    bench = Bench(fake, PITCHED.replace("M: 7, N: 10", "M: 700, N: 16"))
    check = bench.check()
    assert check.passed
    assert check.checked.startswith("sample of ")
    bench.view("y")[-1, -1] += 1
    assert not bench.check().passed


def sets_of(spec: Spec, session: Any) -> Buffers:
    return Buffers(session, spec, generate(spec, analysis=False).manifest, known_params(spec, {}), seed=1)


def test_all_sets_exceed_the_cache_three_times_and_have_equal_contents(fake: Any) -> None:
    (spec,) = load_text(UPDATE)
    buffers = sets_of(spec, fake)
    assert buffers.held_bytes == 40 * 2 + 40 * 4 + 4
    assert buffers.count == -(-3 * fake.l2_bytes // buffers.held_bytes)
    assert buffers.exceeds_the_cache
    first, last = (fake.bytes_at(buffers.start(n), buffers.set_bytes) for n in (0, buffers.count - 1))
    assert np.array_equal(first, last)
    assert buffers.start(1) - buffers.start(0) == buffers.set_bytes


def test_tiny_sets_stop_at_a_number_and_leave_the_rest_to_a_flush(fake: Any) -> None:
    fake.l2_bytes = 1 << 20
    (spec,) = load_text(UPDATE)
    buffers = sets_of(spec, fake)
    assert buffers.count == 64
    assert not buffers.exceeds_the_cache


def test_bytes_moved_count_each_argument_once_and_an_update_twice(fake: Any) -> None:
    (spec,) = load_text(UPDATE)
    buffers = sets_of(spec, fake)
    assert buffers.moved_bytes == 40 * 2 + 2 * 40 * 4 + 4
    assert buffers.written_bytes == 40 * 4 + 4
    (spec,) = load_text(PITCHED)
    assert sets_of(spec, fake).moved_bytes == 2 * 7 * 10 * 4  # without the gaps of the pitch


def test_views_say_what_libraries_ask_for(fake: Any) -> None:
    (spec,) = load_text(UPDATE)
    arrays = sets_of(spec, fake).arrays(1)
    assert arrays["x"].__cuda_array_interface__["typestr"] == "<V2"
    assert arrays["x"].dtype == "bfloat16"
    assert arrays["x"].seen_as("int16").__cuda_array_interface__["typestr"] == "<i2"
    assert arrays["total"].__cuda_array_interface__["shape"] == ()


def test_subscripts_that_are_elements_stay_inside_what_they_index(fake: Any) -> None:
    text = """\
cugen: 1
kernel: lookup
arrays:
  ids: {shape: [50], dtype: int32}
  table: {shape: [5], dtype: float32}
  y: {shape: [50], dtype: float32}
compute: y[i] = table[ids[i]]
"""
    bench = Bench(fake, text)
    assert set(bench.view("ids").tolist()) <= set(range(5))
    assert bench.check().passed


def test_sets_that_exceed_the_memory_are_refused(fake: Any) -> None:
    (spec,) = load_text(UPDATE.replace("N: 40", "N: 400000"))
    with pytest.raises(MemoryError, match="two sets of update's arrays"):
        sets_of(spec, fake)


def test_of_a_single_sample_it_is_the_last_element(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
cugen: 1
kernel: running
params: {N: 5000}
arrays:
  x: {shape: [N], dtype: int32}
  y: {shape: [N], dtype: int32}
compute: y[i] = cumsum(x[i], i)
"""
    monkeypatch.setattr("cugen.bench.check._COUNTS", (1,))
    bench = Bench(fake, text)
    assert bench.check().checked == "sample of 1"
    bench.view("y")[-1] += 1
    assert not bench.check().passed


def test_as_many_elements_are_checked_as_the_reference_can_afford(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    text = """\
cugen: 1
kernel: product
params: {M: 100, K: 500}
arrays:
  a: {shape: [M, K], dtype: int32}
  y: {shape: [M, M], dtype: int32}
compute: y[i, j] = max(a[i, k] * a[j, k], k)
"""
    monkeypatch.setattr("cugen.bench.check._MAX_REFERENCE_OPERATIONS", 20000)
    bench = Bench(fake, text)
    checked = int(bench.check().checked.removeprefix("sample of "))
    assert 4 <= checked <= 16
