"""Normalisations over rows, columns and groups: layouts, masks, infinities, fused prologues and epilogues."""

from __future__ import annotations

import pytest

from cugen.plan.traversal.walking import accesses

SOFTMAX = ("y[i, j] = softmax(x[i, j], j)",)


def spec(params: str, arrays: dict[str, tuple[str, str]], statements: tuple[str, ...], more: str = "") -> str:
    declared = "".join(f"  {name}: {{shape: [{s}], dtype: {d}}}\n" for name, (s, d) in arrays.items())
    text = "".join(f"  {statement}\n" for statement in statements)
    return f"params: {{{params}}}\narrays:\n{declared}compute: |\n{text}{more}"


def rows(m, n, statements=SOFTMAX, dtype="float32", out=None, schedule=""):
    more = f"schedule: {{{schedule}}}\n" if schedule else ""
    return spec(f"M: {m}, N: {n}", {"x": ("M, N", dtype), "y": ("M, N", out or dtype)}, statements, more)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("statement", ["y[i, j] = softmax(x[i, j], i)", "y[i, j] = x[i, j] / norm(x[k, j], k)"])
def test_columns_of_any_size(prove, statement):
    text = rows("dynamic", "dynamic", (statement,))
    for m, n in ((0, 5), (5, 0), (1, 1), (40, 37), (300, 33)):
        prove(text, {"M": m, "N": n})


F = "float32"


def batch_norm(n, c, h, w, dtype=F, layout=""):
    statements = (
        "mu[c] = mean(x[n, c, h, w], n, h, w)",
        "v[c] = var(x[n, c, h, w], n, h, w)",
        "y[n, c, h, w] = (x[n, c, h, w] - mu[c]) * rsqrt(v[c] + 1e-5) * g[c]",
    )
    arrays = {"x": ("N, C, H, W", f"{dtype}{layout}"), "g": ("C", F), "y": ("N, C, H, W", dtype)}
    return spec(f"N: {n}, C: {c}, H: {h}, W: {w}", arrays, statements)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("sides", "width"),
    [(("6", "6"), 4), (("6", "7"), 2), (("5", "7"), 1), (("{multiple_of: 4}", "5"), 4), (("dynamic", "5"), 1)],
)
def test_a_row_in_segments_takes_vectors_that_divide_a_segment(planned, sides, width):
    kernel = planned(batch_norm(8, 64, *sides))
    assert kernel.family == "rowwise"
    assert {a.width for a in accesses(kernel.body) if a.array.name in ("x", "y")} == {width}


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("layout", ["", ", pitch: {align: 64}", ", layout: column"])
@pytest.mark.parametrize("sizes", [(1, 3, 4, 4), (5, 2, 6, 8), (33, 1, 7, 2), (40, 2, 30, 30)])
def test_rows_in_segments_of_any_layout(prove, sizes, dtype, layout):
    prove(batch_norm(*sizes, dtype, layout), sanitize=True)


MORE = {
    "of several indices": (
        "A: 5, C: 3, H: 7, W: 8",
        {"x": ("A, C, H, W", F), "g": ("C, H, W", F), "y": ("A, C, H, W", F)},
        (
            "mu[n] = mean(x[n, c, h, w], c, h, w)",
            "v[n] = var(x[n, c, h, w], c, h, w)",
            "y[n, c, h, w] = (x[n, c, h, w] - mu[n]) * rsqrt(v[n] + 1e-5) * g[c, h, w]",
        ),
    ),
    "of several indices with a weight for some": (
        "A: 5, C: 3, H: 7, W: 9",
        {"x": ("A, C, H, W", F), "g": ("C", F), "y": ("A, C, H, W", F)},
        ("mu[n] = mean(x[n, c, h, w], c, h, w)", "y[n, c, h, w] = (x[n, c, h, w] - mu[n]) * g[c] + h"),
    ),
    "of an instance": (
        "A: 5, C: 3, H: 7, W: 9",
        {"x": ("A, C, H, W", F), "g": ("C", F), "y": ("A, C, H, W", F)},
        ("mu[n, c] = mean(x[n, c, h, w], h, w)", "y[n, c, h, w] = (x[n, c, h, w] - mu[n, c]) * g[c]"),
    ),
    "in one expression": (
        "A: 5, C: 3, H: 4, W: 9",
        {"x": ("A, C, H, W", F), "y": ("A, C, H, W", F)},
        ("y[n, c, h, w] = exp(x[n, c, h, w]) / sum(exp(x[n, c, a, b]), a, b)",),
    ),
    "with narrow results": (
        "M: 9, N: 100",
        {"x": ("M, N", "float16"), "mean": ("M", "float16"), "rstd": ("M", "bfloat16"), "y": ("M, N", "float16")},
        (
            "mean[i] = mean(x[i, j], j)",
            "rstd[i] = rsqrt(var(x[i, j], j) + 1e-5)",
            "y[i, j] = (x[i, j] - mean[i]) * rstd[i]",
        ),
    ),
    "cross entropy": (
        "M: 50, N: 100",
        {"x": ("M, N", F), "label": ("M", "int64"), "loss": ("M", F)},
        (
            "m[i] = max(x[i, j], j)",
            "s[i] = sum(exp(x[i, j] - m[i]), j)",
            "loss[i] = log(s[i]) + m[i] - x[i, label[i]]",
        ),
    ),
    "log of a sum of exponentials": (
        "M: 50, N: 10",
        {"x": ("M, N", F), "y": ("M", F)},
        ("y[i] = log(sum(exp(x[i, j] - max(x[i, k], k)), j)) + max(x[i, j], j)",),
    ),
    "masked by infinity": (
        "B: 2, T: 40",
        {"x": ("B, T, T", F), "y": ("B, T, T", F)},
        ("y[b, i, j] = softmax(where(j <= i, x[b, i, j], -inf), j)",),
    ),
    "masked by conditions": (
        "B: 2, T: 40",
        {"x": ("B, T, T", F), "y": ("B, T, T", F)},
        (
            "m[b, i] = max(x[b, i, j], j, where=j <= i)",
            "s[b, i] = sum(exp(x[b, i, j] - m[b, i]), j, where=j <= i)",
            "y[b, i, j] = exp(x[b, i, j] - m[b, i]) / s[b, i] if j <= i else 0",
        ),
    ),
    "with a residual": (
        "M: 9, N: 200",
        {
            "x": ("M, N", "bfloat16"),
            "r": ("M, N", "bfloat16"),
            "h": ("M, N", "bfloat16"),
            "g": ("N", F),
            "y": ("M, N", F),
        },
        (
            "h[i, j] = x[i, j] + r[i, j]",
            "s[i] = rsqrt(mean(h[i, j] * h[i, j], j) + 1e-5)",
            "y[i, j] = h[i, j] * s[i] * g[j]",
        ),
    ),
    "in place": ("M: 9, N: 200", {"x": ("M, N", F)}, ("m[i] = max(x[i, j], j)", "x[i, j] = x[i, j] - m[i]")),
    "accumulated into outputs": (
        "M: 9, N: 200",
        {"x": ("M, N", F), "r": ("M", F), "y": ("M, N", F)},
        ("mu[i] = mean(x[i, j], j)", "r[i] += mu[i] * 0.1", "y[i, j] += x[i, j] - mu[i]"),
    ),
    "argmax": (
        "M: 9, N: 200",
        {"x": ("M, N", F), "b": ("M", "int64"), "y": ("M, N", F)},
        ("b[i] = argmax(x[i, j], j)", "y[i, j] = softmax(x[i, j], j)"),
    ),
    "argmin of bytes": (
        "M: 9, N: 40",
        {"x": ("M, N", "int8"), "y": ("M, N", "int64")},
        ("y[i, j] = argmin(x[i, k], k) - j",),
    ),
    "integers": (
        "M: 9, N: 33",
        {"x": ("M, N", "int32"), "y": ("M, N", "int32")},
        ("y[i, j] = x[i, j] - max(x[i, k], k) + sum(x[i, k], k)",),
    ),
    "quantised": (
        "M: 9, N: 64",
        {"x": ("M, N", F), "s": ("M", F), "q": ("M, N", "int8")},
        ("s[i] = max(abs(x[i, j]), j) / 127", "q[i, j] = cast(round(x[i, j] / s[i]), int8)"),
    ),
    "products and any": (
        "M: 9, N: 37",
        {"x": ("M, N", F), "y": ("M, N", F)},
        ("y[i, j] = x[i, j] * prod(x[i, k], k) if any(x[i, k] > 0.5, k) else 0",),
    ),
    "outputs of another order": (
        "M: 9, K: 3, N: 37",
        {"x": ("M, K, N", F), "y": ("K, M, N", F)},
        ("m[i, k] = max(x[i, k, j], j)", "y[k, i, j] = x[i, k, j] - m[i, k]"),
    ),
    "one row": ("N: 1000", {"x": ("N", F), "y": ("N", F)}, ("y[j] = softmax(x[j], j)",)),
    "with positions": (
        "M: 9, N: 64",
        {"x": ("M, N", F), "y": ("M, N", F)},
        ("m[i] = sum(x[i, j] * j, j)", "y[i, j] = x[i, j] * j + m[i] + (x[i, j - 1] if j > 0 else 0)"),
    ),
    "gathered": (
        "M: 9, N: 64, V: 10",
        {"x": ("M, N", "int32"), "t": ("V", F), "y": ("M, N", F)},
        ("m[i] = sum(t[x[i, j]], j)", "y[i, j] = t[x[i, j]] - m[i]"),
    ),
    "of a sparse matrix": (
        "M: 37, K: 8, N: 100",
        {"val": ("M, K", F), "col": ("M, K", "int32"), "x": ("N", F), "y": ("M", F)},
        ("y[i] = sum(val[i, k] * x[col[i, k]], k, where=col[i, k] >= 0)",),
    ),
    "of several indices in one expression with a weight for some": (
        "M: 5, C: 4, S: 37",
        {"x": ("M, C, S", F), "g": ("C", F), "y": ("M, C, S", F)},
        ("y[b, c, s] = x[b, c, s] / sum(x[b, d, t], d, t) * g[c]",),
    ),
    "of two arrays": (
        "M: 9, N: 64",
        {"x": ("M, N", F), "z": ("M, N", F), "y": ("M, N", F)},
        ("y[i, j] = softmax(x[i, j], j) * sum(z[i, k], k) + max(z[i, k] * x[i, k], k)",),
    ),
    "with a vector's norm": (
        "M: 9, N: 64",
        {"x": ("M, N", F), "w": ("N", F), "y": ("M, N", F)},
        ("y[i, j] = (x[i, j] - max(x[i, k], k)) / norm(w[k], k)",),
    ),
    "of columns": (
        "M: 45, N: 30",
        {"x": ("M, N", F), "b": ("N", "int64"), "y": ("M, N", F)},
        ("b[j] = argmax(x[i, j], i)", "y[i, j] = softmax(x[i, j], i) if any(x[k, j] > 0, k) else 0"),
    ),
    "of channels": (
        "A: 3, C: 20, H: 5, W: 7",
        {"x": ("A, C, H, W", F), "y": ("A, C, H, W", F)},
        ("y[n, c, h, w] = softmax(x[n, c, h, w], c)",),
    ),
    "of a batch": (
        "A: 5, C: 3, H: 4, W: 8",
        {"x": ("A, C, H, W", F), "y": ("A, C, H, W", F)},
        ("mu[c] = mean(x[n, c, h, w], n, h, w)", "y[n, c, h, w] = x[n, c, h, w] - mu[c]"),
    ),
}


GROUP_NORM = """
params: {A: 5, C: 12, H: 4, W: %s, K: 3, G: 4}
arrays:
  x: {shape: [A, C, H, W], dtype: float32}
  gamma: {shape: [C], dtype: float32}
  y: {shape: [A, C, H, W], dtype: float32}
indices: {g: G, k: K}
compute: |
  mu[n, g] = mean(x[n, g * K + k, h, w], k, h, w)
  v[n, g] = var(x[n, g * K + k, h, w], k, h, w)
  y[n, c, h, w] = (x[n, c, h, w] - mu[n, c // K]) * rsqrt(v[n, c // K] + 1e-5) * gamma[c] + c %% K
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize("width", [7, 8])
def test_a_norm_of_groups_is_one_launch(made, prove, width):
    assert [kernel.family for kernel in made(GROUP_NORM % width).plan.kernels] == ["rowwise"]
    prove(GROUP_NORM % width)


@pytest.mark.slow
def test_groups_that_do_not_divide_are_not_split(prove):
    prove((GROUP_NORM % 8).replace("C: 12", "C: 14").replace("G: 4", "G: 5").replace("g * K + k", "g * 2 + k"))


@pytest.mark.sampled(28)
@pytest.mark.parametrize("name", list(MORE))
def test_norms_of_all_kinds(made, prove, name):
    text = spec(*MORE[name])
    assert len(made(text).plan.kernels) == 1
    prove(text)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 8, 16, 32])
def test_columns_by_any_number_of_adjacent_rows(prove, count):
    statements = ("y[i, j] = softmax(x[i, j], i)",)
    for threads in (1, 4, 32):
        prove(rows(45, 37, statements, schedule=f"threads: {threads}, rows: {count}"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", ["pitch: 48", "layout: column"])
def test_pitched_rows_and_column_major_arrays(prove, layout):
    prove(rows(9, 30).replace("dtype: float32}", f"dtype: float32, {layout}}}"))


@pytest.mark.slow
def test_infinities_and_nan_propagate(prove):
    prove(rows(9, 30, ("y[i, j] = softmax(log(x[i, j]) / 0, j)",)))
    prove(rows(9, 30, ("y[i, j] = softmax(where(x[i, j] > 0, x[i, j], -inf), j)",)))


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MORE))
def test_clean_under_sanitizers_and_the_race_check(prove, name):
    prove(spec(*MORE[name]), sanitize=True)
    prove(spec(*MORE[name]), races=True)
