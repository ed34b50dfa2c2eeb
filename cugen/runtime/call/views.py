"""Views of arrays of any library: address, shape and strides.

Read from NumPy arrays, `__cuda_array_interface__` (Numba's, versions 2 and 3) and DLPack.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from cugen.abi.codes import WRONG_DEVICE
from cugen.abi.errors import RunError

CPU = -1  # as a device ordinal
_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_MANAGED = 1, 2, 13
_DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 6: "bool", 10: "float8_e4m3", 12: "float8_e5m2"}
_NUMPY_NAMES = {"float8_e4m3fn": "float8_e4m3"}


@dataclass(frozen=True, slots=True)
class ArrayView:
    """An array in memory. `strides` are in bytes. `dtype` is the element type's name in specs; `V2` is raw bytes of
    that width. `device` is an ordinal, CPU, or None where unknown. `owner` keeps the memory alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    itemsize: int
    readonly: bool
    device: int | None
    owner: Any

    @property
    def bytes(self) -> int:
        """Extent in memory, from the first to the last element, for nonnegative strides."""
        if 0 in self.shape:
            return 0
        return self.itemsize + sum((n - 1) * abs(s) for n, s in zip(self.shape, self.strides, strict=True))


def view_of(name: str, given: Any) -> ArrayView:
    """The view of the argument `name`. RunError (CG5008) for an object without one of the interfaces."""
    if isinstance(given, np.ndarray):
        return _from_numpy(given)
    interface = _cuda_interface(given)
    if interface is not None:
        return _from_cuda_interface(interface, given)
    if hasattr(given, "__dlpack__"):
        return _from_dlpack(name, given)
    raise RunError(
        WRONG_DEVICE,
        f"`{name}` is a {type(given).__name__}, which has neither `__cuda_array_interface__` nor `__dlpack__`",
        "pass a tensor of PyTorch, an array of CuPy, JAX or Numba, or a GPUArray of PyCUDA",
    )


def _from_numpy(array: np.ndarray[Any, Any]) -> ArrayView:
    name = _NUMPY_NAMES.get(array.dtype.name, array.dtype.name)
    return ArrayView(
        array.ctypes.data, array.shape, array.strides, name, array.itemsize, not array.flags.writeable, CPU, array
    )


def _cuda_interface(given: Any) -> dict[str, Any] | None:
    try:
        interface = getattr(given, "__cuda_array_interface__", None)
    except (RuntimeError, TypeError, KeyError):  # PyTorch: a CPU tensor, one that requires grad, or an unsupported type
        return None
    return interface if isinstance(interface, dict) else None


def _from_cuda_interface(interface: dict[str, Any], given: Any) -> ArrayView:
    address, readonly = interface["data"]
    typestr = interface["typestr"]
    shape = tuple(int(n) for n in interface["shape"])
    kind, itemsize = typestr[1], int(typestr[2:])
    if kind == "V" or typestr[0] == ">":
        dtype = _torch_name(given) or f"{kind}{itemsize}"
    else:
        dtype = np.dtype(typestr).name
    given_strides = interface.get("strides")
    strides = _dense(shape, itemsize) if given_strides is None else tuple(int(s) for s in given_strides)
    return ArrayView(int(address or 0), shape, strides, dtype, itemsize, bool(readonly), None, given)


def _torch_name(given: Any) -> str:
    name = str(getattr(given, "dtype", "")).removeprefix("torch.")
    return _NUMPY_NAMES.get(name, name) if name.startswith(("bfloat16", "float8_e")) else ""


def _dense(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)])


class _Device(ctypes.Structure):
    _fields_ = (("type", ctypes.c_int32), ("id", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    """`DLTensor` of dlpack.h, the first member of `DLManagedTensor`."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


def _from_dlpack(name: str, given: Any) -> ArrayView:
    kind, _ = given.__dlpack_device__()
    if kind not in (_DLPACK_CPU, _DLPACK_CUDA, _DLPACK_CUDA_MANAGED):
        raise RunError(WRONG_DEVICE, f"`{name}` is on a device of DLPack type {int(kind)}, which is no CUDA device")
    # -1: no synchronisation; the caller orders streams.
    try:
        capsule = given.__dlpack__() if kind == _DLPACK_CPU else given.__dlpack__(stream=-1)
    except (BufferError, RuntimeError, TypeError) as error:  # such as a PyTorch tensor that requires grad
        raise RunError(WRONG_DEVICE, f"`{name}` can't be exported through DLPack: {error}") from error
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(pointer_of(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    itemsize = tensor.dtype.bits // 8
    if tensor.strides:
        strides = tuple(tensor.strides[i] * itemsize for i in range(tensor.ndim))
    else:
        strides = _dense(shape, itemsize)
    family = _DLPACK_CODES.get(tensor.dtype.code, f"type {tensor.dtype.code} of DLPack, ")
    dtype = family if family.startswith(("bool", "float8")) else f"{family}{tensor.dtype.bits}"
    device = CPU if kind == _DLPACK_CPU else int(tensor.device.id)
    address = (tensor.data or 0) + tensor.byte_offset
    return ArrayView(address, shape, strides, dtype, itemsize, False, device, (given, capsule))
