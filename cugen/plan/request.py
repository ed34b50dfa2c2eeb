"""Requests to families: statements to plan as one kernel, tunables, refusals and splits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from cugen.machine import Target
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel
from cugen.spec.expressions import Expr, Read, walk
from cugen.spec.model import Array, Schedule, Statement

MAX_LISTED_VALUES = 16  # of a tunable, in messages and pages


@dataclass(frozen=True, slots=True)
class Tunable:
    """An option of a schedule and its valid `values`; one that `reorders` changes the order of floating-point sums."""

    name: str
    values: tuple[int | str | bool, ...]
    default: int | str | bool
    doc: str
    reorders: bool = False

    def has(self, value: int | str | bool) -> bool:
        """Whether a value is valid: 1 is not `true`."""
        return any(value == valid and isinstance(value, bool) == isinstance(valid, bool) for valid in self.values)

    def listed(self) -> str:
        """The values as text: `1, 2, 4`, or `1 … 64` for a long range without gaps."""
        first, last = self.values[0], self.values[-1]
        if len(self.values) > MAX_LISTED_VALUES and self.values == tuple(range(int(first), int(last) + 1)):
            return f"{first} … {last}"
        return ", ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class Group:
    """Statements of one kernel, over the indices of the first; `mixed` ones have separate ones (rows, elements)."""

    statements: tuple[Statement, ...]
    mixed: bool = False


@dataclass(frozen=True, slots=True, eq=False)  # compared by identity: a key of caches
class Request:
    """Statements to be planned as one kernel. `stored` names the temporaries that live in the workspace."""

    name: str
    group: Group
    context: Context
    schedule: Schedule
    target: Target
    stored: tuple[str, ...] = ()

    def reads(self) -> tuple[Read, ...]:
        """Every read of the group's statements, each once."""
        return _reads(self)

    def node_kinds(self) -> frozenset[type[Expr]]:
        """The kinds of nodes in the statements' values."""
        return frozenset(type(node) for statement in self.group.statements for node in walk(statement.value))

    def touched(self) -> tuple[Array, ...]:
        """The arrays that the group reads or writes, in the order of the spec."""
        names = {read.array for read in self.reads()} | {s.target for s in self.group.statements}
        return tuple(array for array in self.context.spec.arrays if array.name in names)

    def is_stored(self, statement: Statement) -> bool:
        """Whether the results are written to memory; if not, they stay with the threads that compute them."""
        return self.context.spec.array(statement.target).role != "temporary" or statement.target in self.stored

    def stored_statements(self) -> tuple[Statement, ...]:
        return tuple(filter(self.is_stored, self.group.statements))

    def with_statements(self, statements: tuple[Statement, ...]) -> Request:
        """The request with other statements in the group."""
        return replace(self, group=replace(self.group, statements=statements))

    def tunable(self, tunable: Tunable) -> int | str | bool:
        return dict(self.schedule.tunables).get(tunable.name, tunable.default)


@lru_cache(maxsize=16)  # families ask for them again and again
def _reads(request: Request) -> tuple[Read, ...]:
    return tuple(
        dict.fromkeys(node for s in request.group.statements for node in walk(s.value) if isinstance(node, Read))
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a family rejects a group; `key` is the spec key that requests the impossible, if one does."""

    reason: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Refusals:
    """A family's answer to a request that it doesn't take."""

    reasons: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Match:
    """A family's answer to a request that it takes: recognised and sized once, for the kernel and for the search.

    `candidates` are the schedules worth timing, the heuristic's choice first; by default the tunables' values around
    their defaults. `smaller` is the next match to take if the kernel needs more registers than a thread may have: with
    fewer outputs per thread, or fewer threads per block; None after the smallest."""

    kernel: Callable[[], Kernel]
    candidates: Callable[[], Iterable[Schedule]] | None = None
    smaller: Callable[[], Match | None] | None = None


@dataclass(frozen=True, slots=True)
class Single:
    """One statement before grouping, for families that split some statements into several kernels."""

    statement: Statement
    context: Context
    schedule: Schedule
    target: Target
    is_specialised: Callable[[Request], bool]  # whether a family that isn't general is the first to take a request
    first_family: Callable[[Request], str]  # the name of the first family that takes a request
    allows_winograd: bool = False  # whether `accumulate` allows Winograd's algorithm for it
    keeps_indices: bool = False  # whether steps of others in its launch need parts of an index of the spec

    def request(self, stored: tuple[str, ...] = ()) -> Request:
        """The statement as a kernel of its own, which stores its results; so do others that compute `stored`."""
        stored = (self.statement.target, *stored)
        return Request("", Group((self.statement,)), self.context, self.schedule, self.target, stored)


@dataclass(frozen=True, slots=True)
class Steps:
    """The statements that replace a split one, in order, and the temporaries between them.

    Steps belong to the family that made them, except those that compute temporaries in `open` (and the last one, with
    `opens_last`): these go to the best family. The user's schedule applies to the steps that compute `tuned`
    temporaries, or to the last. Steps that compute temporaries in `again` may be split once more."""

    statements: tuple[Statement, ...]
    temporaries: tuple[Array, ...]
    open: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    opens_last: bool = False


def refuse_tunables(request: Request, tunables: tuple[Tunable, ...]) -> tuple[Refusal, ...]:
    """Refuses tunables that the family doesn't have, and invalid values."""
    known = {t.name: t for t in tunables}
    refusals = []
    for name, value in request.schedule.tunables:
        if name not in known:
            names = ", ".join(known) or "none"
            refusals.append(Refusal(f"has no tunable {name!r} (its tunables: {names})", f"schedule.{name}"))
        elif not known[name].has(value):
            refusals.append(Refusal(f"{name} may be {known[name].listed()}, not {_shown(value)}", f"schedule.{name}"))
    return tuple(refusals)


def _shown(value: int | str | bool) -> str:
    """A value as YAML has it: the text `"4"` isn't the number 4."""
    return json.dumps(value, ensure_ascii=False)
