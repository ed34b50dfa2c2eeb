"""A compiled kernel's calls on a GPU of the tests, through PyCUDA and through libcuda."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from cugen.abi.manifest import (
    ArrayArgument,
    LaunchEntry,
    Manifest,
    ParamArgument,
    ScalarArgument,
    TensorMapEntry,
    Upload,
    Workspace,
)
from cugen.runtime.call import callable as calling
from cugen.runtime.call.callable import GpuFunction
from cugen.toolchain.cuda import Cubin, KernelResources
from tests.runtime.fakes.gpu import BASE, PRIMARY, SYMBOL, FakeGpu
from tests.runtime.fakes.installed import installed_gpu

FOREIGN = 0x77  # a context of another library
M = 8


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    cubin = Cubin(b"", "", {"scale": KernelResources(32, 0, 0, 0, 0, 0)}, 0.1, "nvrtc 13.0", False)
    monkeypatch.setattr(calling, "compile_cubin", lambda source, name, target: cubin)
    with installed_gpu(has_pycuda=True) as fake:

        def scale(encoded: np.void, a: np.uint64, c: np.uint64, s: np.uint16, m: np.int32, w: np.uint64) -> None:
            assert fake.tensor_maps[encoded.tobytes()] == (int(a), (M,))
            factor, offset = np.asarray(s).view(np.float16), fake.view(SYMBOL, 1)[0]
            fake.view(w, int(m))[:] = fake.view(a, int(m)) * factor
            fake.view(c, int(m))[:] = fake.view(w, int(m)) + offset

        fake.kernels["scale"] = scale
        fake.parameters["scale"] = ("V128", "uint64", "uint64", "uint16", "int32", "uint64")
        yield fake


@pytest.fixture
def pycuda(gpu: FakeGpu) -> Any:
    return sys.modules["pycuda.driver"]


@pytest.fixture
def function() -> GpuFunction:
    arrays = [
        ArrayArgument(name, role, "float32", ("M",), (1,), "M", 16) for name, role in (("A", "input"), ("C", "output"))
    ]
    numbers = [ScalarArgument("s", "float16"), ScalarArgument("t", "float32"), ParamArgument("M", "int32", 0, 100, 1)]
    launch = LaunchEntry("scale", ("M // 2", 1, 1), (32, 1, 1), 0, 0, ("A", "C", "s", "M", "w"), "", 1, ("A_map",))
    return GpuFunction(
        "source",
        Manifest(
            kernel="scale",
            version="1",
            spec_file="scale.yaml",
            spec_hash="",
            target="sm_90",
            params={},
            arguments=(*arrays, *numbers),
            workspace=(Workspace("w", "float32", "M"),),
            uploads=(Upload("offset", "t", 4),),
            launches=(launch,),
            tensor_maps=(TensorMapEntry("A_map", "A", "float32", ("M",), (), (8,), 0),),
        ),
    )


class Array:
    def __init__(self, gpu: FakeGpu) -> None:
        self.address = gpu.allocate(4 * M)
        self.content = gpu.view(self.address, M)
        self.__cuda_array_interface__ = {
            "shape": (M,),
            "typestr": "<f4",
            "data": (self.address, False),
            "version": 3,
        }


@pytest.fixture
def call(gpu: FakeGpu, function: GpuFunction) -> Callable[..., None]:
    """Calls the kernel on new numbers and checks its result."""
    a, c = Array(gpu), Array(gpu)
    assert a.address >= BASE

    def checked(stream: Any = None, s: float = 1.5, t: float = 3.0) -> None:
        a.content[:] = np.arange(M) * s
        function(A=a, C=c, s=s, t=t, stream=stream)
        assert np.array_equal(c.content, np.arange(M) * s * s + t)

    return checked


def test_without_a_context_a_call_is_pycuda_s(gpu: FakeGpu, call: Callable[..., None]) -> None:
    for s, t in ((1.5, 3.0), (2.0, -1.0)):
        call(s=s, t=t)
    assert gpu.launched == [("PyCUDA", "scale", 0)] * 2
    assert (gpu.live_modules, gpu.current) == (1, [])


def test_a_call_on_a_stream_of_pycuda_is_its_own(gpu: FakeGpu, pycuda: Any, call: Callable[..., None]) -> None:
    pycuda.Device(0).make_context()
    stream = pycuda.Stream()
    call(stream)
    assert gpu.launched == [("PyCUDA", "scale", stream.handle)]


def test_a_call_in_another_library_s_context_is_libcuda_s(gpu: FakeGpu, call: Callable[..., None]) -> None:
    gpu.current.append(FOREIGN)
    call()
    call(0x1234)
    assert gpu.launched == [("libcuda", "scale", 0), ("libcuda", "scale", 0x1234)]


def test_both_ways_have_modules_of_their_own_in_one_context(gpu: FakeGpu, call: Callable[..., None]) -> None:
    call()
    gpu.current.append(PRIMARY)  # as PyTorch makes it current
    call()
    call()
    gpu.current.clear()
    call()
    assert [way for way, _, _ in gpu.launched] == ["PyCUDA", "libcuda", "libcuda", "PyCUDA"]
    assert gpu.live_modules == 2


def test_a_module_of_pycuda_outlives_its_function(gpu: FakeGpu, function: GpuFunction) -> None:
    """Its kernel may still run."""
    function(A=Array(gpu), C=Array(gpu), s=1.0, t=0.0)
    function._loaded.clear()
    assert gpu.live_modules == 1
