"""Vectors stay in bounds where conditions on the reduced index say which elements there are."""

from __future__ import annotations

import pytest

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from tests.fuzz.bounds import bounds_faults

# Of rows of M elements and an index k up to K: the range of a loop for some of them, tests of each element for others.
CONDITIONS = ("k < M", "2*k < 2*M", "3*k < 3*M - 2", "k < M and k % 3 != 1", "2*k < 2*M and v[k] > 0", "2*k - M < M")


def spec_of(value: str, m: int, k: int) -> Spec:
    (spec,) = load_text(
        f"cugen: 1\nkernel: rows\nparams: {{N: 5, M: {m}, K: {k}}}\narrays:\n"
        "  x: {shape: [N, M], dtype: float32}\n  v: {shape: [K], dtype: float32}\n  y: {shape: [N], dtype: float32}\n"
        f"compute: y[i] = {value}\n"
    )
    return spec


@pytest.mark.covering
@pytest.mark.parametrize(("m", "k"), [(3000, 4096), (1000, 1024), (100000, 100001)])
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_vector_is_read_beyond_the_rows(condition: str, m: int, k: int) -> None:
    for value in ("sum(where({0}, x[i, k + 0] * v[k], 0), k)", "max(where({0}, x[i, k + 0] + v[k], 0), k)"):
        assert list(bounds_faults(generate(spec_of(value.format(condition), m, k), remarks="none"), {})) == []


@pytest.mark.slow
@pytest.mark.parametrize("condition", CONDITIONS)
def test_results_are_right(condition: str) -> None:
    kernel = generate(spec_of(f"sum(where({condition}, x[i, k + 0] * v[k], 0), k)", 1000, 1024), remarks="none")
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=True))
    assert run.verification.passed, run.verification.messages


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["i", "start", "stop", "part", "sum", "first", "tail", "threads"])
def test_a_sum_in_parts_has_vectors_whatever_its_index_is_called(name: str) -> None:
    """The names of the kernel, `start` of a part, aren't taken for the index."""
    (spec,) = load_text(
        "cugen: 1\nkernel: total\ntarget: sm_60\nparams: {N: 5329826}\narrays:\n"
        "  x: {shape: [N], dtype: float32}\n  y: {shape: [], dtype: float32}\n"
        f"compute: y = sum(x[{name}], {name})\n"
    )
    kernel = generate(spec, remarks="none")
    assert list(bounds_faults(kernel, {})) == []
    assert "const int stop = min(" in kernel.source or "const int stop_ = min(" in kernel.source
