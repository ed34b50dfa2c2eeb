"""Kernels as operators of PyTorch, over a stand-in with just what the glue asks of it; tests/gpu has the real one."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cugen
from cugen import pytorch as glue
from cugen.abi.errors import RunError
from cugen.runtime.call.callable import GpuFunction
from cugen.spec.load import load_text

SPEC = """\
cugen: 1
kernel: scale
params: {M: dynamic, N: 4}
scalars: {c: {dtype: float32}}
arrays:
  x: {shape: [M, N], dtype: DTYPE}
  y: {shape: [M, N], dtype: DTYPE, layout: column}
compute: y[m, n] = c * x[m, n]
"""


class Tensor:
    """An array of NumPy's with a device and, as PyTorch's are, without a way to it while a gradient is wanted."""

    def __init__(self, array: Any, device: str = "cpu", requires_grad: bool = False) -> None:
        self.array, self.requires_grad = array, requires_grad
        kind, _, index = device.partition(":")
        self.device = SimpleNamespace(type=kind, index=int(index or 0), name=device)
        self.shape = array.shape
        self.dtype = f"torch.{array.dtype.name}"

    def detach(self) -> Any:
        """What gives its memory away; here the array itself."""
        return self.array

    def data_ptr(self) -> int:
        return self.array.ctypes.data


class Torch:
    """The module; `made` are the registered operators."""

    Tensor = Tensor
    float32, uint8, int16, bfloat16 = "float32", "uint8", "int16", np.dtype(ml_dtypes.bfloat16)

    def __init__(self) -> None:
        self.made: list[SimpleNamespace] = []
        self.capability: tuple[int, int] | None = None  # without a GPU
        self.library = SimpleNamespace(custom_op=self.custom_op)
        self.devices: list[str] = []
        self.cuda = SimpleNamespace(
            device=self.current,
            current_stream=lambda device: SimpleNamespace(cuda_stream=len(device.name)),
            is_available=lambda: self.capability is not None,
            get_device_capability=lambda: self.capability,
        )

    def custom_op(self, name: str, function: Any, *, mutates_args: Any, schema: str) -> SimpleNamespace:
        made = SimpleNamespace(name=name, call=function, mutates=tuple(mutates_args), schema=schema, fake=None)
        made.register_fake = lambda fake: setattr(made, "fake", fake)
        self.made.append(made)
        return made

    def empty_strided(self, shape: Any, strides: Any, *, dtype: Any, device: Any) -> Tensor:
        flat = np.zeros(64, dtype)
        steps = tuple(stride * flat.itemsize for stride in strides)
        return Tensor(np.lib.stride_tricks.as_strided(flat, shape, steps), device.name)

    def empty(self, size: int, *, dtype: Any, device: Any) -> Tensor:
        return Tensor(np.zeros(size, dtype), device.name)

    @contextmanager
    def current(self, device: Any) -> Any:
        self.devices.append(device.name)
        yield


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Torch:
    module = Torch()
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(glue, "_operators", {})
    return module


def operator(dtype: str = "float32") -> Any:
    return cugen.torch_op(load_text(SPEC.replace("DTYPE", dtype))[0])


def test_an_operator_is_registered_once_by_what_it_computes(torch: Torch) -> None:
    registered = operator()
    assert operator() is registered
    assert operator("float16") is not registered
    assert registered.name.startswith("cugen::scale_")
    assert registered.schema == "(Tensor x, float c) -> Tensor"
    assert registered.mutates == ()
    assert len({made.name for made in torch.made}) == 2


def test_a_spec_without_a_target_is_for_the_current_gpu(torch: Torch) -> None:
    targets = []
    for torch.capability in (None, (9, 0), (10, 0)):
        targets.append(operator().call._gpu.manifest.target)
    assert targets == ["sm_90", "sm_90a", "sm_90"]


def test_tensors_of_the_cpu_are_computed_on_the_cpu(torch: Torch) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = operator().call(Tensor(x, requires_grad=True), 2.5)
    assert np.array_equal(y.array, np.float32(2.5) * x)
    assert y.array.strides == (4, 12)  # as the spec lays it out


def test_types_that_numpy_lacks_work_too(torch: Torch) -> None:
    x = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    y = operator("bfloat16").call(Tensor(x), 2.0)
    assert np.array_equal(y.array.astype(float), 2 * x.astype(float))


def test_shapes_alone_give_the_outputs_of_a_trace(torch: Torch) -> None:
    y = operator().fake(Tensor(np.zeros((5, 4), np.float32), "meta"), 1.0)
    assert (y.shape, y.device.name) == ((5, 4), "meta")


def test_on_a_gpu_the_current_stream_and_the_allocator_of_pytorch_are_used(
    torch: Torch, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def queue(self: GpuFunction, arguments: Any, handle: int, allocate: Any, on_gpu: int) -> None:
        seen.append((sorted(arguments), handle, type(arguments["x"]), allocate(48) % 4, on_gpu))

    monkeypatch.setattr(GpuFunction, "queue", queue)
    y = operator().call(Tensor(np.zeros((3, 4), np.float32), "cuda:1", requires_grad=True), 1.0)
    assert (y.shape, y.device.name) == ((3, 4), "cuda:1")
    assert seen == [(["c", "x", "y"], len("cuda:1"), np.ndarray, 0, 1)]
    assert torch.devices == ["cuda:1"]


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (Tensor(np.zeros((3, 4))), "CG5003.*`x` holds float64; scale was made for float32"),
        (Tensor(np.zeros((3, 4, 1), np.float32)), "CG5002.*`x` has 3 dimensions"),
        (Tensor(np.zeros((3, 5), np.float32)), r"CG5002.*`x` has shape \[3, 5\]"),
        (Tensor(np.zeros((4, 3), np.float32).T), "CG5006.*`x` has strides"),
        (Tensor(np.zeros((3, 4), np.float32), "mps"), "CG5008.*is on"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(torch: Torch, x: Tensor, message: str) -> None:
    with pytest.raises(RunError, match=message):
        operator().call(x, 1.0)
