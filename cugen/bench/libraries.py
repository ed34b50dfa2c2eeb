"""PyTorch and CuPy as peers, imported on request."""

from __future__ import annotations

import importlib
import linecache
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

from numpy.typing import NDArray

from cugen.bench.buffers import DeviceArray
from cugen.bench.translation.dialects import Dialect, NumPy, Torch
from cugen.spec.types import DType

Peer = Callable[..., tuple[Any, ...]]


class Absent(Exception):
    """A library can't be a peer on this machine, with the reason."""


class Library(Protocol):
    """Library with GPU arrays. `array` views device memory; `constant` copies from the host; `on_stream` wraps a
    function to run on a stream."""

    name: str
    version: str
    dialect: Dialect

    def array(self, given: DeviceArray) -> Any: ...

    def constant(self, values: NDArray[Any], dtype: DType) -> Any: ...

    def on_stream(self, peer: Peer) -> Peer: ...

    def namespace(self) -> Mapping[str, Any]: ...

    def compiled(self, peer: Peer) -> Peer: ...

    def difference(self, got: Any, expected: Any) -> tuple[float, float]: ...

    def release(self) -> None: ...


def library(name: str, stream: int) -> Library:
    """Library `torch`, `triton` (PyTorch's compiler, which generates Triton kernels) or `cupy`. Raises Absent."""
    if name == "cupy":
        return CupyLibrary(stream)
    if name == "triton":
        _imported("triton")
        return TorchLibrary(stream, compiles=True)
    return TorchLibrary(stream)


def function_of(source: str, name: str, namespace: Mapping[str, Any]) -> Peer:
    """The function `peer` of a source text, registered as file `name` for tracebacks and PyTorch's compiler."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope = dict(namespace)
    exec(compile(source, name, "exec"), scope)
    peer: Peer = scope["peer"]
    return peer


class TorchLibrary:
    """PyTorch, with TensorFloat-32 disabled."""

    def __init__(self, stream: int, *, compiles: bool = False) -> None:
        self._torch = torch = _imported("torch")
        if not torch.cuda.is_available():
            raise Absent("this PyTorch sees no GPU")
        self.name = "torch.compile" if compiles else "torch"
        self.version = str(torch.__version__)
        self.dialect: Dialect = Torch()
        self._compiles = compiles
        self._stream = torch.cuda.ExternalStream(stream)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True

    def array(self, given: DeviceArray) -> Any:
        name = given.dtype
        if name in ("bfloat16", "float8_e4m3", "float8_e5m2", "uint16", "uint32", "uint64", "bool"):
            stand_in = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}[given.array.dtype.bytes]
            tensor = self._torch.as_tensor(given.seen_as(stand_in), device="cuda")
            return tensor.view(self._dtype(name))
        return self._torch.as_tensor(given, device="cuda")

    def constant(self, values: NDArray[Any], dtype: DType) -> Any:
        return self._torch.tensor(values.tolist(), dtype=self._dtype(dtype.name), device="cuda")

    def on_stream(self, peer: Peer) -> Peer:
        torch, stream = self._torch, self._stream

        def run(*arguments: Any) -> tuple[Any, ...]:
            with torch.no_grad(), torch.cuda.stream(stream):
                return peer(*arguments)

        return run

    def namespace(self) -> Mapping[str, Any]:
        return {"torch": self._torch}

    def compiled(self, peer: Peer) -> Peer:
        if not self._compiles:
            return peer
        self._torch._dynamo.reset()
        done: Peer = self._torch.compile(peer, dynamic=False)
        return done

    def difference(self, got: Any, expected: Any) -> tuple[float, float]:
        """Maximum difference of two arrays, and maximum magnitude of the second."""
        with self._torch.no_grad(), self._torch.cuda.stream(self._stream):
            if not expected.numel():
                return 0.0, 0.0
            first, second = got.to(self._torch.float64), expected.to(self._torch.float64)
            distance = self._torch.where(first == second, 0.0, (first - second).abs())
            return float(distance.max()), float(second.abs().max())

    def release(self) -> None:
        self._torch.cuda.empty_cache()

    def _dtype(self, name: str) -> Any:
        return getattr(self._torch, {"float8_e4m3": "float8_e4m3fn"}.get(name, name))


@dataclass(frozen=True)
class _Stream:
    """Stream handle with the `__cuda_stream__` protocol."""

    handle: int

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


class CupyLibrary:
    name = "cupy"

    def __init__(self, stream: int) -> None:
        self._cupy = cupy = _imported("cupy")
        if not hasattr(cupy.cuda.Stream, "from_external"):
            raise Absent(f"CuPy {cupy.__version__} can't use the stream of others; 14 and later can")
        _imported("cupyx.scipy.special")
        self.version = str(cupy.__version__)
        self.dialect: Dialect = NumPy("cupy")
        self._stream = cupy.cuda.Stream.from_external(_Stream(stream))

    def array(self, given: DeviceArray) -> Any:
        if given.dtype.startswith(("bfloat", "float8")):
            raise Absent(f"CuPy has no {given.dtype}")
        return self._cupy.asarray(given)

    def constant(self, values: NDArray[Any], dtype: DType) -> Any:
        return self._cupy.asarray(values)

    def on_stream(self, peer: Peer) -> Peer:
        def run(*arguments: Any) -> tuple[Any, ...]:
            with self._stream:
                return peer(*arguments)

        return run

    def namespace(self) -> Mapping[str, Any]:
        return {"cupy": self._cupy, "cupyx": importlib.import_module("cupyx")}

    def compiled(self, peer: Peer) -> Peer:
        return peer

    def difference(self, got: Any, expected: Any) -> tuple[float, float]:
        with self._stream:
            if not expected.size:
                return 0.0, 0.0
            first, second = got.astype("float64"), expected.astype("float64")
            distance = self._cupy.where(first == second, 0.0, self._cupy.abs(first - second))
            return float(distance.max()), float(self._cupy.abs(second).max())

    def release(self) -> None:
        self._cupy.get_default_memory_pool().free_all_blocks()


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise Absent(f"{name} can't be imported: {error}") from error
