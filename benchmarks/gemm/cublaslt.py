"""Best cuBLASLt algorithm: all algorithms that its heuristics propose are timed, and the fastest is used.

The algorithms run interleaved in rounds, of which the minimum counts: one run with cold caches and several back to
back, as some are fast in only one of these. The GPU waits until all runs are queued, else short GEMMs would measure
launch overhead.

`matmul(a, b)` multiplies PyTorch matrices, or batches of them, on the current stream; each is contiguous, or the
transpose of a contiguous one. The result has the type of the operands; float16 and bfloat16 accumulate in float32; int8
accumulates in int32 and returns int32; float8_e4m3fn returns bfloat16.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import glob
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

_PROPOSALS, _WORKSPACE_BYTES = 32, 64 << 20
_ROUNDS, _RUNS = 3, 10  # rounds per algorithm; back-to-back runs per round, but one in the first round
_MAX_MS_FOR_REPEATED_RUNS = 1.0  # milliseconds; slower algorithms run once per round (heuristic)
_GATE_CYCLES = 1_500_000  # GPU clocks, about 1 ms: enough to queue ten runs (measured on H200)
_FLUSH_BYTES = 256 << 20  # read before a run with cold caches; exceeds L2
# cudaDataType_t and cublasComputeType_t.
_FLOAT, _DOUBLE, _HALF, _BFLOAT16, _INT8, _INT32, _FLOAT8_E4M3 = 0, 1, 2, 14, 3, 10, 28
_COMPUTE_FLOAT, _COMPUTE_DOUBLE, _COMPUTE_INT32, _COMPUTE_FAST_TF32 = 68, 70, 72, 77
_TYPES = {
    torch.float32: (_FLOAT, _FLOAT, _FLOAT, _COMPUTE_FLOAT, torch.float32),
    torch.float64: (_DOUBLE, _DOUBLE, _DOUBLE, _COMPUTE_DOUBLE, torch.float64),
    torch.float16: (_HALF, _HALF, _FLOAT, _COMPUTE_FLOAT, torch.float16),
    torch.bfloat16: (_BFLOAT16, _BFLOAT16, _FLOAT, _COMPUTE_FLOAT, torch.bfloat16),
    torch.int8: (_INT8, _INT32, _INT32, _COMPUTE_INT32, torch.int32),
    torch.float8_e4m3fn: (_FLOAT8_E4M3, _BFLOAT16, _FLOAT, _COMPUTE_FLOAT, torch.bfloat16),
}
_BATCH_COUNT, _BATCH_STRIDE, _MAX_WORKSPACE = 5, 6, 1  # attributes of layouts and of the preference
# Attributes of operations, and their values.
_TRANSPOSES_FIRST, _TRANSPOSES_SECOND, _EPILOGUE, _BIAS_POINTER, _FAST_ACCUMULATION = 3, 4, 7, 8, 25
_TRANSPOSED, _GELU_BIAS = 1, 36


class _Proposal(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t"""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True)
class _Shape:
    """Problem C[batch, m, n] = A[batch, m, k] · B[batch, k, n], all row-major but for transposed operands."""

    batch: int
    m: int
    n: int
    k: int
    dtype: torch.dtype
    is_a_transposed: bool
    is_b_transposed: bool
    is_fast: bool
    has_bias: bool
    proposals: int


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    gelu_bias: torch.Tensor | None = None,
    is_fast: bool = False,
    proposals: int = _PROPOSALS,
) -> torch.Tensor:
    """GEMM by the fastest algorithm of so many `proposals` for these shapes. Raises RuntimeError if there is none.

    `gelu_bias`: the result is gelu(a * b + gelu_bias), with GELU by tanh; the bias has an element for each column.
    `is_fast`: float32 operands are rounded to tf32, and sums of 8-bit floats keep fewer bits."""
    *batch, m, k = a.shape
    transposed = _is_transposed(a), _is_transposed(b)
    has_bias = gelu_bias is not None
    shape = _Shape(batch[0] if batch else 1, m, b.shape[-1], k, a.dtype, *transposed, is_fast, has_bias, proposals)
    product = torch.empty((*batch, m, shape.n), dtype=_TYPES[a.dtype][4], device=a.device)
    _product(shape).run(a, b, product, gelu_bias)
    return product


def _is_transposed(matrix: torch.Tensor) -> bool:
    if matrix.is_contiguous():
        return False
    if not matrix.mT.is_contiguous():
        raise ValueError("takes contiguous matrices, and transposes of these")
    return True


@functools.cache
def _product(shape: _Shape) -> _Product:
    return _Product(shape)


class _Product:
    """cuBLASLt descriptors of one problem, and its best algorithm, selected at the first run. cuBLAS is column-major,
    so it computes the transposed GEMM Bᵀ·Aᵀ on the same memory."""

    def __init__(self, shape: _Shape) -> None:
        self._library, self._handle = _library()
        operand, result, scale, compute, _ = _TYPES[shape.dtype]
        if shape.is_fast and shape.dtype == torch.float32:
            compute = _COMPUTE_FAST_TF32
        scales = {_FLOAT: ctypes.c_float, _DOUBLE: ctypes.c_double, _INT32: ctypes.c_int32}[scale]
        self._alpha, self._beta = scales(1), scales(0)
        self._operation = self._made("cublasLtMatmulDescCreate", compute, scale)
        if shape.is_b_transposed:
            self._set("MatmulDesc", self._operation, _TRANSPOSES_FIRST, ctypes.c_int32(_TRANSPOSED))
        if shape.is_a_transposed:
            self._set("MatmulDesc", self._operation, _TRANSPOSES_SECOND, ctypes.c_int32(_TRANSPOSED))
        if shape.has_bias:
            self._set("MatmulDesc", self._operation, _EPILOGUE, ctypes.c_uint32(_GELU_BIAS))
        if shape.is_fast and shape.dtype == torch.float8_e4m3fn:
            self._set("MatmulDesc", self._operation, _FAST_ACCUMULATION, ctypes.c_int8(1))
        first, second = (shape.n, shape.k), (shape.k, shape.m)
        self._first = self._layout(operand, *(first[::-1] if shape.is_b_transposed else first), shape.batch)
        self._second = self._layout(operand, *(second[::-1] if shape.is_a_transposed else second), shape.batch)
        self._product = self._layout(result, shape.n, shape.m, shape.batch)
        self._workspace = _workspace()
        self._proposed = shape.proposals
        self._best: _Proposal | None = None

    def run(self, a: torch.Tensor, b: torch.Tensor, product: torch.Tensor, bias: torch.Tensor | None) -> None:
        if bias is not None:
            self._set("MatmulDesc", self._operation, _BIAS_POINTER, ctypes.c_void_p(bias.data_ptr()))
        if self._best is None:
            self._best = self._fastest(a, b, product, torch.zeros(_FLUSH_BYTES // 4, device="cuda"))
        self._launch(self._best, a, b, product)

    def _fastest(self, a: torch.Tensor, b: torch.Tensor, product: torch.Tensor, spare: torch.Tensor) -> _Proposal:
        """The fastest algorithm; `spare` is read to flush caches."""
        best: dict[int, float] = {}
        proposals = self._proposals()
        for _ in range(_ROUNDS):
            for number, proposal in enumerate(proposals):
                try:
                    self._launch(proposal, a, b, product)
                except RuntimeError:
                    continue  # proposed, but unsupported at this alignment
                runs = _RUNS if best.get(number, math.inf) < _MAX_MS_FOR_REPEATED_RUNS else 1
                time = self._milliseconds(proposal, (a, b, product), spare, runs)
                best[number] = min(best.get(number, math.inf), time)
        if not best:
            raise RuntimeError("cuBLASLt has no algorithm for this problem")
        return proposals[min(best, key=lambda number: best[number])]

    def _milliseconds(
        self, proposal: _Proposal, operands: tuple[torch.Tensor, ...], spare: torch.Tensor, runs: int
    ) -> float:
        """Sum of the time of a run with cold caches and of one back-to-back run, in milliseconds."""
        total = 0.0
        for count, is_cold in ((1, True), (runs, False)):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(_GATE_CYCLES)
            if is_cold:
                spare.sum()
            start.record()
            for _ in range(count):
                self._launch(proposal, *operands)
            end.record()
            end.synchronize()
            total += float(start.elapsed_time(end)) / count
        return total

    def _proposals(self) -> list[_Proposal]:
        preference = self._made("cublasLtMatmulPreferenceCreate")
        self._set("MatmulPreference", preference, _MAX_WORKSPACE, ctypes.c_uint64(_WORKSPACE_BYTES))
        proposals, count = (_Proposal * self._proposed)(), ctypes.c_int()
        layouts = (self._first, self._second, self._product, self._product)
        self._call(
            "cublasLtMatmulAlgoGetHeuristic",
            self._handle,
            self._operation,
            *layouts,
            preference,
            self._proposed,
            proposals,
            ctypes.byref(count),
        )
        self._call("cublasLtMatmulPreferenceDestroy", preference)
        return [proposal for proposal in proposals[: count.value] if proposal.state == 0]

    def _launch(self, proposal: _Proposal, a: torch.Tensor, b: torch.Tensor, product: torch.Tensor) -> None:
        address = ctypes.c_void_p(product.data_ptr())
        self._call(
            "cublasLtMatmul",
            self._handle,
            self._operation,
            ctypes.byref(self._alpha),
            ctypes.c_void_p(b.data_ptr()),
            self._first,
            ctypes.c_void_p(a.data_ptr()),
            self._second,
            ctypes.byref(self._beta),
            address,
            self._product,
            address,
            self._product,
            ctypes.byref(proposal.algorithm),
            ctypes.c_void_p(self._workspace.data_ptr()),
            ctypes.c_size_t(_WORKSPACE_BYTES),
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )

    def _layout(self, dtype: int, rows: int, columns: int, batch: int) -> ctypes.c_void_p:
        """Layout of a column-major matrix, or of a dense batch of them."""
        sizes = (ctypes.c_uint64(rows), ctypes.c_uint64(columns), ctypes.c_int64(rows))
        layout = self._made("cublasLtMatrixLayoutCreate", dtype, *sizes)
        if batch > 1:
            self._set("MatrixLayout", layout, _BATCH_COUNT, ctypes.c_int32(batch))
            self._set("MatrixLayout", layout, _BATCH_STRIDE, ctypes.c_int64(rows * columns))
        return layout

    def _made(self, function: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._call(function, ctypes.byref(made), *arguments)
        return made

    def _set(self, what: str, described: ctypes.c_void_p, attribute: int, value: ctypes._SimpleCData[Any]) -> None:
        size = ctypes.c_size_t(ctypes.sizeof(value))
        self._call(f"cublasLt{what}SetAttribute", described, attribute, ctypes.byref(value), size)

    def _call(self, function: str, *arguments: Any) -> None:
        if status := getattr(self._library, function)(*arguments):
            raise RuntimeError(f"{function} ended with status {status}")


@functools.cache
def _workspace() -> torch.Tensor:
    """Of all problems, which run on one stream."""
    return torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


@functools.cache
def _library() -> tuple[ctypes.CDLL, ctypes.c_void_p]:
    """cuBLASLt library of PyTorch, and a handle."""
    bundled = str(Path(torch.__file__).parents[1] / "nvidia" / "*" / "lib" / "libcublasLt.so.*")
    name = next(iter(glob.glob(bundled)), None) or ctypes.util.find_library("cublasLt")
    if name is None:
        raise RuntimeError("libcublasLt wasn't found")
    library, handle = ctypes.CDLL(name), ctypes.c_void_p()
    if status := library.cublasLtCreate(ctypes.byref(handle)):
        raise RuntimeError(f"cublasLtCreate ended with status {status}")
    return library, handle
