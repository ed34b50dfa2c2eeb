"""The address, shape and strides of whatever array was passed."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from cugen.abi.errors import RunError
from cugen.runtime.call.views import CPU, view_of


class OnGpu:
    """An object with nothing but `__cuda_array_interface__`."""

    def __init__(self, **interface: object) -> None:
        self.__cuda_array_interface__ = {
            "shape": (2, 3),
            "typestr": "<f4",
            "data": (4096, False),
            "version": 3,
        } | interface


def test_a_cuda_array_without_strides_is_dense() -> None:
    view = view_of("A", OnGpu())
    assert (view.address, view.shape, view.strides, view.dtype) == (4096, (2, 3), (12, 4), "float32")
    assert view.device is None
    assert not view.readonly
    assert view.bytes == 24


def test_a_cuda_array_s_own_strides_are_kept() -> None:
    view = view_of("A", OnGpu(strides=(16, 4), data=(8, True)))
    assert view.strides == (16, 4)
    assert view.readonly
    assert view.bytes == 28


@pytest.mark.parametrize(
    ("typestr", "name"), [("<f2", "float16"), ("|b1", "bool"), ("|u1", "uint8"), ("<i8", "int64"), ("<c8", "complex64")]
)
def test_types_have_the_language_s_names(typestr: str, name: str) -> None:
    assert view_of("A", OnGpu(typestr=typestr)).dtype == name


def test_raw_bytes_take_the_type_that_the_object_calls_its_own() -> None:
    tensor = OnGpu(typestr="<V2")
    assert view_of("A", tensor).dtype == "V2"
    tensor.dtype = "torch.bfloat16"
    assert view_of("A", tensor).dtype == "bfloat16"


def test_a_numpy_array_is_on_the_cpu() -> None:
    array = np.zeros((4, 6), np.float32).T
    array.flags.writeable = False
    view = view_of("A", array)
    assert (view.device, view.shape, view.strides, view.readonly) == (CPU, (6, 4), (4, 24), True)
    assert view.address == array.ctypes.data


@pytest.mark.parametrize(
    ("numpy_type", "name"),
    [
        (ml_dtypes.bfloat16, "bfloat16"),
        (ml_dtypes.float8_e4m3fn, "float8_e4m3"),
        (ml_dtypes.float8_e5m2, "float8_e5m2"),
    ],
)
def test_narrow_floats_have_the_language_s_names(numpy_type: type, name: str) -> None:
    assert view_of("A", np.zeros(3, numpy_type)).dtype == name


class ThroughDlpack:
    """Hands out NumPy's own capsule, with another device in it."""

    def __init__(self, array: np.ndarray, device: tuple[int, int]) -> None:
        self.array, self.device = array, device
        self.streams: list[object] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: object = None) -> object:
        self.streams.append(stream)
        capsule = self.array.__dlpack__()
        pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
        pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        address = pointer_of(capsule, b"dltensor")
        (ctypes.c_int32 * 2).from_address(address + 8)[:] = self.device
        return capsule


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8, np.uint64, np.bool_])
def test_a_dlpack_tensor_on_a_gpu_is_read_without_synchronising(dtype: type) -> None:
    array = np.zeros((4, 6), dtype)[:, ::2]
    tensor = ThroughDlpack(array, (2, 3))
    view = view_of("A", tensor)
    assert (view.address, view.shape, view.strides) == (array.ctypes.data, array.shape, array.strides)
    assert view.dtype == array.dtype.name
    assert view.device == 3
    assert tensor.streams == [-1]


def test_a_dlpack_tensor_on_another_kind_of_device_is_refused() -> None:
    with pytest.raises(RunError, match=r"CG5008.*`A` is on a device of DLPack type 10"):
        view_of("A", ThroughDlpack(np.zeros(3, np.float32), (10, 0)))


def test_an_object_that_says_nothing_of_its_memory_is_refused() -> None:
    with pytest.raises(RunError, match=r"CG5008.*`A` is a list"):
        view_of("A", [1, 2, 3])


def test_a_tensor_whose_interface_raises_is_read_through_dlpack() -> None:
    class Tensor(ThroughDlpack):
        @property
        def __cuda_array_interface__(self) -> dict:
            raise TypeError("bfloat16 is unknown")

    assert view_of("A", Tensor(np.zeros(3, np.float32), (2, 0))).device == 0


def test_a_tensor_that_keeps_its_memory_to_itself_is_refused_with_its_own_words() -> None:
    class Tensor(ThroughDlpack):
        def __dlpack__(self, *, stream: object = None) -> object:
            raise BufferError("Can't export tensors that require gradient")

    with pytest.raises(RunError, match=r"CG5008.*`A`.*require gradient"):
        view_of("A", Tensor(np.zeros(3, np.float32), (2, 0)))
