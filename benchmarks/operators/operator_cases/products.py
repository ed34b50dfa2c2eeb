"""GEMMs of matrices and tensors, structured operands, and vectors."""

from __future__ import annotations

from collections.abc import Iterator

from .operator import BF16, F16, F32, Operator

GROUP = "products"
_SHORT = {F32: "f32", F16: "f16", BF16: "bf16"}


def _gemm(name: str, m: int, n: int, k: int, dtype: str = F32, a: str = "m, k", b: str = "k, n") -> Operator:
    arrays = {
        "A": f"[{a.upper()}] | {dtype}",
        "B": f"[{b.upper()}] | {dtype}",
        "C": f"[M, N] | {dtype}",
    }
    left, right = "A" if a == "m, k" else "A.T", "B" if b == "k, n" else "B.T"
    compute = f"C[m, n] = sum(A[{a}] * B[{b}], k)"
    title = f"{name} {_SHORT[dtype]} {m}×{n}×{k}"
    return Operator(title, GROUP, {"M": m, "N": n, "K": k}, arrays, compute, f"torch.matmul({left}, {right})")


def operators() -> Iterator[Operator]:
    yield _gemm("square", 1920, 1920, 1920)
    yield _gemm("square", 2500, 2500, 2500)
    yield _gemm("odd sides", 3001, 1777, 1021)
    yield _gemm("tall", 40_000, 48, 48)
    yield _gemm("tall times wide", 6001, 6001, 24)
    yield _gemm("long K", 200, 300, 200_000)
    yield _gemm("small K", 9000, 9000, 20)
    yield _gemm("few rows", 5, 6000, 9000)
    yield _gemm("transposed A", 1800, 2200, 3000, a="k, m")
    yield _gemm("transposed B", 1800, 2200, 3000, b="n, k")
    yield _gemm("transposed both", 1800, 2200, 3000, a="k, m", b="n, k")
    for dtype in (BF16, F16):
        yield _gemm("square", 3072, 3072, 3072, dtype)
        yield _gemm("transposed B", 2056, 5000, 1304, dtype, b="n, k")
        yield _gemm("odd sides", 1999, 1501, 1003, dtype)
    yield from _batches()
    yield from _tensors()
    yield from _structured()
    yield from _vectors()


def _batches() -> Iterator[Operator]:
    for batch, m, n, k in ((50, 300, 500, 200), (900, 33, 65, 17), (7, 1025, 1025, 255)):
        yield Operator(
            f"batched f32 {batch} of {m}×{n}×{k}", GROUP, {"B": batch, "M": m, "N": n, "K": k},
            {"A": f"[B, M, K] | {F32}", "D": f"[B, K, N] | {F32}", "C": f"[B, M, N] | {F32}"},
            "C[b, m, n] = sum(A[b, m, k] * D[b, k, n], k)", "torch.bmm(A, D)",
        )  # fmt: skip
    yield Operator(
        "attention scores bf16", GROUP, {"B": 6, "H": 20, "S": 1000, "D": 72},
        {"q": f"[B, H, S, D] | {BF16}", "k": f"[B, H, S, D] | {BF16}", "y": f"[B, H, S, S] | {BF16}"},
        "y[b, h, i, j] = sum(q[b, h, i, d] * k[b, h, j, d], d) * 0.25",
        "torch.matmul(q, k.transpose(2, 3)) * 0.25",
    )  # fmt: skip


def _tensors() -> Iterator[Operator]:
    yield Operator(
        "tensor of 3 axes by a matrix f32", GROUP, {"N": 12, "M": 700, "K": 1500, "L": 600},
        {"A": f"[N, M, K] | {F32}", "B": f"[K, L] | {F32}", "C": f"[N, M, L] | {F32}"},
        "C[n, m, l] = sum(A[n, m, k] * B[k, l], k)", "torch.matmul(A, B)",
    )  # fmt: skip
    yield Operator(
        "tensor of 4 axes by a matrix f32", GROUP, {"N": 5, "I": 100, "J": 210, "L": 200, "K": 500},
        {"A": f"[N, I, J, L] | {F32}", "B": f"[L, K] | {F32}", "C": f"[N, I, J, K] | {F32}"},
        "C[n, i, j, k] = sum(A[n, i, j, l] * B[l, k], l)", "torch.einsum('nijl,lk->nijk', A, B)",
    )  # fmt: skip
    yield Operator(
        "matrix by a tensor of 3 axes f32", GROUP, {"N": 15, "M": 400, "K": 600, "L": 900},
        {"A": f"[M, K] | {F32}", "B": f"[N, K, L] | {F32}", "C": f"[N, M, L] | {F32}"},
        "C[n, m, l] = sum(A[m, k] * B[n, k, l], k)", "torch.matmul(A, B)",
    )  # fmt: skip
    yield Operator(
        "two axes summed f32", GROUP, {"N": 900, "I": 30, "J": 70, "K": 800},
        {"A": f"[N, I, J] | {F32}", "B": f"[I, J, K] | {F32}", "C": f"[N, K] | {F32}"},
        "C[n, k] = sum(A[n, i, j] * B[i, j, k], i, j)", "torch.tensordot(A, B, 2)",
    )  # fmt: skip
    yield Operator(
        "heads joined by a projection f32", GROUP, {"B": 4, "H": 12, "S": 900, "D": 60, "E": 700},
        {"x": f"[B, H, S, D] | {F32}", "w": f"[H, D, E] | {F32}", "y": f"[B, S, E] | {F32}"},
        "y[b, s, e] = sum(x[b, h, s, d] * w[h, d, e], h, d)", "torch.einsum('bhsd,hde->bse', x, w)",
    )  # fmt: skip
    yield Operator(
        "bilinear form f32", GROUP, {"B": 700, "I": 90, "J": 110, "O": 40},
        {"x": f"[B, I] | {F32}", "z": f"[B, J] | {F32}", "w": f"[O, I, J] | {F32}", "y": f"[B, O] | {F32}"},
        "y[b, o] = sum(x[b, i] * w[o, i, j] * z[b, j], i, j)", "torch.nn.functional.bilinear(x, z, w)",
    )  # fmt: skip


def _structured() -> Iterator[Operator]:
    square = {"A": f"[N, N] | {F32}", "B": f"[N, N] | {F32}", "C": f"[N, N] | {F32}"}
    yield Operator(
        "diagonal times a matrix f32", GROUP, {"N": 5000, "M": 4500},
        {"a": f"[N] | {F32}", "B": f"[N, M] | {F32}", "C": f"[N, M] | {F32}"},
        "C[i, j] = a[i] * B[i, j]", "torch.diag(a) @ B",
    )  # fmt: skip
    yield Operator(
        "lower triangles f32", GROUP, {"N": 1700}, square,
        "C[i, j] = sum(A[i, k] * B[k, j], k, where=k <= i and j <= k)",
        "torch.matmul(torch.tril(A), torch.tril(B))",
    )  # fmt: skip
    yield Operator(
        "upper triangles f32", GROUP, {"N": 1700}, square,
        "C[i, j] = where(i <= j, sum(A[i, k] * B[k, j], k, where=i <= k and k <= j), 0)",
        "torch.triu(torch.matmul(torch.triu(A), torch.triu(B)))",
    )  # fmt: skip
    yield Operator(
        "symmetric operand f32", GROUP, {"N": 1900}, square,
        "C[i, j] = sum((A[i, k] if k <= i else A[k, i]) * B[k, j], k)",
        "torch.matmul(torch.tril(A) + torch.tril(A, -1).T, B)",
    )  # fmt: skip
    yield Operator(
        "Gram matrix f32", GROUP, {"M": 3000, "N": 900}, {"A": f"[M, N] | {F32}", "C": f"[N, N] | {F32}"},
        "C[i, j] = sum(A[k, i] * A[k, j], k)", "torch.matmul(A.T, A)",
    )  # fmt: skip


def _vectors() -> Iterator[Operator]:
    yield Operator(
        "matrix by a vector f32", GROUP, {"M": 700, "K": 70_001},
        {"A": f"[M, K] | {F32}", "x": f"[K] | {F32}", "y": f"[M] | {F32}"},
        "y[m] = sum(A[m, k] * x[k], k)", "torch.mv(A, x)",
    )  # fmt: skip
    yield Operator(
        "matrix by a column f32", GROUP, {"M": 9000, "K": 3001},
        {"A": f"[M, K] | {F32}", "B": f"[K, 1] | {F32}", "C": f"[M, 1] | {F32}"},
        "C[m, n] = sum(A[m, k] * B[k, n], k)", "torch.matmul(A, B)",
    )  # fmt: skip
    yield Operator(
        "outer product f32", GROUP, {"M": 6001, "N": 5000},
        {"a": f"[M] | {F32}", "b": f"[N] | {F32}", "y": f"[M, N] | {F32}"}, "y[i, j] = a[i] * b[j]",
        "torch.outer(a, b)",
    )  # fmt: skip
