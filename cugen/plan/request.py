"""What a family is asked: statements to be planned as one kernel, and why it may refuse them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cugen.machine import Target
from cugen.plan.context import Context
from cugen.spec.expressions import Read, walk
from cugen.spec.model import Array, Schedule, Statement

_MANY = 16  # values that a sentence has room for


@dataclass(frozen=True, slots=True)
class Tunable:
    """A number or word that a schedule may set; `values` are the ones that make sense."""

    name: str
    values: tuple[int | str | bool, ...]
    default: int | str | bool
    doc: str
    reorders: bool = False

    def listed(self) -> str:
        """The values, for people: `1, 2, 4`, or `1 … 64` where they are many numbers without a gap."""
        first, last = self.values[0], self.values[-1]
        if len(self.values) > _MANY and self.values == tuple(range(int(first), int(last) + 1)):
            return f"{first} … {last}"
        return ", ".join(map(str, self.values))


@dataclass(frozen=True, slots=True)
class Group:
    """Statements for one kernel, over the index names of the first. Where they are `mixed`, each has its own indices:
    rows, or the elements of rows."""

    statements: tuple[Statement, ...]
    mixed: bool = False


@dataclass(frozen=True, slots=True)
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
        found = {node: None for s in self.group.statements for node in walk(s.value) if isinstance(node, Read)}
        return tuple(found)

    def touched(self) -> tuple[Array, ...]:
        """The spec's arrays that the group reads or writes, in the order of the spec."""
        names = {read.array for read in self.reads()} | {s.target for s in self.group.statements}
        return tuple(array for array in self.context.spec.arrays if array.name in names)

    def tunable(self, tunable: Tunable) -> int | str | bool:
        return dict(self.schedule.tunables).get(tunable.name, tunable.default)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a family can't take a group; `key` names the spec key that asks for what it can't do, where one does."""

    reason: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Single:
    """One statement before any grouping, for families that do some in several steps."""

    statement: Statement
    context: Context
    schedule: Schedule
    target: Target
    is_matched: Callable[[Request], bool]  # whether a family other than the fallback takes a request


@dataclass(frozen=True, slots=True)
class Steps:
    """Statements in place of one, in order, and the temporaries through which they hand on their results.

    The steps that the user didn't write carry a text of their own, which the kernel's head shows. They are for the
    family that made them, but for those whose temporaries are in `open`: these are for whichever fits best. What the
    user's schedule says is for the steps that make the `tuned` temporaries; where there are none, for the last. Those
    that make temporaries of `again` may be split once more. With `opens_last` the last is for whichever fits best."""

    statements: tuple[Statement, ...]
    temporaries: tuple[Array, ...]
    open: tuple[str, ...] = ()
    tuned: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    opens_last: bool = False


def refuse_tunables(request: Request, tunables: tuple[Tunable, ...]) -> tuple[Refusal, ...]:
    """Tunables that the family doesn't have, or values out of their range."""
    known = {t.name: t for t in tunables}
    refusals = []
    for name, value in request.schedule.tunables:
        if name not in known:
            own = ", ".join(known) or "none"
            refusals.append(Refusal(f"has no tunable {name!r} (its tunables: {own})", f"schedule.{name}"))
        elif value not in known[name].values:
            refusals.append(Refusal(f"{name} may be {known[name].listed()}, not {value}", f"schedule.{name}"))
    return tuple(refusals)
