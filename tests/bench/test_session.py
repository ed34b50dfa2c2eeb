"""A session on a GPU of the tests: its work goes through PyCUDA where that is installed, and it frees what it took."""

import ctypes
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.bench import session as sessions
from cugen.bench.protocol import Work
from cugen.bench.session import session
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.choice import context_of_call
from cugen.runtime.cuda.libcuda_binding import LibcudaBinding
from cugen.runtime.cuda.pycuda_binding import PyCudaBinding
from cugen.toolchain.cuda import Cubin
from tests.runtime.fakes.gpu import PRIMARY, FakeGpu, IllegalAddressError
from tests.runtime.fakes.installed import installed_gpu


@pytest.fixture(params=["PyCUDA", "libcuda"])
def through(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def gpu(through: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    monkeypatch.setattr(sessions, "compile_cubin", lambda *_: Cubin(b"", "", {}, 0.0, "", False))
    words = (ctypes.c_int * 2)()
    monkeypatch.setattr(sessions, "_words_at", lambda address: words)
    with installed_gpu(has_pycuda=through == "PyCUDA") as fake:
        fake.kernels["gate"], fake.parameters["gate"] = lambda *_: None, ("uint64", "uint64")
        fake.kernels["read_all"], fake.parameters["read_all"] = lambda *_: None, ("uint64", "uint64", "uint64")
        yield fake
        assert (fake.allocated, fake.streams, fake.live_events, fake.live_modules) == (set(), [], 0, 0)
        assert fake.current == []


def test_the_work_of_a_session_is_on_its_stream(gpu: FakeGpu, through: str) -> None:
    with session() as opened:
        assert opened.stream_handle == gpu.streams[0]
        assert (opened.stream == opened.stream_handle) == (through == "libcuda")
        times = opened.times_us([Work(lambda: opened.read(1 << 16, 1024))] * 3)
        assert times == [1000.0] * 3
        assert gpu.launched == [(through, name, gpu.streams[0]) for name in ("gate", *["read_all"] * 3)]


def test_timers_are_used_again(gpu: FakeGpu) -> None:
    with session() as opened:
        for _ in range(3):
            opened.times_us([Work(lambda: None)] * 2)
        assert gpu.live_events == 4


def test_a_graph_has_the_launches_of_its_runs(gpu: FakeGpu, through: str) -> None:
    with session() as opened:
        play, destroy = opened.captured([lambda: opened.read(1 << 16, 1024)] * 2)
        assert gpu.launches == []
        play()
        assert [name for name, _ in gpu.launches] == ["read_all"] * 2
        assert {via for via, _, _ in gpu.launched} == {through}
        destroy()


def test_runs_that_can_not_be_captured_are_said(gpu: FakeGpu) -> None:
    def refused() -> None:
        raise RunError("CG5013", "no")

    with session() as opened, pytest.raises(RuntimeError, match="no"):
        opened.captured([refused])


def test_arrays_of_every_type_are_uploaded_and_fetched(gpu: FakeGpu) -> None:
    with session() as opened:
        address = opened.allocate(64)
        for dtype in ("float32", "float16", "bool", "uint64"):
            content = np.arange(4).astype(dtype)
            opened.upload(address, content)
            assert np.array_equal(opened.fetch(address, 4, content.dtype), content)
        opened.set_bytes(address, 0, 0)
        opened.copy(address, address, 0)
        opened.release(address)


def test_more_than_there_is_is_not_allocated(gpu: FakeGpu) -> None:
    with session() as opened, pytest.raises(MemoryError, match="a made-up GPU has"):
        opened.allocate(1 << 30)


def test_a_fault_ends_the_session_and_frees_what_it_took(gpu: FakeGpu) -> None:
    def broken(*_: Any) -> None:
        raise IllegalAddressError

    gpu.kernels["read_all"] = broken
    with pytest.raises(RunError, match="illegal memory access"), session() as opened:
        opened.times_us([Work(lambda: opened.read(1 << 16, 1024))])


def test_a_session_is_on_the_gpu_of_the_current_context(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu.current.append(0x77)
    monkeypatch.setattr(libcuda.driver(), "ordinal", lambda: 3)
    with session() as opened:
        assert opened.ordinal == 3
        assert gpu.current == [0x77, PRIMARY + 3]
    assert gpu.current.pop() == 0x77


def test_a_compiled_kernel_takes_the_way_of_its_session(gpu: FakeGpu, through: str) -> None:
    with session() as opened, context_of_call(opened.stream) as current:
        assert type(current.cuda) is (PyCudaBinding if through == "PyCUDA" else LibcudaBinding)
        assert (current.stream, current.handle) == (opened.stream, opened.stream_handle)
        del current
