"""Drawn transposed convolutions, in the spellings of the language."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

SPELLINGS = ("remainder", "swapped", "product", "negated", "below", "term", "factor", "exact", "inside", "inside term")


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution, over as many dimensions as it has a `size`, and the way that it is spelt."""

    spelling: str
    size: tuple[int, ...]
    outputs: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[int, ...]
    batch: int = 2
    channels: int = 3
    features: int = 2
    is_flipped: bool = False
    is_channels_last: bool = False
    is_dynamic: bool = False
    dtype: str = "float32"

    @property
    def sizes(self) -> dict[str, int]:
        """The extents of the arrays by name; values of dynamic params."""
        extents = (("H", self.size), ("P", self.outputs))
        return {f"{name}{n}": size for name, sizes in extents for n, size in enumerate(sizes)}

    @property
    def dynamic(self) -> dict[str, int]:
        """The values of the dynamic params."""
        return self.sizes if self.is_dynamic else {}

    @property
    def text(self) -> str:
        """The spec."""
        dims = range(len(self.size))
        i, r, h, p = (", ".join(f"{name}{n}" for n in dims) for name in ("i", "r", "H", "P"))
        sign = "+" if self.is_flipped else "-"
        steps = [f"{self.dilation[n]} * r{n}" if self.dilation[n] > 1 else f"r{n}" for n in dims]
        dividends = [f"i{n} + {self.pad[n]} {sign} {steps[n]}" for n in dims]
        params = ", ".join(f"{k}: {'dynamic' if self.is_dynamic else v}" for k, v in self.sizes.items())
        last = self.is_channels_last
        x, y, read, written = (
            f"{b}, {position}, {c}" if last else f"{b}, {c}, {position}"
            for b, c, position in (
                (self.batch, self.channels, h),
                (self.batch, self.features, p),
                ("b", "c", "{}"),
                ("b", "k", i),
            )
        )
        taps = ", ".join(map(str, self.taps))
        w, weight = f"{self.channels}, {self.features}, {taps}", f"w[c, k, {r}]"
        term, where = self._term(dividends, f"x[{read}]", weight)
        return "\n".join(
            [
                "cugen: 1",
                "kernel: f",
                f"params: {{{params}}}",
                "arrays:",
                f"  x: {{shape: [{x}], dtype: {self.dtype}, boundary: zero}}",
                f"  w: {{shape: [{w}], dtype: {self.dtype}}}",
                f"  y: {{shape: [{y}], dtype: {self.dtype}}}",
                f"compute: y[{written}] = sum({term}, c, {r}{where})",
            ]
        )

    def _term(self, dividends: list[str], read: str, weight: str) -> tuple[str, str]:
        """The term of the sum, and its condition."""
        pairs = list(zip(dividends, self.stride, strict=True))
        x, exact = (read.format(", ".join(f"({e}) {op} {s}" for e, s in pairs)) for op in ("//", "/"))
        tests = {
            "swapped": [f"0 == ({e}) % {s}" for e, s in pairs],
            "product": [f"{s} * (({e}) // {s}) == {e}" for e, s in pairs],
            "negated": [f"not (({e}) % {s} != 0)" for e, s in pairs],
            "below": [f"({e}) % {s} < 1" for e, s in pairs],
            "inside": [f"inside({exact})"],
            "inside term": [f"inside({exact})"],
        }
        holds = " and ".join(tests.get(self.spelling, [f"({e}) % {s} == 0" for e, s in pairs]))
        match self.spelling:
            case "term" | "inside term":
                return f"where({holds}, {x} * {weight}, 0)", ""
            case "factor":
                return f"{weight} * where({holds}, {x}, 0)", ""
            case "exact":
                return f"{exact} * {weight}", ""
        return f"{x} * {weight}", f", where={holds}"


def draw(source: Random, spelling: str, max_size: int = 9, **fixed: Any) -> Transposed:
    """A transposed convolution in the spelling."""
    rank = source.choice((1, 1, 2, 2, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(source.randint(low, high) for _ in range(rank))

    drawn = Transposed(
        spelling,
        size=numbers(1, max_size),
        outputs=numbers(1, 2 * max_size),
        taps=numbers(1, 7 if rank < 3 else 4),
        stride=numbers(1, 4),
        dilation=numbers(1, 3) if source.random() < 0.3 else (1,) * rank,
        pad=numbers(0, 4),
        batch=source.choice((1, 2, 5)),
        channels=source.choice((1, 3, 17)),
        features=source.choice((1, 2, 5)),
        is_flipped=source.random() < 0.2,
        is_channels_last=source.random() < 0.2,
    )
    return Transposed(**{**{name: getattr(drawn, name) for name in drawn.__dataclass_fields__}, **fixed})
