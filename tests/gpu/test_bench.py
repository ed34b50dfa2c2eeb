"""The benchmark on the real thing: what it measures is plausible, and peers agree."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cugen.bench.measure import Options, bench
from cugen.bench.protocol import Work
from cugen.bench.session import Session, session
from cugen.runtime.gpu import GpuDevice
from cugen.spec.load import load, load_text

SPECS = Path(__file__).parents[2] / "specs"
FEW = 20
pytestmark = pytest.mark.gpu


@pytest.fixture
def opened(device: GpuDevice) -> Iterator[Session]:
    with session() as gpu_session:
        yield gpu_session


def copy_of(count: int) -> str:
    return (
        f"cugen: 1\nkernel: copy\nparams: {{N: {count}}}\narrays:\n  x: {{shape: [N], dtype: float32}}\n"
        "  y: {shape: [N], dtype: float32}\ncompute: y[i] = x[i]\n"
    )


def test_a_large_copy_is_about_as_fast_as_the_device_s(opened: Session) -> None:
    (spec,) = load_text(copy_of(1 << 26))
    content = bench(opened, spec, {}, Options(samples=FEW))
    assert content["passed"]
    assert content["late_batches"] == 0
    ours, copy = content["regimes"]["cold"]
    assert 0.8 < copy["median_us"] / ours["median_us"] < 1.2


def test_a_small_kernel_in_a_graph_has_no_launch_to_pay(opened: Session) -> None:
    (spec,) = load_text(copy_of(1 << 12))
    content = bench(opened, spec, {}, Options(samples=FEW))
    warm, graph = (content["regimes"][regime][0]["median_us"] for regime in ("warm", "graph"))
    assert 0 < graph < warm


def test_the_host_is_not_in_the_times(opened: Session) -> None:
    """Work that the host takes long to queue, and the device no time to do."""

    def slow() -> None:
        sum(range(30_000))

    times = opened.times_us([Work(slow)] * 8)
    assert max(times) < 100


def test_random_contents_lie_in_their_span_and_differ(opened: Session) -> None:
    address = opened.allocate(4 << 16)
    opened.fill(address, "float32", 1 << 16, 7, (-1, 1), whole=False)
    values = opened.fetch(address, 1 << 16, np.dtype(np.float32))
    assert -1 <= values.min() < -0.99
    assert 0.99 < values.max() <= 1
    assert abs(float(values.mean())) < 0.02
    opened.fill(address, "int32", 1 << 14, 7, (-3, 3), whole=True)
    assert set(opened.fetch(address, 1 << 14, np.dtype(np.int32)).tolist()) == set(range(-3, 4))


def test_counts_on_the_device_are_right(opened: Session) -> None:
    address = opened.allocate(10_000)
    opened.set_bytes(address, 5, 10_000)
    opened.set_bytes(address + 78, 6, 3)
    assert opened.count_equal(address, 10_000, 1, 6) == 3
    assert opened.count_equal(address, 2500, 4, 0x05050505) == 2500 - 2
    assert opened.count_different(address, address + 5000, 5000) == 3


@pytest.mark.parametrize("library", ["torch", "cupy"])
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "blur5x5", "heat3d", "column_sum", "life", "matmul_tiled"])
def test_peers_agree_with_ours(opened: Session, name: str, library: str) -> None:
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"NO {library.upper()}, NOT TESTED")
    content = bench(opened, load(SPECS / f"{name}.yaml"), {}, Options(samples=FEW, against=(library,)))
    assert content["passed"]
    assert [peer["absent"] for peer in content["peers"]] == [""]
    assert [row["name"] for row in content["regimes"]["cold"]][:2] == ["cugen", library]
