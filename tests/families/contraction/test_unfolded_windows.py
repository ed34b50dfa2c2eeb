"""Windows that don't overlap are copied one after the other: which are, and their values."""

from __future__ import annotations

import pytest

from cugen.families.contraction import unfolded_windows
from cugen.kernel import generate
from cugen.runtime.cpu.device import CpuDevice
from cugen.runtime.verify import verify
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

PATCHES = """cugen: 1
kernel: patches
target: {target}
params: {{B: {b}, C: {c}, O: {o}, G: {g}, P: {p}}}
arrays:
  x: {{shape: [{shape}], dtype: {dtype}{boundary}}}
  w: {{shape: [{filters}], dtype: {dtype}}}
  y: {{shape: [B, {results}], dtype: float32}}
compute: y[n, {result}] = sum(x[{window}] * w[{weight}], c, r, s)
"""
FIRST = {"shape": "B, C, G * P, G * P", "window": "n, c, i * P + r, j * P + s"}
LAST = {"shape": "B, G * P, G * P, C", "window": "n, i * P + r, j * P + s, c"}
TOKENS = {"window": "n, c, t // G * P + r, t % G * P + s", "result": "t, o", "results": "G * G, O"}


def patches(b=8, c=3, o=256, g=14, p=16, dtype="float16", target="sm_90a", **others: str) -> str:
    texts = {**FIRST, "filters": "O, C, P, P", "weight": "o, c, r, s", "result": "o, i, j", "results": "O, G, G"}
    texts |= {"boundary": ""} | others
    return PATCHES.format(b=b, c=c, o=o, g=g, p=p, dtype=dtype, target=target, **texts)


def launches(text: str) -> list[str]:
    (spec,) = load_text(text)
    return [launch.name for launch in make_plan(spec).kernels]


@pytest.mark.parametrize(
    ("text", "family"),
    [
        (patches(), "wgmma"),
        (patches(**TOKENS), "wgmma"),
        (patches(**LAST, filters="O, P, P, C", weight="o, r, s, c"), "wgmma"),
        (patches(target="sm_80", dtype="bfloat16"), "gemm"),
    ],
    ids=["images", "tokens", "channels last", "by mma.sync"],
)
def test_patches_of_an_image_are_copied_in_the_order_of_the_filters(text: str, family: str) -> None:
    (spec,) = load_text(text)
    plan = make_plan(spec)
    assert [array.name for array in plan.workspace] == ["x_windows"]
    assert plan.kernels[-1].family == family


@pytest.mark.parametrize(
    "text",
    [
        patches(shape="B, C, 8 * G + 8, 8 * G + 8", window="n, c, 8 * i + r, 8 * j + s"),
        patches(**LAST, filters="O, P, P, C", weight="o, r, s, c", c=64, p=2),
        patches(c=64, p=2),
        patches(dtype="float32"),
        patches(boundary=", boundary: zero", window="n, c, i * P + r - 1, j * P + s"),
        patches(b=1, o=16, g=2),
    ],
    ids=["overlapping", "wide pixels", "short rows", "wide elements", "a boundary", "little work"],
)
def test_other_windows_are_not(text: str) -> None:
    assert not any("windows" in name for name in launches(text))


@pytest.mark.covering
@pytest.mark.parametrize("target", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "sizes",
    [
        {"b": 2, "g": 3, "o": 24, "p": 16},
        {"b": 1, "g": 5, "o": 7, "p": 8, "c": 1, **TOKENS},
        {"b": 3, "g": 2, "o": 9, "p": 10, "dtype": "bfloat16", **LAST, "filters": "O, P, P, C", "weight": "o, r, s, c"},
    ],
    ids=["images", "tokens", "channels last"],
)
def test_a_gemm_of_the_copy_equals_the_reference(
    monkeypatch: pytest.MonkeyPatch, sizes: dict[str, object], target: str
) -> None:
    monkeypatch.setattr(unfolded_windows, "_MIN_MULTIPLY_ADDS", 0)
    (spec,) = load_text(patches(target=target, **sizes))
    made = generate(spec, remarks="none")
    assert any("windows" in launch.name for launch in made.plan.kernels)
    assert verify(made.spec, made.source, made.manifest, CpuDevice(sanitize=True)).verification.passed
