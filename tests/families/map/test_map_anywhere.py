"""Statements without loops: rearrangements, paddings, gathers, and outputs at an offset."""

from __future__ import annotations

import pytest

from cugen.plan.kernel import Kernel
from cugen.plan.traversal.walking import accesses

TEXT = """
params: {{{params}}}
arrays:
{arrays}
compute: {compute}
"""


def spec(params: str, compute: str, **arrays: str) -> str:
    lines = "\n".join(f"  {name}: {{{text}}}" for name, text in arrays.items())
    return TEXT.format(params=params, arrays=lines, compute=compute)


def rearranged(compute, x="[M, N]", y="[M, N]", dtype="float32", more="", params="M: 37, N: 52"):
    return spec(params, compute, x=f"shape: {x}, dtype: {dtype}{more}", y=f"shape: {y}, dtype: {dtype}")


REARRANGEMENTS = {
    "flipped": rearranged("y[i, j] = x[i, N - 1 - j]"),
    "rows flipped": rearranged("y[i, j] = x[M - 1 - i, j]"),
    "rolled": rearranged("y[i, j] = x[(i + 3) % M, (j + 5) % N]"),
    "rolled by rows": rearranged("y[i, j] = x[(i + 3) % M, j]"),
    "cut out": rearranged("y[i, j] = x[i + 2, j + 4]", x="[M + 2, N + 8]"),
    "every second": rearranged("y[i, j] = x[i, 2 * j]", x="[M, 2 * N]"),
    "enlarged": rearranged("y[i, j] = x[i // 2, j // 2]", y="[2 * M, 2 * N]"),
    "repeated": rearranged("y[i, j] = x[i % M, j % N]", y="[3 * M, 2 * N]"),
    "cast": rearranged("y[i, j] = x[i, N - 1 - j]", dtype="float16", params="M: 37, N: 51"),
    "bytes": rearranged("y[i, j] = x[M - 1 - i, j]", dtype="uint8", params="M: 5, N: 48"),
    "pixels shuffled": rearranged(
        "y[c, h, w] = x[c * 4 + (h % 2) * 2 + w % 2, h // 2, w // 2]",
        x="[4 * C, H, W]",
        y="[C, 2 * H, 2 * W]",
        params="C: 3, H: 10, W: 14",
    ),
    "space to depth": rearranged(
        "y[b, h, w, c] = x[b, 2 * h + c // (2 * C), 2 * w + (c // C) % 2, c % C]",
        x="[B, 2 * H, 2 * W, C]",
        y="[B, H, W, 4 * C]",
        params="B: 2, H: 5, W: 6, C: 8",
    ),
    "im2col": rearranged(
        "y[a, b] = x[a // 9, b // W + (a // 3) % 3 - 1, b % W + a % 3 - 1]",
        x="[C, H, W]",
        y="[9 * C, H * W]",
        more=", boundary: zero",
        params="C: 3, H: 7, W: 12",
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", ["flipped", "rolled by rows", "cut out", "space to depth"])
def test_rearrangements_are_right(made, prove, name):
    assert [kernel.family for kernel in made(REARRANGEMENTS[name]).plan.kernels] == ["map"]
    prove(REARRANGEMENTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", list(REARRANGEMENTS))
def test_every_rearrangement_is_right(made, prove, name):
    assert [kernel.family for kernel in made(REARRANGEMENTS[name]).plan.kernels] == ["map"]
    prove(REARRANGEMENTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mode", ["zero", "clamp", "wrap", "reflect", "symmetric", "{value: 3}"])
def test_paddings_of_every_kind_are_right(made, prove, mode, dtype):
    text = rearranged(
        "y[i, j] = x[i - P, j - P]",
        y="[M + 2 * P, N + 2 * P]",
        dtype=dtype,
        more=f", boundary: {mode}",
        params="M: 9, N: 20, P: 3",
    )
    assert [kernel.family for kernel in made(text).plan.kernels] == ["map"]
    prove(text)


def embedding(width=64, dtype="float32", rows="dynamic", value="table[ids[t], d] + position[t, d]"):
    return spec(
        f"T: {rows}, V: 50, D: {width}",
        f"y[t, d] = {value}",
        ids="shape: [T], dtype: int32",
        table=f"shape: [V, D], dtype: {dtype}",
        position=f"shape: [T, D], dtype: {dtype}",
        y=f"shape: [T, D], dtype: {dtype}",
    )


def widths(kernel: Kernel, name: str) -> list[int]:
    return [access.width for access in accesses(kernel.body) if access.array.name == name]


def test_gathered_rows_are_read_in_vectors(planned):
    kernel = planned(embedding())
    assert kernel.family == "map"
    assert [widths(kernel, name) for name in ("ids", "table", "position", "y")] == [[1], [4], [4], [4]]
    assert widths(planned(embedding(66)), "table") == [2, 2]
    assert widths(planned(embedding(64, "float16")), "table") == [8]


def test_aligned_rows_at_an_offset_are_read_in_vectors(planned):
    assert widths(planned(REARRANGEMENTS["rows flipped"]), "x") == [4]
    assert widths(planned(REARRANGEMENTS["cut out"]), "x") == [4]
    assert widths(planned(REARRANGEMENTS["flipped"]), "x") == [4]


def test_narrow_elements_are_stored_4_bytes_at_a_time(planned):
    text = rearranged("y[i, j] = x[i, 2 * j]", x="[M, 2 * N]", dtype="float16")
    assert [a.width for a in accesses(planned(text).body) if a.kind == "store"] == [2]


@pytest.mark.slow
def test_an_embedding_of_any_length_is_right(prove):
    for rows in (0, 1, 33):
        prove(embedding(), {"T": rows})


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float16", "float64", "int8"])
@pytest.mark.parametrize("width", [63, 72])
def test_embeddings_of_all_kinds_are_right(prove, width, dtype):
    prove(embedding(width, dtype, 37), sanitize=True)
    prove(embedding(width, dtype, 37, "position[t, d] if ids[t] == 3 else table[ids[t], d] * d"))
    prove(embedding(width, dtype, 37, "table[ids[t], D - 1 - d] - position[T - 1 - t, d]"))


CONCATENATION = """
params: {M: 19, N: 24, P: 12}
indices: {i: M, j: N, l: P}
arrays:
  a: {shape: [M, N], dtype: float32}
  b: {shape: [M, P], dtype: float32}
  y: {shape: [M, N + P], dtype: float32}
compute:
  - y[i, j] = a[i, j]
  - y[i, N + l] = b[i, l]
"""


@pytest.mark.slow
def test_concatenated_arrays_are_written_in_vectors(made, prove):
    kernels = made(CONCATENATION).plan.kernels
    assert [kernel.family for kernel in kernels] == ["map", "map"]
    assert [widths(kernel, "y") for kernel in kernels] == [[4], [4]]
    prove(CONCATENATION)
    prove(CONCATENATION.replace("N: 24", "N: 23"))


@pytest.mark.slow
def test_zero_padding_is_read_in_vectors(planned, prove):
    text = rearranged(
        "y[h, w, r, s, c] = x[h + r - 1, w + s - 1, c]",
        x="[H, W, C]",
        y="[H, W, 3, 3, C]",
        more=", boundary: zero",
        params="H: 5, W: 6, C: 12",
    )
    assert set(widths(planned(text), "x")) == {4}
    prove(text)
    prove(text.replace("C: 12", "C: 14").replace("float32", "float16"))


def test_a_value_named_as_a_loop_variable_has_its_own_range(prove):
    """The vectors of V + 1 are read with a loop variable v, the last elements of a row into a local v."""
    arrays = {"V": "shape: [32, 4], dtype: int8", "X": "shape: [32, 3], dtype: uint8"}
    prove(spec("", "y[j, row] = (V[j, row + 1] % 10) - X[j, row]", **arrays, y="shape: [32, 3], dtype: int8, pitch: 4"))
