"""A short scan that only reductions along it read is computed in the registers of the thread that reduces it."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text

ARM = "t[b, j] = cumsum(q[b, j], j)\n  x[b] = sum(l[j] * cos(t[b, j]), j)\n  y[b] = sum(l[j] * sin(t[b, j]), j)"
BACKWARDS = "t[b, j] = cummax(q[b, j], j, reverse=true) * l[j]\n  x[b] = min(t[b, j], j) - t[b, 0]\n  y[b] = t[b, J-1]"
TWO_SCANS = "t[b, j] = cumsum(q[b, j], j) / (1 + cumprod(abs(q[b, j]), j))\n  x[b] = max(t[b, j], j) - q[b, 0]"
OF_A_PART = "t[b, j] = cumsum(q[b, j], j)\n  x[b] = prod(t[b, c], c) + t[b, J - 2]"
GUARDED = "t[b, j] = cumsum(q[b, j], j)\n  x[b] = max(t[b, j], j) + (t[b, 4] if J > 4 else t[b, 0])"
IN_REGISTERS = [ARM, BACKWARDS, TWO_SCANS, OF_A_PART]

ALSO_STORED = f"{ARM}\n  z[b, j] = t[b, j]"
OF_OTHER_ROWS = "t[b, j] = cumsum(q[b, j], j)\n  x[b] = sum(t[B - 1 - b, j] * t[b, j], j)"
FOR_EACH_COLUMN = "t[b, j] = cumsum(q[b, j], j)\n  z[b, c] = sum(t[b, j] * w[c, j], j)"
ARRAYS = {"q": "[B, J]", "l": "[J]", "x": "[B]", "y": "[B]", "z": "[B, J]", "w": "[J, J]"}


def spec_of(compute: str, rows: int | str, length: int, dtype: str = "float32", temporary: str = ""):
    arrays = "".join(
        f"  {name}: {{shape: {shape}, dtype: {dtype}}}\n" for name, shape in ARRAYS.items() if f"{name}[" in compute
    )
    (spec,) = load_text(f"""cugen: 1
kernel: f
params: {{B: {rows}, J: {length}}}
arrays:
{arrays}{temporary}
{f"indices: {{c: {'J - 1' if compute == OF_A_PART else 'J'}}}" if "[b, c]" in compute else ""}
compute: |
  {compute}
""")
    return spec


def launches_of(compute: str, rows: int | str = 1_000_000, length: int = 7, temporary: str = "") -> list[str]:
    plan = generate(spec_of(compute, rows, length, temporary=temporary), analysis=False).plan
    return [launch.name for launch in plan.kernels]


@pytest.mark.covering
@pytest.mark.parametrize("compute", IN_REGISTERS)
@pytest.mark.parametrize("rows", [1_000_000, "dynamic"])
def test_it_is_no_launch_of_its_own(compute, rows):
    assert len(launches_of(compute, rows)) == 1


def test_sums_of_prefixes_are_computed_once():
    source = generate(spec_of(ARM, 1_000_000, 3), analysis=False).source
    assert "const float total_ = total + " in source


@pytest.mark.parametrize("compute", [ALSO_STORED, OF_OTHER_ROWS, FOR_EACH_COLUMN])
def test_one_that_others_read_is_stored(compute):
    assert "f_t" in launches_of(compute)


def test_a_long_one_is_stored():
    assert "f_t" in launches_of(ARM, length=40)


def test_one_that_the_spec_places_is_stored():
    assert "f_t" in launches_of(ARM, temporary="  t: {shape: [B, J], dtype: float32, memory: scratch}")


@pytest.mark.sampled(21)
@pytest.mark.parametrize("compute", [*IN_REGISTERS, GUARDED, ALSO_STORED, OF_OTHER_ROWS, FOR_EACH_COLUMN])
@pytest.mark.parametrize(("rows", "length"), [(1, 2), (101, 7), (37, 8), (5, 3), ("dynamic", 5)])
def test_its_results_are_right(compute, rows, length):
    passes(spec_of(compute, rows, length), rows)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("compute", ["t[b, j] = cumsum(q[b, j], j)\n  x[b] = max(t[b, j], j)", BACKWARDS])
@pytest.mark.parametrize("dtype", ["int32", "float16", "float64"])
def test_results_of_other_types_are_right(compute, dtype):
    passes(spec_of(compute, 53, 6, dtype), 53)


def test_a_type_that_the_spec_gives_rounds_it():
    spec = spec_of(ARM, 53, 6, temporary="  t: {shape: [B, J], dtype: float16}")
    passes(spec, 53)


def passes(spec, rows):
    kernel = generate(spec, analysis=False)
    params = {"B": 77} if rows == "dynamic" else {}
    device = CpuDevice(sanitize=True)
    assert verify(spec, kernel.source, kernel.manifest, device, params=params).verification.passed
