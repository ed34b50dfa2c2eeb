"""Statements over the fields of structures: which vectors move them, and that their results are right."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.plan.kernel import Kernel
from cugen.plan.traversal.walking import accesses

SIZES = {"float64": 8, "float32": 4, "int32": 4, "float16": 2, "uint8": 1}


def spec(compute: str, params: str = "N: 1000", more: str = "", **arrays: str) -> str:
    lines = "\n".join(f"  {name}: {{{text}}}" for name, text in arrays.items())
    statements = "\n".join(f"  {line}" for line in compute.split("; "))
    return f"params: {{{params}}}\n{more}\narrays:\n{lines}\ncompute: |\n{statements}\n"


def reduced(fields: int, dtype: str = "float32", size: int | str = 1000, more: str = "") -> str:
    """The weighted sum of all fields."""
    value = " + ".join(f"{field + 1} * x[i, {field}]" for field in range(fields))
    value = f"cast({value}, {dtype})" if dtype == "uint8" else value
    return spec(
        f"y[i] = {value}",
        f"N: {size}",
        x=f"shape: [N, {fields}], dtype: {dtype}{more}",
        y=f"shape: [N], dtype: {dtype}",
    )


def rotated(fields: int, dtype: str = "float32", size: int | str = 1000) -> str:
    """Each field from the next one."""
    moves = "; ".join(f"y[i, {field}] = x[i, {(field + 1) % fields}]" for field in range(fields))
    shape = f"shape: [N, {fields}], dtype: {dtype}"
    return spec(moves, f"N: {size}", x=shape, y=shape)


COMPLEX_PRODUCT = spec(
    "c[i, 0] = a[i, 0] * b[i, 0] - a[i, 1] * b[i, 1]; c[i, 1] = a[i, 0] * b[i, 1] + a[i, 1] * b[i, 0]",
    a="shape: [N, 2], dtype: float32",
    b="shape: [N, 2], dtype: float32",
    c="shape: [N, 2], dtype: float32",
)


def moved(kernel: Kernel, name: str) -> list[int]:
    return [access.width for access in accesses(kernel.body) if access.array.name == name]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("fields", "dtype", "loads"),
    [
        (2, "float32", [4]),
        (3, "float32", [4]),  # a loop over three vectors
        (4, "float32", [4]),
        (6, "float32", [4]),
        (8, "float32", [4]),
        (2, "float64", [2]),
        (3, "uint8", [16]),
        (4, "uint8", [16]),
        (3, "float16", [8]),
        (5, "int32", [4]),
    ],
)
def test_the_fields_of_structures_are_read_in_vectors_of_16_bytes(planned, fields, dtype, loads):
    kernel = planned(reduced(fields, dtype, size=960))
    assert kernel.family == "map"
    assert moved(kernel, "x") == loads
    assert dict(kernel.alignments)["x"] == 16


def test_a_thread_takes_as_many_structures_as_fill_a_vector(made):
    assert "const int i = blockIdx.x * 512 + threadIdx.x * 2;" in made(reduced(2)).source
    assert "const int i = blockIdx.x * 256 + threadIdx.x;" in made(reduced(4)).source
    assert "const int i = blockIdx.x * 256 + threadIdx.x;" in made(reduced(8)).source
    assert "threadIdx.x * 16;" in made(reduced(3, "uint8")).source


def test_structures_are_read_and_written_whole(planned, made):
    assert [moved(planned(COMPLEX_PRODUCT), name) for name in "abc"] == [[4], [4], [4]]
    assert "store<4>(&c[2 * i], c4);" in made(COMPLEX_PRODUCT).source


def test_a_structure_of_which_another_kernel_writes_a_field_is_stored_by_elements(made, prove):
    text = (
        rotated(4).replace("y[i, 3] = x[i, 0]", "y[i, 3 + j] = x[i, j]").replace("arrays:", "indices: {j: 1}\narrays:")
    )
    kernels = made(text).plan.kernels
    assert len(kernels) > 1
    assert {width for kernel in kernels for width in moved(kernel, "y")} == {1}
    prove(text, sanitize=True)


def test_a_single_field_is_read_alone(planned):
    text = spec("y[i] = x[i, 1]", x="shape: [N, 4], dtype: float32", y="shape: [N], dtype: float32")
    assert moved(planned(text), "x") == [1]


def test_vectors_without_a_used_field_are_not_loaded(planned, made):
    text = spec("y[i] = x[i, 0] + x[i, 13]", x="shape: [N, 16], dtype: float32", y="shape: [N], dtype: float32")
    assert moved(planned(text), "x") == [1, 1]
    text = text.replace("x[i, 13]", "x[i, 1] + x[i, 13] + x[i, 14]")
    assert moved(planned(text), "x") == [4, 4]
    assert "load<4>(&x[16 * i + 12])" in made(text).source


def test_of_a_wide_structure_the_narrowest_vectors_that_have_the_fields_are_loaded(planned):
    text = spec("y[i] = x[i, 2] + x[i, 3]", x="shape: [N, 4], dtype: float32", y="shape: [N], dtype: float32")
    assert moved(planned(text), "x") == [2]


@pytest.mark.slow
def test_fields_with_two_subscripts_and_in_front_are_structures(planned, prove):
    matrices = spec(
        "y[i] = x[i, 0, 0] * x[i, 1, 1] - x[i, 0, 1] * x[i, 1, 0]",
        x="shape: [N, 2, 2], dtype: float32",
        y="shape: [N], dtype: float32",
    )
    assert moved(planned(matrices), "x") == [4]
    prove(matrices, sanitize=True)
    columns = spec(
        "y[i] = x[0, i] - x[1, i]", x="shape: [2, N], dtype: float32, layout: column", y="shape: [N], dtype: float32"
    )
    assert moved(planned(columns), "x") == [4]
    prove(columns, sanitize=True)


@pytest.mark.slow
def test_the_padding_of_structures_is_not_read(planned, prove):
    """The last structure of the array has none."""
    for fields, pitch, loads in [(3, 4, [2, 1]), (7, 8, [4, 2, 1]), (3, 5, [1, 1, 1])]:
        text = reduced(fields, more=f", pitch: {pitch}", size=37)
        assert moved(planned(text), "x") == loads
        prove(text, sanitize=True)


def test_an_accumulated_structure_is_read_and_written_in_vectors(planned, prove):
    text = rotated(2).replace("] = ", "] += ")
    assert moved(planned(text), "y") == [4, 4]
    prove(text, sanitize=True)


def test_an_array_whose_other_elements_are_written_is_read_by_elements(planned, prove):
    """Another thread writes a field of the structure while this one would load it."""
    text = spec("x[i, 0] += x[i + 1, 1] + x[i + 1, 2]", x="shape: [N + 1, 4], dtype: float32", more="indices: {i: N}")
    assert {access.width for access in accesses(planned(text).body)} == {1}
    prove(text, races=True)


def test_conditional_fields_are_part_of_a_structure_that_is_read_anyway(planned, prove):
    text = spec(
        "y[i] = x[i, 0] if x[i, 3] > 0 else x[i, 1]", x="shape: [N, 4], dtype: float32", y="shape: [N], dtype: float32"
    )
    assert moved(planned(text), "x") == [4]
    prove(text)


def test_rows_of_structures_are_as_wide_as_their_alignment_allows(planned, prove):
    rows = "y[j, i] = x[j, i, 0] + x[j, i, 1] + i"
    text = spec(rows, "M: 5, N: 37", x="shape: [M, N, 2], dtype: float32", y="shape: [M, N], dtype: float32, pitch: 40")
    assert moved(planned(text), "x") == [2]
    prove(text, sanitize=True)
    assert 4 in moved(planned(text.replace("37", "38")), "x")
    prove(text.replace("37", "38"), sanitize=True)


def test_a_param_may_be_the_number_of_fields(planned, prove):
    text = (
        spec(
            "y[i] = x[i, 0] + x[i, C - 1]",
            "N: 37, C: 4, L: 1",
            x="shape: [N, C, L], dtype: float32",
            y="shape: [N], dtype: float32",
        )
        .replace("0]", "0, 0]")
        .replace("- 1]", "- 1, L - 1]")
    )
    assert moved(planned(text), "x") == [4]
    prove(text, sanitize=True)


@pytest.mark.parametrize(("vector", "width"), [(1, 2), (2, 4)])
def test_a_schedule_sets_the_structures_of_a_thread(planned, reasons, vector, width):
    text = reduced(2) + f"schedule: {{vector: {vector}}}\n"
    assert moved(planned(text), "x") == [width]
    (refusal,) = reasons("map", reduced(2) + "schedule: {vector: 4}\n")
    assert "structures of x take the fewest sectors" in refusal.reason


@pytest.mark.sampled(6)
@pytest.mark.parametrize("size", [1, 3, 255, 1021, 1025])
def test_the_last_structures_are_right(prove, size):
    prove(reduced(3, size=size), sanitize=True)


@pytest.mark.parametrize("size", [0, 1, 33, 1021])
def test_structures_of_a_dynamic_array_are_right(prove, size):
    prove(rotated(3, size="dynamic"), {"N": size})


@pytest.mark.slow
@settings(max_examples=40)
@given(
    fields=st.integers(2, 9),
    dtype=st.sampled_from(list(SIZES)),
    size=st.integers(1, 600),
    make=st.sampled_from([reduced, rotated]),
)
def test_structures_of_every_size_and_type_are_right(prove, fields, dtype, size, make):
    prove(make(fields, dtype, size), sanitize=True)


@pytest.mark.slow
@pytest.mark.parametrize("text", [reduced(3), rotated(6), COMPLEX_PRODUCT], ids=["sums", "six fields", "complex"])
def test_structures_compile_without_warnings(compiled, text):
    compiled(text)
