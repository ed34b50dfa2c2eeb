"""Dialects of PyTorch, and of NumPy and CuPy: their functions for the operations of the language."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cugen.spec.types import DType


class NoPeer(Exception):
    """A library has no usual way to express a statement, with the reason."""


# `{0}` and `{1}` are the operands.
SIGNS: Mapping[str, str] = {
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "floordiv": "{0} // {1}",
    "mod": "{0} % {1}",
    "pow": "{0} ** {1}",
    "eq": "{0} == {1}",
    "ne": "{0} != {1}",
    "lt": "{0} < {1}",
    "le": "{0} <= {1}",
    "gt": "{0} > {1}",
    "ge": "{0} >= {1}",
    "and": "{0} & {1}",
    "or": "{0} | {1}",
    "bitand": "{0} & {1}",
    "bitor": "{0} | {1}",
    "bitxor": "{0} ^ {1}",
    "shl": "{0} << {1}",
    "shr": "{0} >> {1}",
    "neg": "-{0}",
    "not": "~{0}",
    "invert": "~{0}",
    "fma": "{0} * {1} + {2}",
}
_COMMON = [
    "abs",
    "sign",
    "floor",
    "ceil",
    "round",
    "trunc",
    "sqrt",
    "exp",
    "exp2",
    "expm1",
    "log",
    "log2",
    "log10",
    "log1p",
    "sin",
    "cos",
    "tan",
    "sinh",
    "cosh",
    "tanh",
]
_TORCH = ["rsqrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "atan2", "erf", "erfc", "lgamma"]
_NUMPY = {name: f"arc{name.removeprefix('a')}" for name in ["asin", "acos", "atan", "asinh", "acosh", "atanh"]}


@dataclass(frozen=True)
class Torch:
    """Dialect of PyTorch."""

    module: str = "torch"
    has_convolutions: bool = True
    flips_by_views: bool = False

    def operator(self, name: str, operands: Sequence[str], literal: Sequence[bool]) -> str:
        """Text of an operator or function. `literal`: which operands are Python numbers."""
        if name in SIGNS:
            return SIGNS[name].format(*operands)
        if name in ("maximum", "minimum") and any(literal):
            array, number = operands if literal[1] else operands[::-1]
            return f"torch.clamp({array}, {'min' if name == 'maximum' else 'max'}={number})"
        if name in (*_COMMON, *_TORCH, "maximum", "minimum"):
            return f"torch.{name}({', '.join(operands)})"
        raise NoPeer(f"PyTorch has no {name}")

    def dtype(self, dtype: DType) -> str:
        return f"torch.{ {'float8_e4m3': 'float8_e4m3fn'}.get(dtype.name, dtype.name) }"

    def cast(self, text: str, dtype: DType) -> str:
        return f"{text}.to({self.dtype(dtype)})"

    def permute(self, text: str, order: Sequence[int]) -> str:
        return f"{text}.permute({', '.join(map(str, order))})"

    def dense(self, text: str) -> str:
        return f"{text}.contiguous()"

    def expand(self, text: str, shape: Sequence[int]) -> str:
        return f"{text}.expand({', '.join(map(str, shape))})"

    def reduce(self, kind: str, text: str, axes: Sequence[int], dtype: DType, rank: int) -> str:
        """Text of a reduction. `dtype`: accumulator type of sums and products. `rank`: number of dimensions of the
        operand."""
        where = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        match kind:
            case "sum":
                return f"torch.sum({text}, {where}, dtype={self.dtype(dtype)})"
            case "max" | "min":
                return f"torch.a{kind}({text}, {where})"
            case "any" | "all":
                return f"torch.{kind}({text}, {where})"
            case "argmax" | "argmin":
                return f"torch.{kind}({text}, {where})"
            case "prod" if len(axes) == 1 or len(axes) == rank:
                return f"torch.prod({text}{f', {where}' if len(axes) == 1 else ''}, dtype={self.dtype(dtype)})"
        raise NoPeer(f"PyTorch has no {kind} over {len(axes)} of {rank} dimensions")

    def scan(self, kind: str, text: str, axis: int, dtype: DType) -> str:
        if kind in ("max", "min"):
            return f"torch.cum{kind}({text}, {axis}).values"
        return f"torch.cum{kind}({text}, {axis}, dtype={self.dtype(dtype)})"

    def flip(self, text: str, axis: int) -> str:
        return f"torch.flip({text}, ({axis},))"

    def where(self, condition: str, then: str, orelse: str) -> str:
        return f"torch.where({condition}, {then}, {orelse})"

    def arange(self, extent: int, device: str) -> str:
        return f"torch.arange({extent}, device={device!r})"

    def copy(self, text: str) -> str:
        return f"{text}.clone(memory_format=torch.contiguous_format)"

    def softmax(self, text: str, axis: int, *, log: bool) -> str | None:
        return f"torch.{'log_' * log}softmax({text}, {axis})"

    def contraction(self, axes: Sequence[Sequence[str]], out: Sequence[str], texts: Sequence[str]) -> str:
        """Text of a contraction over all indices that `out` lacks."""
        if len(texts) == 2 and len(out) == 1:
            (matrix, long), (vector, short) = sorted(zip(texts, axes, strict=True), key=lambda t: -len(t[1]))
            if len(long) == 2 and list(short) == [index for index in long if index != out[0]]:
                return f"torch.mv({matrix if long[0] == out[0] else f'{matrix}.t()'}, {vector})"
        if len(texts) == 2 and not out and len(axes[0]) == 1:
            return f"torch.dot({texts[0]}, {texts[1]})"
        if (product := self._product(axes, out, texts)) is not None:
            return product
        return f"torch.einsum({einsum_letters(axes, out)!r}, {', '.join(texts)})"

    def _product(self, axes: Sequence[Sequence[str]], out: Sequence[str], texts: Sequence[str]) -> str | None:
        """Text of a plain or batched matrix multiplication; None if it is none."""
        if len(texts) != 2 or len(out) not in (2, 3) or any(len(operand_axes) != len(out) for operand_axes in axes):
            return None
        *batch, m, n = out
        inner = [name for name in axes[0] if name not in out]
        operands = []
        for operand_axes, text, order in zip(axes, texts, ((*batch, m, *inner), (*batch, *inner, n)), strict=True):
            if set(operand_axes) != set(order):
                return None
            positions = [list(operand_axes).index(name) for name in order]
            permuted = f"{text}.mT" if positions[-2:] == [len(out) - 1, len(out) - 2] else self.permute(text, positions)
            operands.append(text if positions == sorted(positions) else permuted)
        return f"torch.matmul({', '.join(operands)})"

    def pad(self, text: str, widths: Sequence[tuple[int, int]], mode: str, value: float | int | bool) -> str:
        """Text of a padded array. `mode`: zero, value, clamp, wrap or reflect."""
        first = next(i for i, width in enumerate(widths) if width != (0, 0))
        flat = ", ".join(f"{low}, {high}" for low, high in reversed(widths[first:]))
        pad = "torch.nn.functional.pad"
        if mode in ("zero", "value"):
            return f"{pad}({text}, ({flat})" + (f", value={number(value)})" if value else ")")
        if mode == "symmetric":
            raise NoPeer("PyTorch has no padding that repeats the edge in mirroring")
        name = {"clamp": "replicate", "wrap": "circular", "reflect": "reflect"}[mode]
        if len(widths) - first > 3 or first > 2:
            raise NoPeer(f"PyTorch pads the last three dimensions at most by `{name}`")
        # `pad` expects two leading dimensions, batch and channels.
        added, dropped = ", ".join(["None"] * (2 - first)), ", ".join(["0"] * (2 - first))
        before, after = (f"[{added}]", f"[{dropped}]") if added else ("", "")
        return f"{pad}({text}{before}, ({flat}), mode={name!r}){after}"


@dataclass(frozen=True)
class NumPy:
    """Dialect of a module with NumPy's functions: `numpy` or `cupy`."""

    module: str = "cupy"
    has_convolutions: bool = False
    flips_by_views: bool = True

    def operator(self, name: str, operands: Sequence[str], literal: Sequence[bool]) -> str:
        if name in SIGNS:
            return SIGNS[name].format(*operands)
        if name in (*_COMMON, "cbrt", "maximum", "minimum"):
            return f"{self.module}.{name}({', '.join(operands)})"
        if name in _NUMPY:
            return f"{self.module}.{_NUMPY[name]}({operands[0]})"
        if name == "atan2":
            return f"{self.module}.arctan2({', '.join(operands)})"
        if name == "rsqrt":
            return f"1 / {self.module}.sqrt({operands[0]})"
        if name in ("erf", "erfc") and self.module == "cupy":
            return f"cupyx.scipy.special.{name}({operands[0]})"
        raise NoPeer(f"{self.module} has no {name}")

    def dtype(self, dtype: DType) -> str:
        if dtype.name.startswith(("bfloat", "float8")):
            raise NoPeer(f"{self.module} has no {dtype.name}")
        return f"{self.module}.{ {'bool': 'bool_'}.get(dtype.name, dtype.name) }"

    def cast(self, text: str, dtype: DType) -> str:
        return f"{text}.astype({self.dtype(dtype)})"

    def permute(self, text: str, order: Sequence[int]) -> str:
        return f"{text}.transpose({', '.join(map(str, order))})"

    def dense(self, text: str) -> str:
        return f"{self.module}.ascontiguousarray({text})"

    def expand(self, text: str, shape: Sequence[int]) -> str:
        return f"{self.module}.broadcast_to({text}, ({', '.join(map(str, shape))},))"

    def reduce(self, kind: str, text: str, axes: Sequence[int], dtype: DType, rank: int) -> str:
        where = str(axes[0]) if len(axes) == 1 else f"({', '.join(map(str, axes))})"
        in_dtype = f", dtype={self.dtype(dtype)}" if kind in ("sum", "prod") else ""
        return f"{self.module}.{kind}({text}, {where}{in_dtype})"

    def scan(self, kind: str, text: str, axis: int, dtype: DType) -> str:
        if kind not in ("sum", "prod"):
            if self.module == "cupy":
                raise NoPeer(f"CuPy has no running {kind}")
            return f"{self.module}.{kind}imum.accumulate({text}, {axis})"
        return f"{self.module}.cum{kind}({text}, {axis}, dtype={self.dtype(dtype)})"

    def flip(self, text: str, axis: int) -> str:
        return f"{self.module}.flip({text}, {axis})"

    def where(self, condition: str, then: str, orelse: str) -> str:
        return f"{self.module}.where({condition}, {then}, {orelse})"

    def arange(self, extent: int, device: str) -> str:
        return f"{self.module}.arange({extent})"

    def copy(self, text: str) -> str:
        return f"{text}.copy()"

    def softmax(self, text: str, axis: int, *, log: bool) -> str | None:
        return None

    def contraction(self, axes: Sequence[Sequence[str]], out: Sequence[str], texts: Sequence[str]) -> str:
        if len(texts) == 2 and len(out) == 1:
            (matrix, long), (vector, short) = sorted(zip(texts, axes, strict=True), key=lambda t: -len(t[1]))
            if len(long) == 2 and list(short) == [index for index in long if index != out[0]]:
                return f"{matrix if long[0] == out[0] else f'{matrix}.T'} @ {vector}"
        return f"{self.module}.einsum({einsum_letters(axes, out)!r}, {', '.join(texts)})"

    def pad(self, text: str, widths: Sequence[tuple[int, int]], mode: str, value: float | int | bool) -> str:
        name = {"zero": "constant", "value": "constant", "clamp": "edge"}.get(mode, mode)
        filler = f", constant_values={number(value)}" if value else ""
        return f"{self.module}.pad({text}, {tuple(widths)}, mode={name!r}{filler})"


Dialect = Torch | NumPy


def number(value: int | float | bool) -> str:
    """Python literal of a number, or an expression for it."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    return repr(value)


def einsum_letters(axes: Sequence[Sequence[str]], out: Sequence[str]) -> str:
    names = list(dict.fromkeys(name for operand in axes for name in operand))
    if len(names) > 26:
        raise NoPeer(f"a product over {len(names)} indices")
    letter = {name: chr(ord("a") + i) for i, name in enumerate(names)}
    return ",".join("".join(letter[n] for n in operand) for operand in axes) + "->" + "".join(letter[n] for n in out)
