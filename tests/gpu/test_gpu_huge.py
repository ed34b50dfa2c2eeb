"""Arrays of more than 2^31 elements: offsets that need 64 bits, in every way of computing.

The input is made on the GPU from a formula, so that the host knows any element without holding the array.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cugen.kernel import Kernel, generate
from cugen.runtime.gpu import GpuDevice
from cugen.spec.load import load_text

pytestmark = pytest.mark.gpu

ROWS, COLUMNS = 32_771, 65_539  # 2^31 + 295,121 elements
SOME_ROWS = (0, 1, 16_384, 32_765, 32_766, 32_769, 32_770)  # the last of them lie beyond element 2^31
SOME_COLUMNS = (0, 1, 255, 32_768, 65_535, 65_537, 65_538)
PERIOD = 251


def element(row: Any, column: Any) -> Any:
    """The formula of the input: -125 .. 125."""
    return (row * 31 + column * 7) % PERIOD - 125


def spec_of(arrays: str, compute: str) -> Kernel:
    """`arrays` are entries of YAML, one to a line; R and C are the rows and columns."""
    lines = ["cugen: 1", "kernel: huge", f"params: {{R: {ROWS}, C: {COLUMNS}}}", "arrays:"]
    lines += [f"  {line.strip()}" for line in arrays.strip().split("\n")]
    lines += ["compute: |", *(f"  {line.strip()}" for line in compute.strip().split("\n"))]
    (spec,) = load_text("\n".join(lines))
    return generate(spec, analysis=False)


INPUT = "x: {shape: [R, C], dtype: int8}"


@pytest.fixture(scope="module")
def gpuarray(device: GpuDevice) -> Iterator[Any]:
    """PyCUDA's arrays, in the context that everything here shares."""
    import pycuda.driver as cuda
    from pycuda import gpuarray

    context = cuda.Device(0).retain_primary_context()
    context.push()
    yield gpuarray
    context.pop()


@pytest.fixture(scope="module")
def x(gpuarray: Any) -> Any:
    array = gpuarray.empty((ROWS, COLUMNS), np.int8)
    formula = f"x[i, j] = cast((i * 31 + j * 7) % {PERIOD} - 125, int8)"
    spec_of(INPUT, formula).compile("gpu")(x=array)
    return array


@dataclass(frozen=True)
class Case:
    """`expected(row, column)` is the result's element; `shape` says which of the two it has."""

    name: str
    arrays: str
    compute: str
    dtype: Any
    shape: str
    expected: Callable[[int, int], Any]

    def __str__(self) -> str:
        return self.name


def whole_row(row: int) -> NDArray[np.int64]:
    return np.asarray(element(row, np.arange(COLUMNS)), np.int64)


def whole_column(column: int) -> NDArray[np.int64]:
    return np.asarray(element(np.arange(ROWS), column), np.int64)


def total() -> int:
    """The sum of all elements, by counting how often each pair of residues meets."""
    rows = np.bincount(np.arange(ROWS) * 31 % PERIOD, minlength=PERIOD)
    columns = np.bincount(np.arange(COLUMNS) * 7 % PERIOD, minlength=PERIOD)
    meets = rows[:, None] * columns[None, :]
    values = (np.arange(PERIOD)[:, None] + np.arange(PERIOD)[None, :]) % PERIOD - 125
    return int((meets * values).sum())


def sum_of_adjacent(row: int, column: int) -> int:
    around = [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]
    return sum(int(element(i, j)) for i, j in around if 0 <= i < ROWS and 0 <= j < COLUMNS)


def softmax(row: int, column: int) -> float:
    powers = np.exp2(whole_row(row) / 16.0)
    return float(powers[column] / powers.sum())


CASES = (
    Case("elementwise", "y: {shape: [R, C], dtype: int16}", "y[i, j] = 3 * cast(x[i, j], int16) + 1", np.int16, "rc",
         lambda i, j: 3 * element(i, j) + 1),
    Case("transposed", "y: {shape: [C, R], dtype: int8}", "y[j, i] = x[i, j]", np.int8, "cr", element),
    Case("row_sums", "y: {shape: [R], dtype: int32}", "y[i] = sum(x[i, j], j)", np.int32, "r",
         lambda i, j: whole_row(i).sum()),
    Case("column_sums", "y: {shape: [C], dtype: int32}", "y[j] = sum(x[i, j], i)", np.int32, "c",
         lambda i, j: whole_column(j).sum()),
    Case("last_largest", "y: {shape: [R], dtype: int64}", "y[i] = argmax(x[i, j], j)", np.int64, "r",
         lambda i, j: whole_row(i).argmax()),
    Case("whole_sum", "y: {shape: [], dtype: int64}", "y = sum(cast(x[i, j], int64), i, j)", np.int64, "",
         lambda i, j: total()),
    Case("running_row_sums", "y: {shape: [R, C], dtype: int32}", "y[i, j] = cumsum(x[i, j], j)", np.int32, "rc",
         lambda i, j: whole_row(i)[: j + 1].sum()),
    Case("running_column_sums", "y: {shape: [R, C], dtype: int32}", "y[i, j] = cumsum(x[i, j], i)", np.int32, "rc",
         lambda i, j: whole_column(j)[: i + 1].sum()),
    Case("five_points", "y: {shape: [R, C], dtype: int16}",
         "y[i, j] = cast(0, int16) + (x[i - 1, j] if i > 0 else 0) + (x[i + 1, j] if i < R - 1 else 0)"
         " + (x[i, j - 1] if j > 0 else 0) + (x[i, j + 1] if j < C - 1 else 0)", np.int16, "rc", sum_of_adjacent),
    Case("row_softmax", "y: {shape: [R, C], dtype: float32}",
         "y[i, j] = exp2(x[i, j] / 16) / sum(exp2(x[i, k] / 16), k)", np.float32, "rc", softmax),
)  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_elements_beyond_the_two_thousand_millionth_are_right(gpuarray: Any, x: Any, case: Case) -> None:
    extents = {"r": ROWS, "c": COLUMNS}
    y = gpuarray.empty(tuple(extents[letter] for letter in case.shape), case.dtype)
    spec_of(f"{INPUT}\n{case.arrays}", case.compute).compile("gpu")(x=x, y=y)
    flat = y.reshape(-1)
    for i in SOME_ROWS if "r" in case.shape else (0,):
        for j in SOME_COLUMNS if "c" in case.shape else (0,):
            offsets = {"rc": i * COLUMNS + j, "cr": j * ROWS + i, "r": i, "c": j, "": 0}
            offset = offsets[case.shape]
            (got,) = flat[offset : offset + 1].get()
            assert got == pytest.approx(case.expected(i, j), rel=1e-4), (i, j)


def test_a_vector_of_more_than_2_31_elements_is_scanned_across_the_device(gpuarray: Any, x: Any) -> None:
    count = ROWS * COLUMNS
    y = gpuarray.empty(count, np.int64)
    lines = ["cugen: 1", "kernel: huge", f"params: {{N: {count}}}", "arrays:"]
    lines += ["  x: {shape: [N], dtype: int8}", "  y: {shape: [N], dtype: int64}"]
    (spec,) = load_text("\n".join([*lines, "accumulate: int64", "compute: y[i] = cumsum(x[i], i)"]))
    generate(spec, analysis=False).compile("gpu")(x=x.reshape(-1), y=y)
    (last,) = y[count - 1 :].get()
    (middle,) = y[COLUMNS - 1 : COLUMNS].get()
    assert last == total()
    assert middle == whole_row(0).sum()
