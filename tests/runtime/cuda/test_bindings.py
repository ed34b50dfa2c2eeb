"""Both bindings do the same, and free what they made."""

import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import Binding
from cugen.runtime.cuda.choice import binding
from tests.runtime.fakes.gpu import PRIMARY, FakeGpu, IllegalAddressError
from tests.runtime.fakes.installed import installed_gpu

MAP = np.frombuffer(bytes(range(128)), "V128")[0]


@pytest.fixture(params=["PyCUDA", "libcuda"])
def through(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def gpu(through: str) -> Iterator[FakeGpu]:
    with installed_gpu(has_pycuda=through == "PyCUDA") as fake:
        yield fake


@pytest.fixture
def cuda(gpu: FakeGpu) -> Iterator[Binding]:
    made = binding()
    with made.current(0) as context:
        assert (context, gpu.current) == (PRIMARY, [PRIMARY])
        yield made
    assert gpu.current == []


def test_each_parameter_arrives_where_the_kernel_reads_it(cuda: Binding, gpu: FakeGpu, through: str) -> None:
    seen = []
    gpu.kernels["k"] = lambda *arguments: seen.append([argument.tobytes() for argument in arguments])
    gpu.parameters["k"] = ("V128", "uint8", "V128", "uint64", "uint16", "float64")
    values = [MAP, np.uint8(1), MAP, np.uint64(2**40), np.uint16(7), np.float64(1.5)]
    stream = cuda.stream()
    kernel = cuda.load(b"").kernel("k")
    for queue in (None, stream):
        kernel.launch((3, 2, 1), (32, 1, 1), 64, queue, [value.tobytes() for value in values])
    assert seen == [[value.tobytes() for value in values]] * 2
    assert gpu.launches == [("k", {"grid": (3, 2, 1), "block": (32, 1, 1), "shared": 64})] * 2
    assert gpu.launched == [(through, "k", 0), (through, "k", gpu.streams[0])]
    del stream


def test_a_kernel_without_parameters_is_launched(cuda: Binding, gpu: FakeGpu) -> None:
    gpu.kernels["k"], gpu.parameters["k"] = lambda: None, ()
    cuda.load(b"").kernel("k").launch((1, 1, 1), (1, 1, 1), 0, None, [])
    assert len(gpu.launches) == 1


@pytest.mark.parametrize("number", [b"\x81", b"\x01\x02", b"\x01\x02\x03\x84", bytes(range(8))], ids=len)
def test_a_number_is_stored_in_its_bytes(cuda: Binding, gpu: FakeGpu, number: bytes) -> None:
    address = cuda.allocate(16)
    cuda.store(address, number)
    assert gpu.memory[address : address + len(number)].tobytes() == number


def test_memory_is_filled_copied_and_fetched(cuda: Binding, gpu: FakeGpu) -> None:
    first, second = cuda.allocate(8), cuda.allocate(8, "mapped")
    content = np.arange(2, dtype=np.uint32)
    cuda.upload(first, content)
    cuda.copy(second, first, 8)
    cuda.set_bytes(second, 255, 4)
    fetched = np.empty(2, np.uint32)
    cuda.fetch(fetched, second)
    assert fetched.tolist() == [2**32 - 1, 1]
    free = cuda.free_bytes()
    cuda.free(first)
    assert gpu.allocated == {second}
    assert 0 < free < gpu.memory.size


def test_a_timer_gives_the_milliseconds_between_its_events(cuda: Binding) -> None:
    timer = cuda.timer()
    timer.start(None)
    timer.stop(None)
    assert timer.milliseconds() == 1.0


def test_release_frees_all(cuda: Binding, gpu: FakeGpu) -> None:
    gpu.kernels["k"], gpu.parameters["k"] = lambda: None, ()
    cuda.load(b"").kernel("k")
    cuda.timer().start(None)
    for kind in ("device", "managed", "mapped"):
        cuda.allocate(100, kind)
    cuda.stream()
    assert len(gpu.allocated) == 3
    cuda.release()
    assert (gpu.allocated, gpu.streams, gpu.live_events, gpu.live_modules) == (set(), [], 0, 0)


def test_an_error_of_the_driver_is_one_of_cugen(cuda: Binding, gpu: FakeGpu) -> None:
    def broken() -> None:
        raise IllegalAddressError

    gpu.kernels["k"], gpu.parameters["k"] = broken, ()
    cuda.load(b"").kernel("k").launch((1, 1, 1), (1, 1, 1), 0, None, [])
    with pytest.raises(RunError, match=r"CG5013.*cuCtxSynchronize failed: .*an illegal memory access"):
        cuda.synchronize()
    stream = cuda.stream()
    with pytest.raises(RunError, match=r"CG5013.*cuStreamSynchronize failed: .*an illegal memory access"):
        cuda.synchronize(stream)
    cuda.release()


def test_a_gpu_that_can_not_be_used_is_named(gpu: FakeGpu, through: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if through == "PyCUDA":
        pycuda: Any = sys.modules["pycuda.driver"]

        def refused(_: int) -> None:
            raise pycuda.Error("cuDeviceGet failed: invalid device ordinal")

        monkeypatch.setattr(pycuda, "Device", refused)
    else:
        monkeypatch.setattr(libcuda.driver()._library, "cuDevicePrimaryCtxRetain", lambda *_: 100, raising=False)
    with pytest.raises(RunError, match=r"CG5011.*GPU 3 can't be used"), binding().current(3):
        pass
