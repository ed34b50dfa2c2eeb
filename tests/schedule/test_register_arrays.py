"""`memory: register` of an input: honoured where every subscript is static, else refused with the subscript."""

from __future__ import annotations

import pytest

from cugen.analysis.verdicts.local_arrays import local_arrays
from cugen.kernel import Kernel, generate
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text

SPEC = """
cugen: 1
kernel: lookup
arrays:
  t: {shape: [16], dtype: float32, memory: register}
  x: {shape: [1100], dtype: float32}
  ids: {shape: [1000], dtype: int32}
  y: {shape: [1000], dtype: float32}
compute: y[i] = VALUE + ids[i] * x[i + 0]
"""
BAKED = SPEC.replace("memory: register", f"memory: register, values: {list(range(16))}")


def made(value: str, extra: str = "", text: str = SPEC) -> Kernel:
    (spec,) = load_text(text.replace("VALUE", value) + extra)
    return generate(spec)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("value", "extra", "read"),
    [
        ("t[ids[i]] * 2", "", "t[ids[i]]"),
        ("t[3] * t[i % 16]", "", "t[i % 16]"),
        ("sum(t[k % 16] * k, k)", "indices: {k: 100}\n", "t[k % 16]"),  # a loop that isn't unrolled
        ("cumsum(t[i % 16], i)", "", "% 16]"),
        ("t[i // 64]", "schedule: {family: direct}\n", "t[i // 64]"),
        ("t[i // 64]", "schedule: {block: {i: 64}}\n", "t[i // 64]"),
    ],
)
@pytest.mark.parametrize("text", [SPEC, BAKED], ids=["input", "baked"])
def test_a_register_array_with_a_moving_subscript_is_refused_with_the_read_and_a_cure(text, value, extra, read):
    with pytest.raises(SpecError) as caught:
        made(value, extra, text)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == ("CG2102" if "family" in extra else "CG2103")
    (note,) = (note for note in diagnostic.notes if note.startswith("direct: "))
    assert read in note
    assert note.endswith("is known at run time only: use shared or constant memory")
    assert "one that fits: direct" not in diagnostic.help


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("value", "extra"),
    [
        ("t[3] * x[i + 0]", ""),
        ("sum(t[k] * x[i + k], k)", ""),
        ("sum(t[k] * x[i + k], k)", "schedule: {family: direct}\n"),
        ("sum(t[k % 16] * x[i + k], k)", "indices: {k: 64}\n"),
        ("sum(t[k] * x[i + k], k, where=k <= i)", ""),
        ("sum(t[r + q] * x[i + r], r, q)", "indices: {r: 8, q: 9}\n"),
    ],
)
@pytest.mark.parametrize("text", [SPEC, BAKED], ids=["input", "baked"])
def test_static_subscripts_are_honoured_without_local_memory(text, value, extra):
    kernel = made(value, extra, text)
    assert "t_register[16]" in kernel.source
    assert [local_arrays(launch) for launch in kernel.plan.kernels] == [{}]
