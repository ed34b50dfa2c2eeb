"""Losses: a mean over all elements, or over rows that are reduced first."""

from __future__ import annotations

from collections.abc import Iterator

from .operator import F32, I64, Operator

GROUP = "losses"
_F = "torch.nn.functional"

# The name, the value of an element of predictions p and targets t, and PyTorch's loss.
_ELEMENTS = (
    ("mean squared error", "(p[i, j] - t[i, j]) ** 2", f"{_F}.mse_loss(p, t)"),
    ("absolute error", "abs(p[i, j] - t[i, j])", f"{_F}.l1_loss(p, t)"),
    (
        "Huber loss",
        "0.5 * (p[i, j] - t[i, j]) ** 2 if abs(p[i, j] - t[i, j]) <= 0.3 else 0.3 * (abs(p[i, j] - t[i, j]) - 0.15)",
        f"{_F}.huber_loss(p, t, delta=0.3)",
    ),
    (
        "smooth absolute error",
        "where(abs(p[i, j] - t[i, j]) < 1, 0.5 * pow(p[i, j] - t[i, j], 2), abs(p[i, j] - t[i, j]) - 0.5)",
        f"{_F}.smooth_l1_loss(p, t)",
    ),
    ("hinge loss", "maximum(0, 1 - p[i, j] * t[i, j])", "torch.mean(torch.clamp(1 - p * t, min=0))"),
    ("squared hinge loss", "relu(1 - p[i, j] * t[i, j]) ** 2", "torch.mean(torch.clamp(1 - p * t, min=0) ** 2)"),
    (
        "binary cross-entropy of logits",
        "maximum(p[i, j], 0) - p[i, j] * t[i, j] + log1p(exp(-abs(p[i, j])))",
        f"{_F}.binary_cross_entropy_with_logits(p, t)",
    ),
    ("Poisson loss", "exp(p[i, j]) - t[i, j] * p[i, j]", f"{_F}.poisson_nll_loss(p, t)"),
    ("log cosh loss", "log(cosh(p[i, j] - t[i, j]))", "torch.log(torch.cosh(p - t)).mean()"),
    ("soft margin loss", "log(1 + exp(-p[i, j] * t[i, j]))", f"{_F}.soft_margin_loss(p, t)"),
)


def operators() -> Iterator[Operator]:
    arrays = {"p": f"[M, N] | {F32}", "t": f"[M, N] | {F32}", "loss": f"[] | {F32}"}
    for number, (name, value, peer) in enumerate(_ELEMENTS):
        sizes = {"M": 20_000, "N": 1001} if number % 2 else {"M": 2048, "N": 12_000}
        compiled = name == "Huber loss"
        yield Operator(f"{name} f32", GROUP, sizes, arrays, f"loss = mean({value}, i, j)", peer, is_compiled=compiled)
    yield from _rows()


def _rows() -> Iterator[Operator]:
    for rows, columns in ((6000, 5003), (100_000, 12)):
        yield Operator(
            f"cross-entropy f32 {rows}×{columns}", GROUP, {"B": rows, "C": columns},
            {"x": f"[B, C] | {F32}", "t": f"[B] | {I64}", "loss": f"[] | {F32}"},
            "top[b] = max(x[b, c], c)\n"
            "normaliser[b] = log(sum(exp(x[b, c] - top[b]), c)) + top[b]\n"
            "loss = mean(normaliser[b] - x[b, t[b]], b)",
            f"{_F}.cross_entropy(x, t)",
        )  # fmt: skip
    yield Operator(
        "KL divergence of logits f32", GROUP, {"B": 5000, "C": 4100},
        {"p": f"[B, C] | {F32}", "q": f"[B, C] | {F32}", "loss": f"[] | {F32}"},
        "lp[b, c] = log_softmax(p[b, c], c)\n"
        "lq[b, c] = log_softmax(q[b, c], c)\n"
        "loss = sum(exp(lq[b, c]) * (lq[b, c] - lp[b, c]), b, c) / B",
        f"{_F}.kl_div(torch.log_softmax(p, 1), torch.log_softmax(q, 1), reduction='batchmean', log_target=True)",
        is_compiled=True,
    )  # fmt: skip
    pair = {"a": f"[B, D] | {F32}", "b": f"[B, D] | {F32}"}
    cosine = (
        "similarity[i] = sum(a[i, d] * b[i, d], d)"
        " / (maximum(norm(a[i, d], d), 1e-8) * maximum(norm(b[i, d], d), 1e-8))\n"
    )
    yield Operator(
        "cosine similarity loss f32", GROUP, {"B": 9000, "D": 1500}, {**pair, "loss": f"[] | {F32}"},
        cosine + "loss = mean(1 - similarity[i], i)", f"torch.mean(1 - {_F}.cosine_similarity(a, b))",
    )  # fmt: skip
    yield Operator(
        "triplet margin loss f32", GROUP, {"B": 7000, "D": 1030},
        {"a": f"[B, D] | {F32}", "p": f"[B, D] | {F32}", "n": f"[B, D] | {F32}", "loss": f"[] | {F32}"},
        "near[i] = norm(a[i, d] - p[i, d] + 1e-6, d)\n"
        "far[i] = norm(a[i, d] - n[i, d] + 1e-6, d)\n"
        "loss = mean(relu(near[i] - far[i] + 1), i)",
        f"{_F}.triplet_margin_loss(a, p, n)",
    )  # fmt: skip
    yield Operator(
        "margin ranking loss f32", GROUP, {"N": 9_000_011},
        {"a": f"[N] | {F32}", "b": f"[N] | {F32}", "t": f"[N] | {F32}", "loss": f"[] | {F32}"},
        "loss = mean(maximum(0, -t[i] * (a[i] - b[i]) + 0.5), i)",
        f"{_F}.margin_ranking_loss(a, b, t, margin=0.5)",
    )  # fmt: skip
    yield Operator(
        "pairwise distances f32", GROUP, {"M": 3000, "N": 2500, "D": 65},
        {"a": f"[M, D] | {F32}", "b": f"[N, D] | {F32}", "y": f"[M, N] | {F32}"},
        "y[i, j] = sqrt(sum((a[i, d] - b[j, d]) ** 2, d))",
        "torch.cdist(a, b, compute_mode='donot_use_mm_for_euclid_dist')",
    )  # fmt: skip
