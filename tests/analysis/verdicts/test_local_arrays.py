"""Register arrays that are indexed at run time have verdicts as local memory; those with constant subscripts none."""

from __future__ import annotations

import pytest

from cugen.analysis.verdicts.local_arrays import local_arrays
from cugen.emit.resources import data_folder
from cugen.kernel import generate
from cugen.plan.registers.estimate import dynamic_arrays
from cugen.schedule import planner
from cugen.spec.load import load_all, load_text


@pytest.fixture(autouse=True)
def unrefused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans that the planner refuses: arrays that a spec puts in registers, indexed at run time."""
    monkeypatch.setattr(planner, "moving_subscripts", lambda kernel, request: ())


INDICES = "  k: {shape: [N], dtype: int32}\n"
READS = """
cugen: 1
kernel: lookup
target: sm_90
params: {N: 4096}
arrays:
  t: {shape: [SIZE], dtype: DTYPE, memory: register, boundary: clamp}
  k: {shape: [N], dtype: int32}
  y: {shape: [N], dtype: DTYPE}
compute: y[i] = SUM
"""


def accesses_of(value: str, size: int = 64, dtype: str = "float32"):
    text = READS.replace("SIZE", str(size)).replace("DTYPE", dtype).replace("SUM", value)
    (spec,) = load_text(text if "k[" in value else text.replace(INDICES, ""))
    kernel = generate(spec)
    return kernel, [a for a in kernel.reports[0].accesses if a.space == "local"]


def test_a_data_dependent_read_of_a_register_array_is_an_unknown_access_of_local_memory():
    kernel, (fill, read) = accesses_of("t[k[i]]")
    assert (fill.access.kind, fill.verdict, fill.cost, fill.ideal) == ("store", "assumed", 4 * 64 * 128, 4 * 64 * 128)
    assert (read.access.kind, read.verdict, read.unit) == ("load", "unknown", "sectors")
    assert "read from memory" in read.doubt
    assert "local memory" in read.doubt
    assert "t_register[position]: unknown" in kernel.source


@pytest.mark.parametrize(
    ("subscript", "dtype", "sectors"),
    [
        ("i % 64", "float32", 32),
        ("i % 8", "float32", 32),
        ("i % 2", "float32", 8),
        ("i // 32", "float32", 4),
        ("i % 64", "float64", 64),
        ("i % 64", "float16", 16),
        ("i % 4", "int8", 4),
    ],
)
def test_a_subscript_by_the_thread_costs_a_sector_for_each_word_of_eight_lanes(subscript, dtype, sectors):
    _, (_, read) = accesses_of(f"t[{subscript}]", dtype=dtype)
    assert read.verdict == "assumed"
    assert read.per_request.worst == sectors
    assert read.cost == 128 * sectors


def test_reads_in_an_unrolled_loop_stay_in_registers():
    (spec,) = load_text(
        "cugen: 1\nkernel: taps\nparams: {N: 4096}\narrays:\n  w: {shape: [5], dtype: float32, memory: register}\n"
        "  x: {shape: [N + 4], dtype: float32}\n  y: {shape: [N], dtype: float32}\n"
        "compute: y[i] = sum(x[i + r] * w[r], r)\n"
    )
    assert not [a for a in generate(spec).reports[0].accesses if a.space == "local"]


def test_an_access_at_sizes_known_at_launch_has_a_worst_case():
    text = READS.replace("N: 4096", "N: dynamic").replace("SIZE", "64").replace("DTYPE", "float32")
    (spec,) = load_text(text.replace("SUM", "t[i % 2]").replace(INDICES, ""))
    _, read = [a for a in generate(spec).reports[0].accesses if a.space == "local"]
    assert (read.verdict, read.per_request.worst, read.totals) == ("assumed", 8, None)


@pytest.mark.slow
def test_no_kernel_of_the_gallery_indexes_registers_at_run_time():
    for path in sorted(data_folder("specs").glob("*.yaml")):
        for spec in load_all(path):
            kernel = generate(spec, remarks="none")
            for launch in kernel.plan.kernels:
                assert local_arrays(launch).keys() == dynamic_arrays(launch, kernel.context) == set()
