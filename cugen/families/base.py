"""The interface of a family: refusals, tunables, candidates and the kernel of one way of computing statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, Single, Steps, Tunable, refuse_tunables
from cugen.spec.model import Schedule

__all__ = ["Family", "Refusal", "Request", "Single", "Steps", "Tunable", "refuse_tunables"]


@dataclass(frozen=True, slots=True)
class Family:
    """One way of computing statements. Of the families that accept a group, the highest rank wins.

    `split` divides a statement that one launch can't compute well. A family that `mixes` also takes groups whose
    statements have different indices: rows, and the elements of rows. `candidates` are the schedules worth timing, the
    heuristic's choice first; by default the tunables' values around their defaults."""

    name: str
    rank: int
    doc: str
    refusals: Callable[[Request], tuple[Refusal, ...]]
    build: Callable[[Request], Kernel]
    tunables: tuple[Tunable, ...] = ()
    split: Callable[[Single], Steps | None] | None = None
    mixes: bool = False
    candidates: Callable[[Request], Iterable[Schedule]] | None = None
