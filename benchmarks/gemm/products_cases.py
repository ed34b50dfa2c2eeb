"""Cases of `products.py`: GEMMs of common shapes, as a user would write them."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.timing.cases import Case, Goal, spec_text
from cugen.bench.peers import Called

F32, F64 = "float32", "float64"
_SHORT = {F32: "f32", F64: "f64"}
CUBLASLT = Called("torch", "cublasLt", "import cublaslt\n\n\ndef peer(A, B):\n    return (cublaslt.matmul(A, B),)\n")
_TRITON = Called(
    "torch", "triton", "import triton_matmul\n\n\ndef peer(A, B):\n    return (triton_matmul.matmul(A, B),)\n"
)

TUNED = (
    *(f"f32 {side}³" for side in (256, 512, 1024, 2048)),
    "f32 4096×4096×64",
    "f32 64×4096×4096",
    "f32 1×2112×7168",
    "f32 1×24576×1536",
    "f32 1×4096×7168",
    "f32 1×7168×2048",
    "f32 64×576×7168",
    "f32 64×32768×512",
    "f32 64×4096×7168",
    "f32 64×7168×2048",
    "f32 128×2112×7168",
    "f32 128×576×7168",
    "f32 128×4096×7168",
    "f32 16 of 512³",
)

LAYERS = ((2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048))  # N, K
TOKENS = (1, 8, 64, 128, 4096)  # M


def tuned() -> tuple[Case, ...]:
    """Cases tuned by `tune_products.py`; the others use the generator's choice."""
    return tuple(case for case in cases() if case.name in TUNED)


def cases() -> tuple[Case, ...]:
    """All cases, in the order of the page."""
    parts = (_squares(), _odd(), _waves(), _skinny(), _layers(), _doubles(), _batches())
    listed = tuple(case for part in parts for case in part)
    assert len({case.name for case in listed}) == len(listed)
    return listed


def _goals(must: float, moonshot: float | None = None, warm: float | None = None) -> tuple[Goal, ...]:
    """Goals against the faster of cuBLAS through PyTorch and the best cuBLASLt algorithm."""
    cold = (Goal("cublas", must, moonshot),)
    return cold if warm is None else (*cold, Goal("cublas", warm, None, "warm"))


def _product(
    group: str, m: int, n: int, k: int, goals: tuple[Goal, ...], dtype: str = F32, *, everybody: bool = False
) -> Case:
    arrays = {"A": f"[M, K] | {dtype}", "B": f"[K, N] | {dtype}", "C": f"[M, N] | {dtype}"}
    sides = f"{m}" if m == n == k else f"{m}_{n}_{k}"
    kernel = f"product_{sides}" if dtype == F32 else f"product_{_SHORT[dtype]}_{sides}"
    text = spec_text(kernel, {"M": m, "N": n, "K": k}, arrays, "C[m, n] = sum(A[m, k] * B[k, n], k)")
    size = f"{m}³" if m == n == k else f"{m}×{n}×{k}"
    against = ("torch", "cupy") if everybody else ("torch",)
    called = (CUBLASLT, _TRITON) if everybody and dtype == F32 else (CUBLASLT,)
    return Case(f"{_SHORT[dtype]} {size}", group, text, goals, against=against, called=called)


def _squares() -> Iterator[Case]:
    goals = {
        256: _goals(1.45, 1.8),
        512: _goals(1.45, 1.8),
        1024: _goals(1.30, 1.45, warm=1.20),
        2048: _goals(1.08, 1.12),
        4096: _goals(1.08, 1.12),
        8192: _goals(1.08, 1.12),
    }
    for side, case_goals in goals.items():
        yield _product("squares", side, side, side, case_goals, everybody=True)


def _odd() -> Iterator[Case]:
    near = _goals(1.20, 1.4, warm=1.07)
    yield _product("odd", 1000, 777, 513, near, everybody=True)
    yield _product("odd", 1023, 1023, 1023, near)
    yield _product("odd", 4095, 4095, 4095, ())


def _waves() -> Iterator[Case]:
    yield _product("odd waves", 3456, 4096, 4096, _goals(1.11, 1.18))
    yield _product("odd waves", 1152, 7680, 8192, _goals(1.11, 1.18))


def _skinny() -> Iterator[Case]:
    yield _product("one short side", 4096, 4096, 64, _goals(1.35, 1.6), everybody=True)
    yield _product("one short side", 64, 4096, 4096, _goals(1.12, 1.25))
    yield _product("one short side", 128, 7168, 2048, _goals(1.06, 1.3))


def _layers() -> Iterator[Case]:
    """Linear layers of a large language model, for few and many tokens."""
    for n, k in LAYERS:
        for m in TOKENS:
            if (m, n, k) != (128, 7168, 2048):
                yield _product("linear layers", m, n, k, _goals(1.12, 1.25) if m == 64 else ())


def _doubles() -> Iterator[Case]:
    goals = {512: (), 1024: (), 4096: _goals(0.95, 1.02), 8192: ()}
    for side, case_goals in goals.items():
        yield _product("float64", side, side, side, case_goals, F64)


def _batches() -> Iterator[Case]:
    for batch, side in ((8, 128), (16, 512), (10_000, 16)):
        shape = "[B, N, N] | float32"
        compute = "C[b, m, n] = sum(A[b, m, k] * D[b, k, n], k)"
        arrays = {"A": shape, "D": shape, "C": shape}
        text = spec_text(f"products_{batch}_of_{side}", {"B": batch, "N": side}, arrays, compute)
        called = Called(
            "torch", "cublasLt", "import cublaslt\n\n\ndef peer(A, D):\n    return (cublaslt.matmul(A, D),)\n"
        )
        case = f"f32 {batch} of {side}³"
        yield Case(case, "batches", text, _goals(1.2, 3.0), against=("torch", "cupy"), called=(called,))
