"""Reductions of separable windows are one pass along each dimension, with the results of the whole window."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.stored import separable_windows
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

BOUNDARIES = ("zero", "clamp", "wrap", "reflect", "symmetric")
SEPARABLE = (
    "y[i, j] = sum(g[r] * h[s] * x[i + r - 4, j + s - 3], r, s) + x[i, j]",
    "y[i, j] = sum(g[r] * sum(h[s] * x[i + r - 4, j + s - 3], s), r) / 3",
    "y[i, j] = sum(x[i + r - 4, j + s - 3] ** 2 * g[r], r, s)",
    "y[i, j] = mean(x[i + r - 9, j - 2 * s], r, s)",
    "y[j, i] = sum(h[s] * x[i + r - 4, j + s - 3] * g[r], r, s)",
    "y[i, j] = sum(x[i + r - 4, j + s - 3] * x[i + r - 4, j + s - 3], r, s) - sum(x[i + r, j + s], r, s)",
    "y[i, j] = max(x[i + r - 4, j + s - 3], r, s)",
    "y[i, j] = sum(g[r] * h[s] * x[i + r - 4, j + s - 3] * z[i + r - 4, j + s - 3], r, s)",
    "y[i, j] = max(abs(x[i + r - 4, j + s - 3] - z[i + r - 4, j + s - 3]), r, s)",
    "y[i, j] = min(min(abs(x[i + r - 4, j + s - 3]), r), s)",
    "y[i, j] = sum(abs(x[i + r - 4, j + s - 3] - z[i + r - 4, j + s]), r, s)",
    "y[i, j, d] = sum(abs(x[i + r - 4, j + s - 3] - z[i + r - 4, j + s - 3 - d]), r, s)",
    "y[d, i, j] = sum(g[r] * x[i + r - 4, j + s - 3] * z[i + r - 4, j + s - 3 + d], r, s)",
)
RESULTS = {"y[j, i]": "[N, M]", "y[i, j, d]": "[M, N, 5]", "y[d, i, j]": "[5, M, N]", "y[i, d, j]": "[M, 5, N]"}
OTHERS = {
    "weights of both": "y[i, j] = sum(w[r, s] * x[i + r - 4, j + s - 3], r, s)",
    "two windows": "y[i, j] = sum(x[i + r - 4, j + s] * x[i + r, j + s - 3], r, s)",
    "a window of another boundary": "y[i, j] = sum(x[i + r - 4, j + s - 3] * v[i + r - 4, j + s - 3], r, s)",
    "a term of the output's row": "y[i, j] = sum((x[i + r - 4, j + s - 3] - x[i, j]) ** 2, r, s)",
    "a condition": "y[i, j] = sum(x[i + r - 4, j + s - 3], r, s, where=r + s < 9)",
    "a diagonal": "y[i, j] = sum(x[i + r - 4, j + s - r], r, s)",
    "filters of several features": "y[i, d, j] = sum(abs(x[i + r - 4, j + s - 3]) * t[d, s], r, s)",
    "rows further on": "y[i, j, d] = sum(abs(x[i + r - 4, j + s - 3] - z[i + r - 4 + d, j + s - 3]), r, s)",
    "columns of another index alone": "y[i, j, d] = sum(x[i + r - 4, j + s - 3] * z[i + r - 4, s - d], r, s)",
    "a row beyond the edge that isn't 0": "y[i, j] = sum(exp(x[i + r - 4, j + s - 3]), r, s)",
    "one that would be less than 0": "y[i, j] = max(x[i + r - 4, j + s - 3] - 1, r, s)",
    "two dimensions of one index": "y[i, j] = max(x[i + r - 4, i + s - 3], r, s) + x[i, j]",
    "weights of a maximum": "y[i, j] = max(g[r] + x[i + r - 4, j + s - 3], r, s)",
}


SHAPES = {"g": "[9]", "h": "[8]", "w": "[9, 8]", "t": "[5, 8]"}
OF_X = (
    "z: {{shape: [M, N], dtype: {dtype}, boundary: {boundary}}}",
    "v: {{shape: [M, N], dtype: {dtype}, boundary: wrap}}",
)


def text_of(compute: str, boundary: str = "zero", dtype: str = "float32", memory: str = "") -> str:
    weights = [f"  {n}: {{shape: {SHAPES[n]}, dtype: float32}}\n" for n in SHAPES if f"{n}[" in compute]
    weights += [f"  {n.format(dtype=dtype, boundary=boundary)}\n" for n in OF_X if f"{n[0]}[" in compute]
    return f"""cugen: 1
kernel: f
params: {{M: 37, N: 44}}
arrays:
  x: {{shape: [M, N], dtype: {dtype}, boundary: {boundary}{memory}}}
{"".join(weights)}  y: {{shape: {RESULTS.get(compute.split(" = ")[0], "[M, N]")}, dtype: {dtype}}}
indices: {{r: 9, s: 8, i: M, j: N}}
compute: |
  {compute}
"""


def spec_of(*args: str):
    return load_text(text_of(*args))[0]


@pytest.fixture(autouse=True)
def of_small_arrays(monkeypatch):
    monkeypatch.setattr(separable_windows, "_MIN_SAVED_TERMS", 1)
    monkeypatch.setattr(separable_windows, "_MIN_TERMS_PER_ELEMENT", 0)
    monkeypatch.setattr(separable_windows, "_MIN_TERMS_PER_STORED_BYTE", 0)


def launches(spec) -> list[str]:
    kernel = generate(spec, analysis=False)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1, sanitize=True))
    assert run.verification.passed, "\n".join(run.verification.messages)
    return [text.split(" = ")[0].split("[")[0] for launch in kernel.plan.kernels for text in launch.computes]


@pytest.mark.sampled(56)
@pytest.mark.parametrize("columns", [44, 45])
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("compute", SEPARABLE)
def test_a_separable_window_is_reduced_along_one_dimension_at_a_time(compute: str, boundary: str, columns: int) -> None:
    """Both passes are one launch, or two where rows aren't whole vectors."""
    is_sum = compute.split(" = ")[1].startswith("sum")
    is_whole = (
        "abs" in compute and boundary == "zero" and not is_sum
    )  # a boundary's own value is the only one that is kept
    passes = 0 if is_whole else 2 if compute.count("r, s)") == 2 else 1
    names = launches(load_text(text_of(compute, boundary).replace("44", str(columns)))[0])
    assert sum("pass" in name for name in names) == passes
    assert names[-1] == "y"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("compute", OTHERS.values(), ids=list(OTHERS))
def test_what_is_not_separable_is_reduced_at_once(compute: str) -> None:
    assert not any("pass" in name for name in launches(spec_of(compute)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("dtype", "boundary"), [("uint8", "{value: 9}"), ("int32", "zero"), ("bool", "zero")])
def test_other_types_and_values_beyond_the_edge(dtype: str, boundary: str) -> None:
    kind = "any" if dtype == "bool" else "min" if boundary != "zero" else "sum"
    names = launches(spec_of(f"y[i, j] = {kind}(x[i + r - 4, j + s - 3], r, s)", boundary, dtype))
    assert len(names) == 2


def test_three_dimensions_are_three_passes() -> None:
    (spec,) = load_text("""cugen: 1
kernel: f
params: {D: 9, H: 11, W: 12, C: 3}
arrays:
  x: {shape: [D, H, W, C], dtype: float32, boundary: reflect}
  y: {shape: [D, H // 2, W, C], dtype: float32}
indices: {q: 5, r: 4, s: 3}
compute: y[d, i, j, c] = mean(x[d + q - 2, 2 * i + r - 1, j + s - 1, c], q, r, s)
""")
    assert len(launches(spec)) == 3


def test_a_window_that_a_guard_keeps_inside_is_separable_too() -> None:
    guarded = "y[i, j] = max(x[i + r, j + s], r, s) if i + 9 <= M and j + 8 <= N else 0"
    (spec,) = load_text(text_of(guarded).replace(", boundary: zero", ""))
    assert launches(spec) == ["y_pass", "y"]


def test_a_row_of_an_empty_array_is_that_of_its_elements() -> None:
    """Where there are none, a read beyond the edge is 0, whose exponential is 1."""
    text = text_of("y[i, j] = max(exp(x[i + r - 4, j + s - 3]), r, s)", "clamp").replace("[M, N]", "[L, N]", 1)
    (spec,) = load_text(text.replace("M: 37", "L: dynamic, M: 37"))
    assert len(generate(spec, analysis=False).plan.kernels) == 1


def test_terms_of_a_pass_may_depend_on_what_subscripts_its_elements() -> None:
    (spec,) = load_text(
        """cugen: 1
kernel: f
params: {B: 3, H: 21, W: 20}
arrays:
  x: {shape: [5, H, W], dtype: float32, boundary: wrap}
  g: {shape: [B, 7], dtype: float32}
  y: {shape: [B, H, W], dtype: float32}
indices: {b: B, r: 6}
compute: y[b, i, j] = sum(g[b, s] * (x[b, i + r - 4, j + s - 3] - g[b, s]), r, s)
""".replace("indices: {b: B, r: 6}", "indices: {b: B, r: 6, i: H, j: W}")
    )
    assert launches(spec) == ["y_pass", "y"]


def test_a_window_whose_array_is_placed_is_reduced_at_once() -> None:
    compute = "y[i, j] = max(x[i + r - 4, j + s - 3], r, s)"
    assert launches(spec_of(compute, "zero", "float32", ", memory: shared")) == ["y"]


@pytest.mark.parametrize(
    ("size", "window", "dtype", "families"),
    [
        (4096, 11, "float32", ["fused_stencil"]),
        (4096, 7, "uint8", ["fused_stencil"]),
        (4099, 11, "float32", ["staged", "stencil"]),
        (4099, 7, "float32", ["fused_stencil"]),
        (4096, 5, "float32", ["stencil"]),
        (400, 11, "float32", ["stencil"]),
    ],
)
def test_passes_are_taken_where_they_save_enough(
    monkeypatch: pytest.MonkeyPatch, size: int, window: int, dtype: str, families: list[str]
) -> None:
    monkeypatch.undo()
    (spec,) = load_text(f"""cugen: 1
kernel: f
arrays:
  x: {{shape: [{size}, {size}], dtype: {dtype}, boundary: clamp}}
  y: {{shape: [{size}, {size}], dtype: {dtype}}}
indices: {{r: {window}, s: {window}}}
compute: y[i, j] = max(x[i + r - 2, j + s - 2], r, s)
""")
    assert [kernel.family for kernel in generate(spec, analysis=False).plan.kernels] == families


OPENING = """cugen: 1
kernel: opening
params: {M: 37, N: 44}
arrays:
  x: {shape: [M, N], dtype: uint8, boundary: symmetric}
  e: {shape: [M, N], dtype: uint8, memory: scratch, boundary: symmetric}
  y: {shape: [M, N], dtype: uint8}
indices: {r: 9, s: 9, u: 9, v: 9}
compute: |
  e[i, j] = min(x[i + r - 4, j + s - 4], r, s)
  y[i, j] = max(e[i + u - 4, j + v - 4], u, v)
"""


def test_windows_of_a_stored_temporary_are_passes_as_well():
    (spec,) = load_text(OPENING)
    kernel = generate(spec, analysis=False)
    assert len(kernel.plan.kernels) == 4
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed
