"""Benchmark cases: specs as a user would write them, with their peers and goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.bench.peers import Called

_ASCII = str.maketrans({"×": "x", "·": "*", "²": "^2", "³": "^3", "ᵀ": "^T"})


@dataclass(frozen=True)
class Goal:
    """Required and moonshot values of a figure; either may be None. `against`: `ceiling` (share of a device copy or
    read of the same run), or a peer (its time over cugen's); `cublas` is the fastest peer that calls cuBLAS. `regime`:
    cold or warm."""

    against: str
    must: float | None
    moonshot: float | None = None
    regime: str = "cold"


@dataclass(frozen=True)
class Case:
    """Benchmark case. `peer`: PyTorch expression, if PyTorch has a function for the whole computation; else the spec is
    translated. `against`: libraries. `called`: peers given as source text. Launch-bound cases have no goals."""

    name: str
    group: str
    spec: str
    goals: tuple[Goal, ...] = ()
    peer: str = ""
    against: tuple[str, ...] = ("torch", "triton")
    called: tuple[Called, ...] = ()

    @property
    def ascii_name(self) -> str:
        """The name as a terminal takes it, for ids of tests: `A^T*x f32 256^2`."""
        return self.name.translate(_ASCII)


def spec_text(
    kernel: str, params: Mapping[str, int | str], arrays: Mapping[str, str], compute: str, more: str = ""
) -> str:
    """Text of a spec. `arrays` maps names to `[shape] | dtype`, followed by more keys."""
    sizes = ", ".join(f"{name}: {value}" for name, value in params.items())
    lines = ["cugen: 1", f"kernel: {kernel}", f"params: {{{sizes}}}", "arrays:"]
    for name, text in arrays.items():
        shape, dtype, *options = text.split(" | ")
        lines.append(f"  {name}: {{shape: {shape}, dtype: {dtype}{''.join(f', {key}' for key in options)}}}")
    body = [f"  {line}" for line in compute.splitlines()]
    return "\n".join([*lines, *filter(None, [more]), "compute: |", *body]) + "\n"
