"""Drawn transposed convolutions, in the spellings of the language."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

SPELLINGS = ("remainder", "swapped", "product", "negated", "below", "term", "factor", "exact", "inside", "inside term")


@dataclass(frozen=True)
class Transposed:
    """A transposed convolution of one dimension of taps for each of `stride`, and the way that it is spelt."""

    spelling: str
    size: tuple[int, ...]
    outputs: tuple[int, ...]
    taps: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    pad: tuple[int, ...]
    channels: int = 3
    features: int = 2
    is_flipped: bool = False
    dynamic: bool = False
    dtype: str = "float32"

    @property
    def text(self) -> str:
        """The spec."""
        rank = len(self.size)
        i, r = [f"i{n}" for n in range(rank)], [f"r{n}" for n in range(rank)]
        sign = "+" if self.is_flipped else "-"
        dividends = [
            f"i{n} + {self.pad[n]} {sign} {self.dilation[n]} * r{n}"
            if self.dilation[n] > 1
            else f"i{n} + {self.pad[n]} {sign} r{n}"
            for n in range(rank)
        ]
        quotients = [f"({e}) // {s}" for e, s in zip(dividends, self.stride, strict=True)]
        exact = [f"({e}) / {s}" for e, s in zip(dividends, self.stride, strict=True)]
        pairs = list(zip(dividends, self.stride, strict=True))
        weight, read, exact_read = (
            f"w[c, k, {', '.join(r)}]",
            f"x[c, {', '.join(quotients)}]",
            f"x[c, {', '.join(exact)}]",
        )
        conditions = {
            "swapped": [f"0 == ({e}) % {s}" for e, s in pairs],
            "product": [f"{s} * (({e}) // {s}) == {e}" for e, s in pairs],
            "negated": [f"not (({e}) % {s} != 0)" for e, s in pairs],
            "below": [f"({e}) % {s} < 1" for e, s in pairs],
            "inside": [f"inside({exact_read})"],
            "inside term": [f"inside({exact_read})"],
        }.get(self.spelling, [f"({e}) % {s} == 0" for e, s in pairs])
        holds = " and ".join(conditions)
        match self.spelling:
            case "term" | "inside term":
                term = f"where({holds}, {read} * {weight}, 0)"
            case "factor":
                term = f"{weight} * where({holds}, {read}, 0)"
            case "exact":
                term = f"{exact_read} * {weight}"
            case _:
                term = f"{read} * {weight}"
        where = f", where={holds}" if self.spelling not in ("term", "inside term", "factor", "exact") else ""
        sizes = {f"H{n}": size for n, size in enumerate(self.size)} | {
            f"P{n}": size for n, size in enumerate(self.outputs)
        }
        params = [f"{name}: {'dynamic' if self.dynamic else size}" for name, size in sizes.items()]
        return "\n".join(
            [
                "cugen: 1",
                "kernel: f",
                f"params: {{{', '.join(params)}}}",
                "arrays:",
                f"  x: {{shape: [{self.channels}, {', '.join(f'H{n}' for n in range(rank))}], dtype: {self.dtype}, boundary: zero}}",
                f"  w: {{shape: [{self.channels}, {self.features}, {', '.join(map(str, self.taps))}], dtype: {self.dtype}}}",
                f"  y: {{shape: [{self.features}, {', '.join(f'P{n}' for n in range(rank))}], dtype: {self.dtype}}}",
                f"compute: y[k, {', '.join(i)}] = sum({term}, c, {', '.join(r)}{where})",
            ]
        )

    @property
    def sizes(self) -> dict[str, int]:
        """The values of the dynamic params."""
        names = {f"H{n}": size for n, size in enumerate(self.size)} | {
            f"P{n}": size for n, size in enumerate(self.outputs)
        }
        return names if self.dynamic else {}


def draw(source: Random, spelling: str, max_size: int = 9, **fixed: object) -> Transposed:
    """A transposed convolution in the spelling."""
    rank = source.choice((1, 1, 2, 2, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(source.randint(low, high) for _ in range(rank))

    return Transposed(
        spelling,
        size=numbers(1, max_size),
        outputs=numbers(1, 2 * max_size),
        taps=numbers(1, 7 if rank < 3 else 4),
        stride=numbers(1, 4),
        dilation=numbers(1, 3) if source.random() < 0.3 else (1,) * rank,
        pad=numbers(0, 4),
        channels=source.choice((1, 3, 5)),
        features=source.choice((1, 2, 5)),
        is_flipped=source.random() < 0.2,
        **fixed,
    )
