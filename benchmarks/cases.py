"""What a benchmark's list is made of: specs as a user would write them, with their peers and goals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.bench.peers import Called


@dataclass(frozen=True)
class Goal:
    """What a figure must reach, and what would be outstanding; None where only the other is set. `against` is
    `ceiling` (our share of what the device copies or reads in the same run), or a peer (its time over ours); `cublas`
    is the fastest of those that call it. `regime` is cold or warm."""

    against: str
    must: float | None
    moonshot: float | None = None
    regime: str = "cold"


@dataclass(frozen=True)
class Case:
    """`peer` is the expression of PyTorch that its users would write, where it has a name for the whole; else the
    spec is translated. `against` are libraries, `called` peers with a text of their own. Launch-bound cases have no
    goals."""

    name: str
    group: str
    spec: str
    goals: tuple[Goal, ...] = ()
    peer: str = ""
    against: tuple[str, ...] = ("torch", "triton")
    called: tuple[Called, ...] = ()


def spec_text(kernel: str, params: Mapping[str, int], arrays: Mapping[str, str], compute: str, more: str = "") -> str:
    """`arrays` maps names to `[shape] dtype`, with further keys behind it."""
    sizes = ", ".join(f"{name}: {value}" for name, value in params.items())
    lines = ["cugen: 1", f"kernel: {kernel}", f"params: {{{sizes}}}", "arrays:"]
    for name, text in arrays.items():
        shape, dtype, *options = text.split(" | ")
        lines.append(f"  {name}: {{shape: {shape}, dtype: {dtype}{''.join(f', {key}' for key in options)}}}")
    body = [f"  {line}" for line in compute.splitlines()]
    return "\n".join([*lines, *filter(None, [more]), "compute: |", *body]) + "\n"
