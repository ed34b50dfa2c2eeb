"""Streams of other libraries."""

from __future__ import annotations

from typing import Any

from cugen.abi import wording
from cugen.abi.codes import WRONG_DEVICE
from cugen.abi.errors import RunError

PER_THREAD = 2  # CU_STREAM_PER_THREAD


def stream_handle(stream: Any) -> int:
    """The driver handle of a stream: 0 for None, an integer itself, or that of an object.

    Streams of PyTorch (`cuda_stream`), CuPy (`ptr`), PyCUDA (`handle`) and with `__cuda_stream__` are supported."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        protocol = stream.__cuda_stream__
        return int((protocol() if callable(protocol) else protocol)[1])
    for attribute in ("cuda_stream", "ptr", "handle"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    cure = wording.IN_A_MAPPING.format(name="stream")
    raise RunError(WRONG_DEVICE, f"`stream` is a {type(stream).__name__}, which is no CUDA stream", cure)
