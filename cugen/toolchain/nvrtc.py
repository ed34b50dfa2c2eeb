"""NVRTC through ctypes. It requires neither a GPU nor a host compiler."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cugen.toolchain import locations
from cugen.toolchain.errors import CompileError, ToolMissing

_CURE = "pip install 'cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*', or name a CUDA toolkit in the variable CUDA_HOME"


@dataclass(frozen=True, slots=True)
class Nvrtc:
    """The loaded library. `version` is CUDA's, such as "13.0"; `targets` are the supported architectures (90)."""

    path: str
    version: str
    targets: tuple[int, ...]
    library: ctypes.CDLL


def find() -> Nvrtc | None:
    """NVRTC from CUDA_HOME, a wheel, an installed toolkit or the system's linker; None if not installed."""
    path = locations.library("libnvrtc.so*")
    name = str(path) if path else ctypes.util.find_library("nvrtc")
    return _loaded(name) if name else None


def require() -> Nvrtc:
    """NVRTC, or ToolMissing."""
    nvrtc = find()
    if nvrtc is None:
        raise ToolMissing("NVRTC (libnvrtc.so)", _CURE)
    return nvrtc


def compile(source: str, name: str, options: Sequence[str], *, ptx: bool) -> tuple[bytes, str]:
    """The cubin, or the PTX, of `source`, and the log. CompileError where compilation fails."""
    nvrtc = require()
    library = nvrtc.library
    program = ctypes.c_void_p()
    _check(nvrtc, library.nvrtcCreateProgram(ctypes.byref(program), source.encode(), name.encode(), 0, None, None))
    try:
        words = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        status = library.nvrtcCompileProgram(program, len(options), words)
        log = _output(nvrtc, program, library.nvrtcGetProgramLogSize, library.nvrtcGetProgramLog)
        text = log.rstrip(b"\0").decode(errors="replace")
        if status:
            raise CompileError([f"nvrtc-{nvrtc.version}", *options, name], text or _reason(nvrtc, status), name)
        if ptx:
            image = _output(nvrtc, program, library.nvrtcGetPTXSize, library.nvrtcGetPTX).rstrip(b"\0")
        else:
            image = _output(nvrtc, program, library.nvrtcGetCUBINSize, library.nvrtcGetCUBIN)
        return image, text
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))


def _output(nvrtc: Nvrtc, program: ctypes.c_void_p, size_of: Callable[..., Any], get: Callable[..., Any]) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, size_of(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _check(nvrtc, get(program, content))
    return content.raw


def _check(nvrtc: Nvrtc, status: int) -> None:
    if status:
        raise CompileError([f"nvrtc-{nvrtc.version}"], _reason(nvrtc, status), "nvrtc")


def _reason(nvrtc: Nvrtc, status: int) -> str:
    return f"nvrtc: error: {nvrtc.library.nvrtcGetErrorString(status).decode()}"


@functools.cache
def _loaded(name: str) -> Nvrtc | None:
    try:
        for builtins in sorted(Path(name).parent.glob("libnvrtc-builtins.so*")):
            ctypes.CDLL(str(builtins))  # NVRTC opens it by its bare name: it must be loaded already
        library = ctypes.CDLL(name)
    except OSError:
        return None
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    major, minor, count = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
    library.nvrtcGetNumSupportedArchs(ctypes.byref(count))
    targets = (ctypes.c_int * count.value)()
    library.nvrtcGetSupportedArchs(targets)
    return Nvrtc(name, f"{major.value}.{minor.value}", tuple(targets), library)
