"""Running sums on the GPU, or on the CPU where the package was built without CUDA."""

import ctypes
from array import array
from pathlib import Path

_library = ctypes.CDLL(str(Path(__file__).parent / "_kernels.so"))


def running_sum(values):
    """The sums of all values up to each."""
    x = array("f", values)
    y = array("f", bytes(4 * len(x)))
    address, count = x.buffer_info()
    status = _library.runningsum(ctypes.c_void_p(address), ctypes.c_void_p(y.buffer_info()[0]), ctypes.c_int(count))
    if status:
        raise RuntimeError(f"CUDA error {status}")
    return y.tolist()
