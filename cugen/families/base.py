"""What a family is: a way of computing some statements, with its reasons, its tunables and its kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cugen.plan.kernel import Kernel
from cugen.plan.request import Refusal, Request, Single, Steps, Tunable, refuse_tunables
from cugen.spec.model import Schedule

__all__ = ["Family", "Refusal", "Request", "Single", "Steps", "Tunable", "refuse_tunables"]


@dataclass(frozen=True, slots=True)
class Family:
    """One way of computing. Of the families that fit, the one with the highest rank is chosen.

    `split` takes apart a statement that one launch can't do well. A family that `mixes` also takes groups whose
    statements have unlike indices: rows, and the elements of rows. `candidates` are the schedules that are worth
    timing, the best guess first; without it they are the tunables' values round the defaults. A tunable that
    `reorders` changes the order in which sums are taken, and so the last bits of results."""

    name: str
    rank: int
    doc: str
    refusals: Callable[[Request], tuple[Refusal, ...]]
    build: Callable[[Request], Kernel]
    tunables: tuple[Tunable, ...] = ()
    split: Callable[[Single], Steps | None] | None = None
    mixes: bool = False
    candidates: Callable[[Request], Iterable[Schedule]] | None = None
