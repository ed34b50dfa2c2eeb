"""The choice between the two ways to the CUDA driver, by who made the context current."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from cugen.runtime.cuda import libcuda
from cugen.runtime.cuda.binding import Binding, Stream
from cugen.runtime.cuda.libcuda_binding import LibcudaBinding
from cugen.runtime.cuda.pycuda_binding import PyCudaBinding, is_stream, made_current, missing_pycuda
from cugen.runtime.cuda.streams import stream_handle


class Current(NamedTuple):
    """The current context of a call."""

    cuda: Binding
    context: int  # its handle
    ordinal: int  # its GPU
    stream: Stream  # of the call, as `cuda` takes it
    handle: int  # of the stream


def binding() -> Binding:
    """For a context that cugen makes current: PyCUDA, or libcuda where PyCUDA can't be imported."""
    return LibcudaBinding() if missing_pycuda() else PyCudaBinding()


def without_pycuda() -> str:
    """What takes PyCUDA's place and what builds it, where it can't be imported; else empty."""
    reason = missing_pycuda()
    return reason and f"running through the CUDA driver without PyCUDA ({reason}); `cugen setup gpu` builds it"


@contextmanager
def context_of_call(stream: object, on_gpu: int | None = None) -> Iterator[Current]:
    """The current context; without one, GPU 0's primary context, current until exit. `on_gpu`: the primary context of
    this GPU instead, which is another library's.

    Through PyCUDA if PyCUDA or cugen made the context current, and `stream` is PyCUDA's or the default one."""
    handle = stream_handle(stream)
    context = libcuda.driver().context() if on_gpu is None else 0
    through_pycuda = on_gpu is None and (not handle or is_stream(stream))
    through_pycuda = through_pycuda and (made_current(context) if context else not missing_pycuda())
    cuda = _lasting(PyCudaBinding if through_pycuda else LibcudaBinding)
    queue = (stream if handle else None) if through_pycuda else handle
    if context:
        yield Current(cuda, context, libcuda.driver().ordinal(), queue, handle)
        return
    with cuda.current(on_gpu or 0) as primary:
        yield Current(cuda, primary, on_gpu or 0, queue, handle)


@functools.cache
def _lasting(kind: type[PyCudaBinding] | type[LibcudaBinding]) -> Binding:
    """The binding of all calls. It is never released: kernels run after a call returns, and graphs may have them. Not
    at the end of the interpreter either, when PyCUDA warns of each module that another thread loaded."""
    cuda = kind()
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(cuda))
    return cuda
