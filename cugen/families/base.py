"""The interface of a family: match or refusals, tunables and splits of one way of computing statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

from cugen.plan.features import refuse_unsupported
from cugen.plan.kernel import Kernel
from cugen.plan.request import Match, Refusal, Refusals, Request, Single, Steps, Tunable, refuse_tunables
from cugen.spec.expressions import Reduce, Scan
from cugen.spec.model import Schedule

__all__ = ["Family", "Match", "Refusal", "Refusals", "Request", "Single", "Steps", "Tunable", "refuse_tunables"]


@dataclass(frozen=True, slots=True)
class Family:
    """One way of computing statements. Families are asked by rank, the highest first; the first match wins.

    `match` answers a request; groups without the kind of node that it `needs` are not offered. `split` divides a
    statement that one launch can't compute well; `keeps_nested` says that a statement's nested reductions are faster in
    place than in temporaries. A family that `mixes` also takes groups whose statements have
    different indices: rows, and the elements of rows. One that `is_general` takes what others refuse: statements that
    they take each alone aren't fused for it. A `fallback` loops over the terms of an element in one thread: a form of
    the statements that another family takes is better. One that `guards_results` takes statements that are partial.
    `prefers_terms` says that a statement's short reductions are faster as the expressions of their terms.
    `elementwise` statements are computed as fast in the kernel of another family that reads their arrays; families that
    `share_passes` read rows or columns once for all statements over them. `predicted_seconds` is the modelled time of a
    request that it takes.
    `algorithm` divides a statement that `accumulate` allows to be computed otherwise; it is asked before any `split`.

    Version 0.1 had `refusals`, `build` and `candidates` in place of `match`; they are taken for one more version."""

    name: str
    rank: int
    doc: str
    match: Callable[[Request], Match | Refusals] | None = None
    tunables: tuple[Tunable, ...] = ()
    split: Callable[[Single], Steps | None] | None = None
    mixes: bool = False
    is_general: bool = False
    needs: type[Reduce] | type[Scan] | None = None
    refusals: Callable[[Request], tuple[Refusal, ...]] | None = None
    build: Callable[[Request], Kernel] | None = None
    candidates: Callable[[Request], Iterable[Schedule]] | None = None
    fallback: bool = False
    keeps_nested: Callable[[Request], bool] | None = None
    guards_results: bool = False
    prefers_terms: Callable[[Request], bool] | None = None
    algorithm: Callable[[Single], Steps | None] | None = None
    elementwise: bool = False
    share_passes: bool = False
    predicted_seconds: Callable[[Request], float | None] | None = None

    def answer(self, request: Request) -> Match | Refusals:
        """The family's match of a request, or why it refuses it. TypeError for a family without `match`."""
        if request.group.mixed and not self.mixes:
            reason = "takes statements over the same indices; these are over rows and over their elements"
            return Refusals((Refusal(reason),))
        if not self.guards_results and any(statement.is_partial for statement in request.group.statements):
            return Refusals((Refusal("stores all results of a tile"),))
        if self.match is not None:
            return refuse_unsupported(self.match(request), request)
        if self.refusals is None or self.build is None:
            raise TypeError(f"the family {self.name} has no `match`")
        if reasons := self.refusals(request):
            return Refusals(reasons)
        candidates = None if self.candidates is None else partial(self.candidates, request)
        return Match(partial(self.build, request), candidates)

    def may_match(self, request: Request) -> bool:
        """False where the statements lack what the family computes; cheaper than `answer`."""
        return self.needs is None or self.needs in request.node_kinds()

    def takes(self, request: Request) -> bool:
        """Whether it matches."""
        return self.may_match(request) and isinstance(self.answer(request), Match)
