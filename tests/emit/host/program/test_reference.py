"""The statements of a spec as loops on the host."""

from __future__ import annotations

import re

import pytest

from cugen.emit.host.program.program import program
from cugen.spec.diagnostics import SpecError


def functions(kernel_of, arrays, compute, more=""):
    """The functions that compute the statements, without their first and last lines."""
    declared = "\n".join(f"  {line}" for line in arrays.strip().splitlines())
    statements = "\n".join(f"  {line}" for line in compute.strip().splitlines())
    text = f"cugen: 1\nkernel: made\nparams: {{M: 30, N: 40}}\narrays:\n{declared}\n{more}\ncompute: |\n{statements}\n"
    kernel = kernel_of(text)
    made = program("main", kernel.context, kernel.manifest)
    bodies = re.findall(r"^void compute_\w+\([^{]*\n\{\n(.*?)^\}", made, re.MULTILINE | re.DOTALL)
    return [[line.strip() for line in body.splitlines()] for body in bodies], made


VECTORS = "x: {shape: [N], dtype: float32}\ny: {shape: [N], dtype: float32}"


def test_a_reduction_is_a_loop_before_the_statement(kernel_of):
    (body,), _ = functions(
        kernel_of,
        "A: {shape: [M, N], dtype: float32}\ny: {shape: [M], dtype: float32}",
        "y[i] = 2 * sum(A[i, j] * A[i, j], j, where=A[i, j] > 0)",
    )
    assert body == [
        "for (long long i = 0; i < M; ++i) {",
        "double sum = 0.0;",
        "for (long long j = 0; j < N; ++j)",
        "if (A[i * N + j] > 0.0)",
        "sum += A[i * N + j] * A[i * N + j];",
        "y[i] = 2.0 * sum;",
        "}",
    ]


def test_a_scan_is_a_loop_up_to_the_element(kernel_of):
    (body,), _ = functions(kernel_of, VECTORS, "y[i] = cumsum(x[i], i, exclusive=true)")
    assert "for (long long i_1 = 0; i_1 < i; ++i_1)" in body


def test_a_position_is_the_first_of_the_best(kernel_of):
    (body,), _ = functions(
        kernel_of,
        "A: {shape: [M, N], dtype: float32}\ny: {shape: [M], dtype: int32}",
        "y[i] = argmin(A[i, j], j)",
    )
    assert body[1:3] == ["long long position = 0;", "double smallest = INFINITY;"]
    assert "if (A[i * N + j] < smallest) {" in body


@pytest.mark.parametrize(
    ("boundary", "read"),
    [
        ("zero", "(is_inside(i - 1, N) ? x[i - 1] : 0.0)"),
        ("{value: 2}", "(is_inside(i - 1, N) ? x[i - 1] : 2.0)"),
        ("clamp", "x[clamp(i - 1, N)]"),
        ("wrap", "x[wrap(i - 1, N)]"),
        ("reflect", "x[reflect(i - 1, N)]"),
        ("symmetric", "x[symmetric(i - 1, N)]"),
    ],
)
def test_a_read_outside_of_an_array_is_as_its_boundary_says(kernel_of, boundary, read):
    arrays = VECTORS.replace("dtype: float32", f"dtype: float32, boundary: {boundary}", 1)
    (body,), text = functions(kernel_of, arrays, "y[i] = x[i - 1]")
    assert body[1] == f"y[i] = {read};"
    assert f" {read.strip('(').partition('(')[0].removeprefix('x[')}(long long subscript, long long extent)" in text


def test_subscripts_that_are_inside_need_no_test(kernel_of):
    arrays = VECTORS.replace("dtype: float32", "dtype: float32, boundary: zero", 1)
    (body,), _ = functions(kernel_of, arrays, "y[i] = x[N - 1 - i]")
    assert body[1] == "y[i] = x[N - 1 - i];"


def test_loops_of_a_branch_run_where_it_is_taken(kernel_of):
    arrays = "A: {shape: [M, N], dtype: float32}\ny: {shape: [M], dtype: float32}"
    (body,), _ = functions(kernel_of, arrays, "y[i] = where(i > 3, sum(A[i, j], j), 1)")
    assert body[1:4] == ["double sum = 0.0;", "if (i > 3)", "for (long long j = 0; j < N; ++j)"]


def test_narrow_floats_are_widened_and_integers_keep_their_type(kernel_of):
    arrays = "x: {shape: [N], dtype: float16}\nc: {shape: [N], dtype: int8}\ny: {shape: [N], dtype: float32}"
    _, text = functions(kernel_of, arrays, "y[i] = x[i] * c[i]")
    assert "const std::vector<double> x = doubles(given.x, x_elements);" in text
    assert "const std::vector<signed char> c(given.c, given.c + c_elements);" in text


def test_a_scalar_of_16_bits_is_widened(kernel_of):
    more = "scalars: {s: {dtype: bfloat16}}"
    (body,), text = functions(kernel_of, VECTORS, "y[i] = s * x[i]", more)
    assert body[1] == "y[i] = float(s) * x[i];"
    assert "const __nv_bfloat16 s = __nv_bfloat16(0.75f);" in text


def test_floats_become_integers_as_on_the_device_or_one_beside(kernel_of):
    arrays = "x: {shape: [N], dtype: float32}\ny: {shape: [N], dtype: uint8}"
    (body,), text = functions(kernel_of, arrays, "y[i] = cast(100 * x[i] * x[i], uint8)")
    assert "saturated<" in body[1]
    assert "Comparison comparison(1);" in text


@pytest.mark.parametrize(
    ("arrays", "compute", "reason"),
    [
        (
            "x: {shape: [M, N], dtype: float32, pitch: 64, boundary: clamp,\n"
            "    memory: {space: texture, dims: 2, filter: linear}}\n"
            "y: {shape: [M, N], dtype: float32}",
            "y[i, j] = x[i + 0.5, j + 0.5]",
            "a texture interpolates with 8 bits of a fraction",
        ),
        (
            "A: {shape: [M, N], dtype: float32}\nB: {shape: [M, N], dtype: float32}\ny: {shape: [M], dtype: int32}",
            "y[i] = argmax(A[i, j] * B[i, j], j)",
            "positions in y depend on how floats are rounded",
        ),
    ],
    ids=["a filtered texture", "positions of computed floats"],
)
def test_what_loops_cannot_state_is_said_in_place_of_a_check(kernel_of, arrays, compute, reason):
    bodies, text = functions(kernel_of, arrays, compute)
    assert bodies == []
    assert f"// Not checked here: {reason}. `cugen run` compares the result with NumPy's." in text


@pytest.mark.parametrize(("value", "is_checked"), [("sin(x[i])", False), ("2 / x[i]", True)])
def test_functions_by_intrinsics_are_not_checked(kernel_of, value, is_checked):
    bodies, text = functions(kernel_of, VECTORS, f"y[i] = {value}", "schedule: {fast_math: true}")
    assert len(bodies) == is_checked
    reason = "y takes intrinsics, whose errors depend on their operands"
    assert (f"// Not checked here: {reason}." in text) != is_checked


@pytest.mark.slow
def test_rows_are_left_out_where_the_host_takes_too_long(kernel_of):
    (body,), text = functions(
        kernel_of,
        "A: {shape: [100 * M, 1000 * N], dtype: float32}\ny: {shape: [100 * M], dtype: float32}",
        "y[i] = sum(A[i, j] * A[i, k], j, k)",
    )
    (step,) = re.findall(r"checked_row_step = (\d+);", text)
    assert 3000 * 40000**2 / int(step) <= 1.1e9
    assert body[0] == "for (long long i = 0; i < 100 * M; i += checked_row_step) {"


def test_names_of_the_program_give_way_to_no_name_of_the_spec(kernel_of):
    text = """
cugen: 1
kernel: launch
params: {parts: 8, runs: 9}
scalars: {stream: {dtype: float32}}
arrays:
  device: {shape: [parts, runs], dtype: float32}
  main: {shape: [parts, runs], dtype: float32}
compute: main[check, draw] = stream * device[check, draw]
"""
    kernel = kernel_of(text)
    made = program("main", kernel.context, kernel.manifest)
    assert "main_2[check_ * runs_ + draw_] = stream_2 * device_[check_ * runs_ + draw_];" in made
    assert 'comparison.print("main")' in made


def test_a_dynamic_size_needs_a_default(kernel_of):
    kernel = kernel_of("""
cugen: 1
kernel: copy
params: {N: dynamic}
arrays: {x: {shape: [N], dtype: float32}, y: {shape: [N], dtype: float32}}
compute: y[i] = x[i]
""")
    with pytest.raises(SpecError, match=r"CG2401(?s:.*)spec.yaml:4:10(?s:.*)`N: \{default: 1024\}`"):
        program("main", kernel.context, kernel.manifest)
