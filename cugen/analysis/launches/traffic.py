"""Bytes between a launch and device memory: asked for, moved, at least needed, and what they would be without tiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

import sympy

from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import SPIN_WAIT, Site, Step
from cugen.analysis.verdicts.report import AccessReport
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Copy, Load, Store
from cugen.plan.symbols import Integer, integer, symbol

GLOBAL = ("global", "readonly", "table")  # spaces of arrays in device memory


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes over a launch, of global memory.

    `read`, `written`: what the lanes ask for. `sectors_read`, `sectors_written`: the 32-byte sectors moved for that,
    in bytes; None where a subscript depends on data. `compulsory`: each array once, or what is asked of it where that
    is less; no cache can do with fewer. `untiled`: what would be read if every operand came from global memory each
    time it is used, instead of from tiles and registers. Upper bounds where not `exact`.

    Flags through which blocks wait for each other are left out: how often they are asked for is no matter of the plan.
    """

    read: int
    written: int
    sectors_read: int | None
    sectors_written: int | None
    compulsory: int
    untiled: int
    exact: bool

    @property
    def asked(self) -> int:
        return self.read + self.written

    @property
    def moved(self) -> int | None:
        if self.sectors_read is None or self.sectors_written is None:
            return None
        return self.sectors_read + self.sectors_written

    @property
    def efficiency(self) -> float | None:
        """Bytes asked for ÷ bytes in the sectors moved; over 1 where lanes of a warp share elements."""
        return self.asked / self.moved if self.moved else None

    @property
    def reuse(self) -> float:
        """By how much tiles and registers divide what is read; 1 where nothing is staged."""
        return self.untiled / self.read if self.read else 1.0


def traffic(
    steps: Iterable[Step],
    found: Iterable[Site],
    reports: Iterable[AccessReport],
    params: Mapping[str, int],
    executions: ExecutionCounts,
) -> Traffic:
    """Raises Unknown where it can't be said how often something runs."""
    fixed: dict[sympy.Symbol, Integer] = {symbol(name): integer(value) for name, value in params.items()}
    staging = _Staging(steps)
    costs = {id(report.access): report for report in reports}
    asked: dict[tuple[str, str], int] = {}  # by array and direction
    sizes: dict[str, int] = {}
    sectors: dict[str, int | None] = {"load": 0, "store": 0}
    untiled = 0
    exact = True
    for site in found:
        access, array = site.access, site.access.array
        if access.kind == "atomic" or site.opaque == SPIN_WAIT:
            continue
        source = staging.source_of(access)
        if array.space not in GLOBAL and source is None:
            continue
        tally = executions.of(site)
        exact = exact and tally.exact
        if source is not None and access.kind == "load" and not staging.moves(access):
            untiled += tally.lanes * access.width * source.dtype.bytes
        if array.space in GLOBAL:
            key = (array.symbol, access.kind)
            asked[key] = asked.get(key, 0) + tally.lanes * access.width * array.dtype.bytes
            size = prod(int(extent.xreplace(fixed)) for extent in array.shape) * array.dtype.bytes
            sizes[array.symbol] = max(sizes.get(array.symbol, 0), size)
            sectors[access.kind] = _added(sectors[access.kind], costs[id(access)])
    return Traffic(
        read=sum(count for (_, kind), count in asked.items() if kind == "load"),
        written=sum(count for (_, kind), count in asked.items() if kind == "store"),
        sectors_read=sectors["load"],
        sectors_written=sectors["store"],
        compulsory=sum(min(count, sizes[name]) for (name, _), count in asked.items()),
        untiled=untiled,
        exact=exact,
    )


def _added(total: int | None, report: AccessReport) -> int | None:
    if total is None or report.totals is None:
        return None
    return total + report.totals.sectors * SECTOR_BYTES


class _Staging:
    """Which arrays hold copies of elements of global memory, and which accesses do nothing but move them."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.sources: dict[str, Array] = {}
        self.moving: set[int] = set()
        self.locals: dict[str, Access] = {}
        for step in steps:
            match step.node:
                case Copy(target=target, source=source):
                    self._copied(target, source)
                case Load(local=local, access=access):
                    self.locals[local.name] = access
                case Store(access=target, value=Element(access=source)):
                    self._copied(target, source)
                case Store(access=target, value=value) if target.array.space not in GLOBAL:
                    loaded = self.locals.get(getattr(value, "name", ""))
                    if loaded is not None:
                        self._copied(target, loaded)

    def _copied(self, target: Access, source: Access) -> None:
        held = self.source_of(source)
        if held is not None and target.array.space not in GLOBAL:
            self.sources[target.array.symbol] = held
            self.moving.add(id(source))

    def source_of(self, access: Access) -> Array | None:
        """The array of global memory whose elements an access concerns; None for values computed in the kernel."""
        array = access.array
        return array if array.space in GLOBAL else self.sources.get(array.symbol)

    def moves(self, access: Access) -> bool:
        return id(access) in self.moving
