"""Memory traffic of a launch: requested, moved, compulsory and untiled bytes of global memory, and constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod

import sympy

from cugen.analysis.totals.boxes import boxes
from cugen.analysis.totals.executions import ExecutionCounts
from cugen.analysis.totals.sites import SPIN_WAIT, Site, Step
from cugen.analysis.verdicts.report import AccessReport
from cugen.machine.requests.boxes import box_bytes
from cugen.machine.requests.warp import SECTOR_BYTES
from cugen.plan.memory import Access, Array, Element
from cugen.plan.nodes import Copy, Load, Store
from cugen.plan.pipeline_nodes import TensorLoad, Wgmma
from cugen.plan.symbols import Integer, integer, symbol

GLOBAL = ("global", "readonly", "texture", "table", "tensor")  # spaces of arrays in device memory


@dataclass(frozen=True, slots=True)
class ArrayTraffic:
    """Bytes of one array over a launch: requested by the lanes, and in the sectors moved; None for data-dependent
    subscripts."""

    name: str  # in the spec
    array: str  # in C
    direction: str  # read, written
    requested: int
    moved: int | None
    size: int

    @property
    def compulsory(self) -> int:
        """The array once, or its requested bytes if fewer."""
        return min(self.requested, self.size)

    @property
    def touched(self) -> int | None:
        """The same in whole sectors."""
        return None if self.moved is None else min(self.moved, self.size)

    @property
    def efficiency(self) -> float | None:
        return self.requested / self.moved if self.moved else None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Global memory traffic over a launch, in bytes; upper bounds where not `exact`.

    read, written: requested by the lanes, or by TMA inside the arrays. sectors_read, sectors_written: in 32-byte
    sectors, in bytes; None for data-dependent subscripts. constant: what is read of arrays in constant memory, once, at
    most. compulsory: each array once, or its requested bytes if fewer, and the constants. touched: the same in whole
    sectors, as strided accesses move them; None for data-dependent subscripts. untiled: reads if every operand were
    loaded from global memory at each use, without shared memory tiles and registers.

    Spin-waits on flags are excluded.
    """

    read: int
    written: int
    sectors_read: int | None
    sectors_written: int | None
    constant: int
    compulsory: int
    touched: int | None
    untiled: int
    exact: bool
    arrays: tuple[ArrayTraffic, ...] = ()

    @property
    def requested(self) -> int:
        return self.read + self.written

    @property
    def moved(self) -> int | None:
        if self.sectors_read is None or self.sectors_written is None:
            return None
        return self.sectors_read + self.sectors_written

    @property
    def efficiency(self) -> float | None:
        """Requested bytes ÷ bytes of the sectors moved; over 1 if lanes of a warp share elements."""
        return self.requested / self.moved if self.moved else None

    @property
    def reuse(self) -> float:
        """Factor by which tiles and registers reduce the reads; 1 without staging."""
        return self.untiled / self.read if self.read else 1.0


def traffic(
    steps: Iterable[Step],
    sites: Iterable[Site],
    reports: Iterable[AccessReport],
    params: Mapping[str, int],
    executions: ExecutionCounts,
    constant_bytes: int,
) -> Traffic:
    """Traffic of a launch that reads at most `constant_bytes` of constants. Raises Unknown if execution counts are
    unknown."""
    fixed: dict[sympy.Symbol, Integer] = {symbol(name): integer(value) for name, value in params.items()}
    staging = _Staging(steps)
    costs = {report.access.serial: report for report in reports}
    rows: dict[tuple[str, str], ArrayTraffic] = {}  # by array and direction
    untiled = constants_requested = 0
    exact = True
    for site in sites:
        access, array = site.access, site.access.array
        if access.kind == "atomic" or site.opaque == SPIN_WAIT:
            continue
        if array.space == "constant":
            constants_requested += executions.of(site).lanes * access.width * array.dtype.bytes
        source = staging.source_of(access)
        if array.space not in GLOBAL and source is None:
            continue
        tally = executions.of(site)
        exact = exact and tally.exact
        if source is not None and access.kind in ("load", "operand") and not staging.moves(access):
            elements = site.instruction.multiply_adds if isinstance(site.instruction, Wgmma) else access.width
            untiled += tally.lanes * elements * source.dtype.bytes
        if array.space in GLOBAL:
            direction = "read" if reads(access) else "written"
            size = prod(int(extent.xreplace(fixed)) for extent in array.shape) * array.dtype.bytes
            row = rows.get((array.symbol, direction), ArrayTraffic(array.name, array.symbol, direction, 0, 0, 0))
            rows[array.symbol, direction] = replace(
                row,
                requested=row.requested + requested_bytes(site, tally.lanes, executions.block),
                moved=_added(row.moved, costs[access.serial]),
                size=max(row.size, size),
            )
    constant = min(constant_bytes, constants_requested)
    arrays = tuple(rows.values())
    touched = _sum(row.touched for row in arrays)
    return Traffic(
        read=sum(row.requested for row in arrays if row.direction == "read"),
        written=sum(row.requested for row in arrays if row.direction == "written"),
        sectors_read=_sum(row.moved for row in arrays if row.direction == "read"),
        sectors_written=_sum(row.moved for row in arrays if row.direction == "written"),
        constant=constant,
        compulsory=constant + sum(row.compulsory for row in arrays),
        touched=None if touched is None else touched + -(-constant // SECTOR_BYTES) * SECTOR_BYTES,
        untiled=untiled,
        exact=exact,
        arrays=arrays,
    )


def reads(access: Access) -> bool:
    """Whether an access of global memory reads it."""
    return access.kind in ("load", "tensor_load")


def requested_bytes(site: Site, lanes: int, block: tuple[int, int, int]) -> int:
    """Bytes of global memory that an access requests over a launch, in which so many lanes execute it: those of its
    elements, or of the boxes that it copies."""
    if site.access.array.space == "tensor":
        return sum(box_bytes(each.extents) * each.count for each in boxes(site, site.access, block))
    return lanes * site.access.width * site.access.array.dtype.bytes


def _sum(counts: Iterable[int | None]) -> int | None:
    known = list(counts)
    return None if None in known else sum(count for count in known if count is not None)


def _added(total: int | None, report: AccessReport) -> int | None:
    if total is None or report.totals is None:
        return None
    return total + report.totals.sectors * SECTOR_BYTES


class _Staging:
    """Arrays that stage elements of global memory, and the accesses that only copy them."""

    def __init__(self, steps: Iterable[Step]) -> None:
        self.sources: dict[str, Array] = {}
        self.moving: set[int] = set()
        self.locals: dict[str, Access] = {}
        for step in steps:
            match step.node:
                case Copy(target=target, source=source) | TensorLoad(target=target, source=source):
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
        origin = self.source_of(source)
        if origin is not None and target.array.space not in GLOBAL:
            self.sources[target.array.symbol] = origin
            self.moving.add(source.serial)

    def source_of(self, access: Access) -> Array | None:
        """Global array whose elements an access reads or stages; None for values computed in the kernel."""
        array = access.array
        return array if array.space in GLOBAL else self.sources.get(array.symbol)

    def moves(self, access: Access) -> bool:
        return access.serial in self.moving
