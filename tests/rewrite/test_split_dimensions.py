"""Dimensions that are subscripted by an outer and an inner index are split, and so are indices that are divided."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.rewrite.split_dimensions import with_split_dimensions
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.expressions import Op, Reduce, walk
from cugen.spec.load import load_text
from cugen.spec.prove.affine import text_of


def spec_of(params: str, arrays: str, compute: str, indices: str = ""):
    lines = ["cugen: 1", "kernel: f", f"params: {{{params}}}", "arrays:"]
    for array in arrays.split("; "):
        name, shape = array.split(" ", 1)
        lines.append(f"  {name}: {{shape: {shape}, dtype: float32}}")
    more = [f"indices: {{{indices}}}"] if indices else []
    (spec,) = load_text("\n".join([*lines, *more, f"compute: {compute}"]))
    return spec


def shape(spec, array: str) -> list[str]:
    return [text_of(extent) for extent in spec.array(array).shape]


def passes(spec) -> bool:
    kernel = generate(spec, analysis=False)
    return verify(spec, kernel.source, kernel.manifest, CpuDevice()).verification.passed


HEADS = "o[b, i, h * D + d] = sum(p[b, h, i, j] * v[b, j, h * D + d], j)"


def heads(params: str = "B: 2, S: 70, H: 3, D: 20"):
    return spec_of(params, "p [B, H, S, S]; v [B, S, H * D]; o [B, S, H * D]", HEADS, "d: D")


def test_the_heads_of_an_attention_are_a_dimension_of_their_own():
    split = with_split_dimensions(heads())
    assert shape(split, "v") == shape(split, "o") == ["B", "S", "H", "D"]
    assert [text_of(sub) for sub in split.statements[0].subscripts] == ["b", "i", "h", "d"]


def test_such_a_contraction_is_one_gemm_with_right_results():
    kernel = generate(heads(), analysis=False)
    assert [launch.family for launch in kernel.plan.kernels] == ["gemm"]
    assert passes(heads())


def test_a_caller_passes_the_arrays_as_declared():
    manifest = generate(heads(), analysis=False).manifest
    assert [argument.shape for argument in manifest.arguments] == [(2, 3, 70, 70), (2, 70, 60), (2, 70, 60)]


def test_dynamic_heads_are_split_too():
    split = with_split_dimensions(heads("B: 2, S: 70, H: dynamic, D: 20"))
    assert shape(split, "v") == ["B", "S", "H", "D"]


@pytest.mark.slow
def test_a_divided_reduction_index_is_two_indices():
    spec = spec_of(
        "M: 70, N: 66, P: 3, Q: 16",
        "a [M, P, Q]; b [P * Q, N]; c [M, N]",
        "c[m, n] = sum(a[m, k // Q, k % Q] * b[k, n], k)",
    )
    split = with_split_dimensions(spec)
    (reduction,) = (node for node in walk(split.statements[0].value) if isinstance(node, Reduce))
    assert [(index.name, text_of(index.extent)) for index in reduction.indices] == [("k_outer", "P"), ("k_inner", "Q")]
    assert shape(split, "b") == ["P", "Q", "N"]
    assert passes(spec)


SCALED = "y[n] = sum(x[k] * (w[n, k] * s[n, k // G]), k)"


def test_the_groups_of_a_sum_that_have_a_scale_are_an_index_of_their_own():
    spec = spec_of("N: 67, K: 960, G: 32", "x [K]; w [N, K]; s [N, K // G]; y [N]", SCALED, "k: K")
    split = with_split_dimensions(spec)
    assert shape(split, "w") == ["N", "30", "G"]
    assert not any(isinstance(node, Op) and node.name == "floordiv" for node in walk(split.statements[0].value))
    assert [launch.family for launch in generate(spec, analysis=False).plan.kernels] == ["reduce"]
    assert passes(spec)


def test_pairs_in_groups_are_split_from_the_smallest_divisor_on():
    compute = "y[n] = sum(x[k] * (w[n, k // 2] + k % 2) * s[n, k // G], k)"
    spec = spec_of("N: 67, K: 192, G: 32", "x [K]; w [N, K // 2]; s [N, K // G]; y [N]", compute, "k: K")
    split = with_split_dimensions(spec)
    assert [shape(split, name) for name in "xws"] == [["6", "16", "2"], ["N", "6", "16"], ["N", "K // G"]]
    assert passes(spec)


GROUPED = "s[b, h, i, j] = sum(q[b, h, i, d] * k[b, h // 4, j, d], d)"


def test_the_heads_that_share_a_key_are_two_indices_which_makes_them_rows_of_one_gemm():
    """Grouped-query attention: the queries of a group are consecutive rows."""
    spec = spec_of("B: 2, H: 12, G: 3, T: 66, D: 33", "q [B, H, T, D]; k [B, G, T, D]; s [B, H, T, T]", GROUPED, "h: H")
    split = with_split_dimensions(spec)
    assert shape(split, "q") == ["B", "G", "4", "T", "D"]
    assert [text_of(index.extent) for index in split.statements[0].indices] == ["B", "G", "4", "T", "T"]
    assert [launch.family for launch in generate(spec, analysis=False).plan.kernels] == ["gemm"]
    assert passes(spec)


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param("s[b, h, i, j] = q[b, h, i, j] * k[b, h // 4, i, j] + sum(q[b, h, i, d], d)", id="no product"),
        pytest.param("s[b, h, i, j] = sum(q[b, h, i, d] * k[b, (h + 1) // 4, j, d], d)", id="another quotient"),
        pytest.param("s[b, h, i, j] = sum(q[b, h, i, d] * k[b, h // 5, j, d], d)", id="a part of a group"),
    ],
)
def test_other_quotients_of_a_result_s_index_stay(compute):
    spec = spec_of("B: 2, H: 12, T: 17", "q [B, H, T, T]; k [B, 4, T, T]; s [B, H, T, T]", compute, "d: T")
    assert len(with_split_dimensions(spec).statements[0].indices) == 4
    assert passes(spec)


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
def test_the_index_of_a_position_stays(kind):
    spec = spec_of(
        "H: 6, W: 5", "x [2 * H, 3 * W]; y [H, W]", f"y[i, j] = {kind}(x[2 * i + k // 3, 3 * j + k % 3], k)", "k: 6"
    )
    assert with_split_dimensions(spec) is spec
    assert passes(spec)


def test_a_dimension_that_is_read_in_other_ways_stays():
    spec = spec_of("H: 4, D: 8", "x [H * D]; y [H, D]; z [H * D]", "|\n  y[h, d] = x[h * D + d]\n  z[e] = x[e]")
    assert with_split_dimensions(spec) is spec


def test_an_inner_index_that_overlaps_the_next_row_stays():
    spec = spec_of("N: 30", "x [2 * N + 2]; y [N]", "y[i] = sum(x[2 * i + r], r)", "r: 4")
    assert with_split_dimensions(spec) is spec


DIGITS = (
    "y[c, n] = x[c // (P * Q), c // Q % P, c % Q, n]",
    "y[c, n] = x[c // Q // P, c // Q % P, c % Q, n]",
    "y[c, n] = x[c // (Q * P), c // Q % P, c % Q, n]",
)


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    "params", ["M: 5, N: 12, P: 3, Q: 4", "M: dynamic, N: 12, P: 3, Q: 4", "M: 7, N: 9, P: 2, Q: 3"]
)
@pytest.mark.parametrize("compute", DIGITS)
def test_an_index_of_three_digits_is_three_indices(compute, params):
    spec = spec_of(params, "x [M, P, Q, N]; y [M * P * Q, N]", compute)
    split = with_split_dimensions(spec)
    assert shape(split, "y") == ["M", "P", "Q", "N"]
    assert not any(isinstance(node, Op) for node in walk(split.statements[0].value))
    kernel = generate(spec, analysis=False)
    sizes = {"M": 4} if "dynamic" in params else {}
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True), params=sizes)
    assert run.verification.passed


def test_all_parts_of_a_subscript_are_dimensions():
    spec = spec_of("A: 3, B: 4, C: 5", "x [A * B * C]; y [C, A, B]", "y[c, a, b] = x[(a * B + b) * C + c]")
    assert shape(with_split_dimensions(spec), "x") == ["A", "B", "C"]
    assert passes(spec)


def temporary_scores(last: str):
    return spec_of(
        "B: 2, H: 24, S: 40, D: 8",
        "q [B, H, D]; k [B, H // 8, S, D]; o [B, H]",
        f"|\n  s[b, h, j] = sum(q[b, h, d] * k[b, h // 8, j, d], d)\n  {last}",
    )


def test_dimensions_of_temporaries_are_split_on_request_and_so_are_the_indices_of_those_that_read_them():
    spec = temporary_scores("o[b, h] = max(s[b, h, j], j)")
    assert with_split_dimensions(spec) is spec
    split = with_split_dimensions(spec, temporaries=True)
    assert shape(split, "s") == ["B", "3", "8", "S"]
    assert [len(statement.indices) for statement in split.statements] == [4, 3]
    assert passes(spec)


def test_dimensions_of_temporaries_that_are_read_in_other_ways_stay():
    split = with_split_dimensions(temporary_scores("o[b, h] = max(s[b, (h + 1) % 24, j], j)"), temporaries=True)
    assert shape(split, "s") == ["B", "H", "S"]
