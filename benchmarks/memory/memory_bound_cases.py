"""Cases of `memory_bound.py`: specs as a user would write them, with peers and goals."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.timing.cases import Case, Goal, spec_text

F32, BF16, F16, I8, I32 = "float32", "bfloat16", "float16", "int8", "int32"
_SHORT = {F32: "f32", BF16: "bf16", F16: "f16", I8: "int8", I32: "int32"}


def cases() -> tuple[Case, ...]:
    """All cases, in the order of the page."""
    parts = (_streams(), _broadcasts(), _moves(), _reductions(), _rows(), _scans(), _products(), _stencils())
    listed = tuple(case for part in parts for case in part)
    assert len({case.name for case in listed}) == len(listed)
    return listed


def _size(count: int) -> str:
    return f"2^{count.bit_length() - 1}" if count & (count - 1) == 0 else str(count)


def _streams() -> Iterator[Case]:
    group, copied = "copy and elementwise", (Goal("ceiling", 0.98), Goal("torch", None, 1.05))
    fused = (Goal("ceiling", 0.98),)
    everybody = ("torch", "triton", "cupy")
    for count in (1 << 28, 1 << 22, 1 << 16):
        goals = count == 1 << 28
        arrays = {"x": "[N] | float32", "y": "[N] | float32"}
        text = spec_text("copy", {"N": count}, arrays, "y[i] = x[i]")
        yield Case(f"copy f32 {_size(count)}", group, text, copied * goals, against=everybody)
    for dtype in (F32, BF16):
        arrays = dict.fromkeys(("a", "b", "c", "y"), f"[N] | {dtype}")
        text = spec_text("scale_add_relu", {"N": 1 << 28}, arrays, "y[i] = relu(a[i] * b[i] + 2 * c[i])")
        yield Case(f"relu(a·b + 2c) {_SHORT[dtype]} 2^28", group, text, fused)
        arrays = dict.fromkeys(("x", "y"), f"[N] | {dtype}")
        text = spec_text("gelu_tanh_chain", {"N": 1 << 28}, arrays, "y[i] = gelu_tanh(x[i])")
        peer = 'torch.nn.functional.gelu(x, approximate="tanh")'
        yield Case(f"gelu_tanh {_SHORT[dtype]} 2^28", group, text, fused, peer)


def _broadcasts() -> Iterator[Case]:
    goals = (Goal("torch.compile", 1.0), Goal("torch", None, 3.0))
    for rows, dtype in ((32768, F32), (32768, BF16), (64, F32)):
        arrays = {"x": f"[M, N] | {dtype}", "bias": f"[N] | {dtype}", "y": f"[M, N] | {dtype}"}
        text = spec_text(
            "bias_gelu", {"M": rows, "N": 8192 if rows > 64 else 1024}, arrays, "y[i, j] = gelu(x[i, j] + bias[j])"
        )
        size = f"{rows}×{8192 if rows > 64 else 1024}"
        peer = "torch.nn.functional.gelu(x + bias)"
        yield Case(f"bias + gelu {_SHORT[dtype]} {size}", "broadcast", text, goals * (rows > 64), peer)


def _moves() -> Iterator[Case]:
    goals = (Goal("ceiling", 0.92, 0.97),)
    for rows, columns in ((8192, 8192), (32768, 32768), (8191, 4097), (256, 256)):
        for dtype in (F32, F16, I8):
            if rows == 256 and dtype != F32:
                continue
            arrays = {"x": f"[M, N] | {dtype}", "y": f"[N, M] | {dtype}"}
            text = spec_text("transpose", {"M": rows, "N": columns}, arrays, "y[j, i] = x[i, j]")
            against = ("torch", "cupy") if dtype == F32 else ("torch",)
            name = f"transpose {_SHORT[dtype]} {rows}×{columns}"
            yield Case(name, "transpose and permute", text, goals * (rows > 256), against=against)
    arrays = {"x": "[N, C, H, W] | float32", "y": "[N, H, W, C] | float32"}
    text = spec_text(
        "to_channels_last", {"N": 32, "C": 64, "H": 256, "W": 512}, arrays, "y[n, h, w, c] = x[n, c, h, w]"
    )
    yield Case("NCHW to NHWC f32 32×64×256×512", "transpose and permute", text, goals, against=("torch",))
    arrays = {"x": "[B, S, H, D] | float16", "y": "[B, H, S, D] | float16"}
    text = spec_text("swap_heads", {"B": 16, "S": 4096, "H": 32, "D": 128}, arrays, "y[b, h, s, d] = x[b, s, h, d]")
    yield Case("BSHD to BHSD f16 16×4096×32×128", "transpose and permute", text, goals, against=("torch",))


def _reductions() -> Iterator[Case]:
    goals = (Goal("ceiling", 0.95, 0.98),)
    everybody = ("torch", "cupy")
    for count in (1 << 30, 1 << 28, 1 << 24, 1 << 20, 1 << 16):
        case_goals = goals * (count >= 1 << 28)
        side = 1 << (count.bit_length() - 1) // 2
        text = spec_text(
            "full_sum", {"N": count}, {"x": "[N] | float32", "total": "[] | float32"}, "total = sum(x[i], i)"
        )
        yield Case(f"full sum f32 {_size(count)}", "reductions", text, case_goals, against=everybody)
        arrays = {"x": "[M, N] | float32", "y": "[M] | float32"}
        text = spec_text("row_sum", {"M": count // side, "N": side}, arrays, "y[i] = sum(x[i, j], j)")
        yield Case(f"row sum f32 {count // side}×{side}", "reductions", text, case_goals, against=everybody)
        arrays = {"x": "[M, N] | float32", "y": "[N] | float32"}
        text = spec_text("column_sum", {"M": count // side, "N": side}, arrays, "y[j] = sum(x[i, j], i)")
        yield Case(f"column sum f32 {count // side}×{side}", "reductions", text, case_goals, against=everybody)
    text = spec_text(
        "full_max", {"N": 1 << 28}, {"x": "[N] | bfloat16", "most": "[] | bfloat16"}, "most = max(x[i], i)"
    )
    yield Case("full max bf16 2^28", "reductions", text, goals, against=("torch",))
    for rows, columns in ((8192, 32768), (262144, 1024), (64, 1024)):
        arrays = {"x": "[M, N] | float32", "best": "[M] | int64"}
        text = spec_text("row_argmax", {"M": rows, "N": columns}, arrays, "best[i] = argmax(x[i, j], j)")
        yield Case(f"argmax f32 {rows}×{columns}", "reductions", text, goals * (rows > 64), against=("torch", "triton"))


_NORMS = {
    "softmax": ("y[i, j] = softmax(x[i, j], j)", "torch.softmax(x, 1)"),
    "log_softmax": ("y[i, j] = log_softmax(x[i, j], j)", "torch.log_softmax(x, 1)"),
    "layer_norm": (
        "mu[i] = mean(x[i, j], j)\nscale[i] = rsqrt(var(x[i, j], j) + 1e-5)\n"
        "y[i, j] = (x[i, j] - mu[i]) * scale[i] * gamma[j] + beta[j]",
        "torch.nn.functional.layer_norm(x, (x.shape[1],), gamma, beta, 1e-5)",
    ),
    "rms_norm": (
        "scale[i] = rsqrt(mean(x[i, j] * x[i, j], j) + 1e-6)\ny[i, j] = x[i, j] * scale[i] * gamma[j]",
        "torch.nn.functional.rms_norm(x, (x.shape[1],), gamma, 1e-6)",
    ),
}


def _rows() -> Iterator[Case]:
    few, all_lengths = (256, 4096, 32768, 131072), (256, 1024, 4096, 16384, 32768, 65536, 131072)
    for name, (compute, peer) in _NORMS.items():
        for dtype in (F32, BF16):
            for columns in all_lengths if (name, dtype) == ("softmax", F32) else few:
                yield _row(name, compute, peer, dtype, (1 << 28) // columns, columns, has_goals=True)
        yield _row(name, compute, peer, F32, 64, 1024, has_goals=False)


def _row(name: str, compute: str, peer: str, dtype: str, rows: int, columns: int, *, has_goals: bool) -> Case:
    goals = (Goal("ceiling", 0.92, 0.97), Goal("torch", 1.4))
    if columns > 32768:
        goals = (*goals, Goal("torch.compile", None, 1.6))
    vectors = [vector for vector in ("gamma", "beta") if vector in compute]
    arrays = {"x": f"[M, N] | {dtype}", **dict.fromkeys(vectors, f"[N] | {dtype}"), "y": f"[M, N] | {dtype}"}
    text = spec_text(name, {"M": rows, "N": columns}, arrays, compute)
    return Case(f"{name} {_SHORT[dtype]} {rows}×{columns}", "softmax and norms", text, goals * has_goals, peer)


def _scans() -> Iterator[Case]:
    goals = (Goal("torch", 5.0, 12.0),)
    for rows, columns in ((8192, 32768), (262144, 1024), (64, 1024)):
        arrays = {"x": "[M, N] | float32", "y": "[M, N] | float32"}
        text = spec_text("row_scan", {"M": rows, "N": columns}, arrays, "y[i, j] = cumsum(x[i, j], j)")
        yield Case(f"row cumsum f32 {rows}×{columns}", "row scan", text, goals * (rows > 64), against=("torch", "cupy"))
    for count in (1 << 28, 1 << 24, 1 << 20, 1 << 16):
        for dtype in (I32, F32):
            arrays = {"x": f"[N] | {dtype}", "y": f"[N] | {dtype}"}
            text = spec_text("device_scan", {"N": count}, arrays, "y[i] = cumsum(x[i], i)")
            case_goals = (Goal("ceiling", 0.80, 0.92),) * (count == 1 << 28 and dtype == I32)
            yield Case(
                f"cumsum {_SHORT[dtype]} {_size(count)}", "device scan", text, case_goals, against=("torch", "cupy")
            )


def _products() -> Iterator[Case]:
    goals = (Goal("ceiling", 0.88, 0.93),)
    for side, dtype in ((16384, F32), (16384, BF16), (4096, F32), (256, F32)):
        arrays = {"A": f"[M, K] | {dtype}", "x": f"[K] | {dtype}", "y": f"[M] | {dtype}"}
        text = spec_text("gemv", {"M": side, "K": side}, arrays, "y[i] = sum(A[i, k] * x[k], k)")
        yield Case(f"A·x {_SHORT[dtype]} {side}²", "gemv", text, goals * (side == 16384), against=("torch",))
        arrays = {"A": f"[K, M] | {dtype}", "x": f"[K] | {dtype}", "y": f"[M] | {dtype}"}
        text = spec_text("gemv_transposed", {"M": side, "K": side}, arrays, "y[i] = sum(A[k, i] * x[k], k)")
        yield Case(f"Aᵀ·x {_SHORT[dtype]} {side}²", "gemv", text, goals * (side == 16384), against=("torch",))


def _stencils() -> Iterator[Case]:
    group, goals = "stencils and convolutions", (Goal("ceiling", 0.85, 0.95),)
    for side in (16384, 256):
        arrays = {"u": "[H, W] | float32 | boundary: zero", "v": "[H, W] | float32"}
        compute = "v[y, x] = 0.25 * (u[y - 1, x] + u[y + 1, x] + u[y, x - 1] + u[y, x + 1])"
        text = spec_text("jacobi", {"H": side, "W": side}, arrays, compute)
        yield Case(f"5 points f32 {side}²", group, text, goals * (side > 256))
    binomial = [1, 4, 6, 4, 1]
    taps = [[a * b / 256 for b in binomial] for a in binomial]
    for height, width in ((16384, 16384), (2160, 3840)):
        arrays = {
            "image": "[H, W] | float32 | boundary: clamp",
            "taps": f"[5, 5] | float32 | values: {taps}",
            "blurred": "[H, W] | float32",
        }
        compute = "blurred[y, x] = sum(taps[r, s] * image[y + r - 2, x + s - 2], r, s)"
        text = spec_text("blur5x5", {"H": height, "W": width}, arrays, compute)
        yield Case(f"blur 5×5 f32 {height}×{width}", group, text, goals)
    for side in (512, 64):
        arrays = {"u": "[X, Y, Z] | float32 | boundary: zero", "v": "[X, Y, Z] | float32"}
        compute = (
            "around[x, y, z] = (u[x - 1, y, z] + u[x + 1, y, z] + u[x, y - 1, z] + u[x, y + 1, z]"
            " + u[x, y, z - 1] + u[x, y, z + 1])\n"
            "v[x, y, z] = u[x, y, z] + 0.1 * (around[x, y, z] - 6 * u[x, y, z])"
        )
        text = spec_text("heat", {"X": side, "Y": side, "Z": side}, arrays, compute)
        yield Case(f"7 points f32 {side}³", group, text, goals * (side > 64))
    for count in (3, 7, 15, 31):
        yield Case(f"separable {count}+{count} taps f32 8×2160×3840", group, _separable(count), goals)
    arrays = {"x": "[N, C, H, W] | float32", "y": "[N, C, P, Q] | float32"}
    sizes = {"N": 32, "C": 64, "H": 256, "W": 256, "P": 128, "Q": 128}
    compute = "y[n, c, p, q] = max(x[n, c, 2 * p + r, 2 * q + s], r, s)"
    text = spec_text("max_pool", sizes, arrays, compute, "indices: {r: 2, s: 2}")
    yield Case("max-pool 2×2 f32 32×64×256²", group, text, goals)
    arrays = {"x": "[N, C, H, W] | float32 | boundary: -inf", "y": "[N, C, P, Q] | float32"}
    arrays["x"] = "[N, C, H, W] | float32 | boundary: {value: -inf}"
    compute = "y[n, c, p, q] = max(x[n, c, 2 * p + r - 1, 2 * q + s - 1], r, s)"
    text = spec_text("max_pool3", sizes, arrays, compute, "indices: {r: 3, s: 3}")
    yield Case("max-pool 3×3 by 2 f32 32×64×256²", group, text, goals)
    for images, dtype in ((32, F32), (32, F16), (1, F32)):
        arrays = {
            "x": f"[N, C, H, W] | {dtype} | boundary: zero",
            "w": f"[C, 3, 3] | {dtype}",
            "y": f"[N, C, H, W] | {dtype}",
        }
        compute = "y[n, c, p, q] = sum(w[c, r, s] * x[n, c, p + r - 1, q + s - 1], r, s)"
        side = 128 if images > 1 else 32
        text = spec_text(
            "depthwise", {"N": images, "C": 256 if images > 1 else 64, "H": side, "W": side}, arrays, compute
        )
        name = f"depthwise 3×3 {_SHORT[dtype]} {images}×{256 if images > 1 else 64}×{side}²"
        yield Case(name, group, text, goals * (images > 1))


def _separable(count: int) -> str:
    """Separable filter, rows then columns, of images padded by the caller."""
    weights = [round(1 / count, 6)] * count
    arrays = {
        "image": "[B, H + T - 1, W + T - 1] | float32",
        "taps": f"[T] | float32 | values: {weights}",
        "blurred": "[B, H, W] | float32",
    }
    compute = (
        "rows[b, v, x] = sum(taps[s] * image[b, v, x + s], s)\nblurred[b, y, x] = sum(taps[r] * rows[b, y + r, x], r)"
    )
    sizes = {"B": 8, "H": 2160, "W": 3840, "T": count}
    return spec_text(f"separable{count}", sizes, arrays, compute, "indices: {x: W, v: H + T - 1}")
