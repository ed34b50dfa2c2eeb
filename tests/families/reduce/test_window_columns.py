"""Adjacent windows: many with short rows have a thread each, of fewer the columns are reduced first."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import pytest

from cugen.families.reduce import window_columns
from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

ONE_LAUNCH = "schedule: {family: reduce}\n"


def pooling(height: int, width: int, rows: int, columns: int, dtype: str, value: str, images: int = 512) -> str:
    """`value` of the windows of `height` × `width` in images of so many windows, two columns wider than these."""
    shape = f"[{images}, {rows * height}, {columns * width + 2}]"
    return f"""cugen: 1
kernel: k
arrays:
  x: {{shape: {shape}, dtype: {dtype}}}
  y: {{shape: [{images}, {rows}, {columns}], dtype: {dtype}}}
indices: {{r: {height}, s: {width}}}
compute: y[n, i, j] = {value.format(f"x[n, {height} * i + r, {width} * j + s]")}
"""


def sectors(text: str) -> int:
    (spec,) = load_text(text)
    accesses = [access for report in generate(spec).reports for access in report.accesses]
    return sum(access.totals.sectors for access in accesses if access.totals is not None)


def arrays_between(text: str) -> list[str]:
    return [array.name for array in generate(load_text(text)[0], analysis=False).plan.workspace]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("height", "width", "dtype"), [(11, 11, "float32"), (7, 7, "float16"), (9, 5, "float64"), (13, 10, "bfloat16")]
)
def test_columns_of_fewer_windows_are_reduced_first(height, width, dtype):
    text = pooling(height, width, 23, 23, dtype, "mean({}, r, s)", images=64)
    assert arrays_between(text) == ["y_columns"]
    assert 2 * sectors(text) <= sectors(text + ONE_LAUNCH)


@pytest.mark.covering
@pytest.mark.parametrize(
    ("height", "width", "dtype"), [(11, 11, "float32"), (7, 7, "float16"), (9, 5, "float64"), (13, 10, "bfloat16")]
)
@pytest.mark.parametrize(("columns", "threads"), [(23, (23, 11)), (143, (160, 1)), (300, (160, 1))])
def test_rows_that_l1_holds_are_read_by_a_thread_of_each_window(height, width, dtype, columns, threads):
    kernel = generate(load_text(pooling(height, width, 23, columns, dtype, "mean({}, r, s)"))[0], analysis=False)
    assert [launch.block for launch in kernel.plan.kernels] == [(1, *threads)]


@pytest.mark.parametrize("columns", [3, 40])
def test_few_windows_are_shared_by_threads(columns):
    kernel = generate(load_text(pooling(11, 11, 2, columns, "float32", "mean({}, r, s)", images=40))[0])
    assert all(launch.block[0] > 1 for launch in kernel.plan.kernels)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("height", "width", "value"),
    [
        pytest.param(3, 3, "mean({}, r, s)", id="few points"),
        pytest.param(2, 1024, "sum({}, r, s)", id="long rows"),
        pytest.param(11, 11, "sum({}, r, s, where=r > s)", id="some points"),
        pytest.param(11, 11, "sum({} * s, r, s)", id="terms by column"),
        pytest.param(11, 11, "var({}, r, s)", id="two passes"),
    ],
)
def test_other_windows_are_not(height, width, value):
    assert arrays_between(pooling(height, width, 9, 9, "float32", value)) == []


VALUES = ("mean({}, r, s)", "max({}, r, s) + 1", "min({}, s, r)", "sum({0} * {0}, r, s)", "prod(0.5 * {}, r, s)")


def drawn(seed: int) -> str:
    random = Random(seed)
    height, width = random.randint(5, 13), random.randint(7, 13)
    rows, columns, images = random.randint(2, 4), random.randint(2, 9), random.randint(2, 3)
    dtype = random.choice(("float32", "float16", "float64"))
    return pooling(height, width, rows, columns, dtype, random.choice(VALUES), images)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("seed", range(16))
def test_results_are_right(seed):
    with patch.object(window_columns, "MIN_TERMS", 1), patch.object(window_columns, "MIN_SECTORS_RATIO", 0):
        kernel = generate(load_text(drawn(seed))[0], analysis=False)
    assert "y_columns" in kernel.source
    assert verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True)).verification.passed


TILES = """
cugen: 1
kernel: f
params: {H: HEIGHT, W: 503}
arrays:
  y: {shape: [16 * H, 16 * W], dtype: uint8}
  low: {shape: [H, W], dtype: uint8}
  v: {shape: [H, W], dtype: float32}
indices: {a: 16, b: 16}
compute: |
  low[i, j] = min(y[16 * i + a, 16 * j + b], a, b)
  v[i, j] = var(cast(y[16 * i + a, 16 * j + b], float32), a, b)
"""


def test_a_row_of_a_tile_of_an_image_is_one_vector():
    (spec,) = load_text(TILES.replace("HEIGHT", "500"))
    kernel = generate(spec, analysis=False)
    assert [(launch.family, launch.block) for launch in kernel.plan.kernels] == [("reduce", (1, 256, 1))]
    assert "load<16>(&y[" in kernel.source


@pytest.mark.sampled(2)
@pytest.mark.parametrize("height", [1, 9])
def test_variances_of_tiles_read_each_tile_twice(height):
    (spec,) = load_text(TILES.replace("HEIGHT", str(height)))
    kernel = generate(spec, analysis=False)
    assert {launch.family for launch in kernel.plan.kernels} == {"reduce"}
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(workers=1))
    assert run.verification.passed, "\n".join(run.verification.messages)
