"""Drawn convolutions, in the layouts of arrays and weights that an implicit GEMM takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hypothesis import strategies as st

# A value of the sum S: without more, with a bias, a residual array, a select, and added to what is there.
EPILOGUES = {
    "": "= S",
    "bias": "= relu(S + b[{k}])",
    "residual": "= S + z[{y}]",
    "select": "= (S if S > 0 else 2 * S)",
    "accumulated": "+= S",
}
# Orders of the weights' dimensions in which channels c and taps t are adjacent.
WEIGHTS = ("kct", "ktc", "tck", "ctk")


@dataclass(frozen=True)
class Convolution:
    """A convolution over as many dimensions as it has `sizes`, in `groups` if it has any; channels `last` or first."""

    sizes: tuple[int, ...] = (9, 11)
    taps: tuple[int, ...] = (3, 3)
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)
    pads: tuple[int, ...] = (1, 1)
    batch: int = 2
    channels: int = 5
    features: int = 7
    groups: int = 0
    is_last: bool = False
    weights: str = "kct"
    dtype: str = "float32"
    epilogue: str = ""
    is_dynamic: bool = False
    target: str = "sm_90"
    schedule: str = "family: gemm"

    @property
    def outputs(self) -> tuple[int, ...]:
        spans = (d * (count - 1) for d, count in zip(self.dilations, self.taps, strict=True))
        moved = zip(self.sizes, self.pads, spans, self.strides, strict=True)
        return tuple((size + 2 * pad - span - 1) // stride + 1 for size, pad, span, stride in moved)

    @property
    def params(self) -> dict[str, int]:
        """The values of dynamic params."""
        return {f"H{d}": size for d, size in enumerate(self.sizes)} | {"N": self.batch} if self.is_dynamic else {}

    @property
    def text(self) -> str:
        """The spec."""
        dims = range(len(self.sizes))
        sizes = {"N": self.batch} | {f"H{d}": size for d, size in enumerate(self.sizes)}
        params = [f"  {name}: {'dynamic' if self.is_dynamic else size}" for name, size in sizes.items()]
        spans = [d * (count - 1) + 1 for d, count in zip(self.dilations, self.taps, strict=True)]
        p = [f"(H{d} + {2 * self.pads[d]} - {spans[d]}) // {self.strides[d]} + 1" for d in dims]
        i, r = [f"i{d}" for d in dims], [f"r{d}" for d in dims]
        window = [f"{self.strides[d]} * {i[d]} + {self.dilations[d]} * {r[d]} - {self.pads[d]}" for d in dims]
        group, g = ([str(self.groups)], ["g"]) if self.groups else ([], [])
        y = self._order("n", g, "k", i)
        term = f"x[{self._order('n', g, 'c', window)}] * w[{self._weights(g, 'k', 'c', r)}]"
        total, output = self.dtype, f"[{self._order('N', group, str(self.features), p)}]"
        if self.dtype == "int8":
            total, term = "int32", f"cast({term.replace(' * w', ', int32) * w')}"
        arrays = {
            "x": f"[{self._order('N', group, str(self.channels), [f'H{d}' for d in dims])}]",
            "w": f"[{self._weights(group, str(self.features), str(self.channels), list(map(str, self.taps)))}]",
            "b": f"[{', '.join([*group, str(self.features)])}]",
            "z": output,
            "y": output,
        }
        value = EPILOGUES[self.epilogue].format(k=", ".join([*g, "k"]), y=y)
        value = value.replace("S", f"sum({term}, c, {', '.join(r)})")
        boundary = ", boundary: zero" if any(self.pads) else ""
        lines = [f"target: {self.target}", "params:", *params, "arrays:"]
        for name, shape in arrays.items():
            if f"{name}[" in f"y[] {value}":
                dtype, more = (self.dtype if name in "xw" else total), (boundary if name == "x" else "")
                lines.append(f"  {name}: {{shape: {shape}, dtype: {dtype}{more}}}")
        if self.schedule:
            lines.append(f"schedule: {{{self.schedule}}}")
        return "\n".join([*lines, f"compute: y[{y}] {value}", ""])

    @property
    def has_matrices(self) -> bool:
        """Whether M, N and K have more than one element, or are known at launch only."""
        is_small = 1 in (self.features, self.channels * math.prod(self.taps))
        return not is_small and (self.is_dynamic or self.batch * math.prod(self.outputs) > 1)

    def _order(self, n: str, group: list[str], c: str, position: list[str]) -> str:
        return ", ".join([n, *position, *group, c] if self.is_last else [n, *group, c, *position])

    def _weights(self, group: list[str], k: str, c: str, taps: list[str]) -> str:
        names = {"k": [k], "c": [c], "t": taps}
        return ", ".join([*group, *(name for part in self.weights for name in names[part])])


@st.composite
def convolutions(draw: st.DrawFn) -> Convolution:
    """Convolutions with at least one output."""
    rank = draw(st.sampled_from((1, 2, 2, 3)))

    def each(values: st.SearchStrategy[int]) -> tuple[int, ...]:
        return tuple(draw(values) for _ in range(rank))

    taps, dilations = each(st.sampled_from((1, 2, 3, 3, 5))), each(st.sampled_from((1, 1, 2)))
    spans = [dilation * (count - 1) + 1 for dilation, count in zip(dilations, taps, strict=True)]
    pads = draw(st.sampled_from((tuple((span - 1) // 2 for span in spans), (0,) * rank, (1,) * rank)))
    limit = (90, 17, 7)[rank - 1]
    sizes = tuple(
        draw(st.integers(max(span - 2 * pad, 1), span + limit)) for span, pad in zip(spans, pads, strict=True)
    )
    features = (1, 3, 8, 16, 31, 32, 33, 64, 65, 97)
    is_dynamic = draw(st.integers(0, 3)) == 0
    tunables = (tunable for tunable in TUNABLES if not is_dynamic or "_k: " not in tunable or "sliced" in tunable)
    return Convolution(
        sizes,
        taps,
        each(st.sampled_from((1, 1, 2, 3))),
        dilations,
        pads,
        draw(st.integers(1, 3)),
        draw(st.sampled_from((1, 2, 3, 4, 8, 13, 16, 24, 32, 33))),
        draw(st.sampled_from(features)),
        draw(st.sampled_from((0, 0, 1, 3))),
        draw(st.booleans()),
        draw(st.sampled_from(WEIGHTS)),
        draw(st.sampled_from(("float32", "float32", "float64", "float16", "bfloat16", "int8"))),
        draw(st.sampled_from(tuple(EPILOGUES))),
        is_dynamic,
        draw(st.sampled_from(("sm_75", "sm_80", "sm_90", "sm_90"))),
        draw(st.sampled_from(("", "family: gemm", *(f"family: gemm, {tunable}" for tunable in tunables)))),
    )


TUNABLES = (
    "stages: 1",
    "stages: 2",
    "split_k: 2",
    "split_k: 3, reduction: workspace",
    "stream_k: 1",
    "sliced_k: 2",
    "cores: cuda",
    "cores: tensor",
)
