"""The content of a kernel's page: the result of `cugen.analyze`, beside the source and the plan that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import sympy

from cugen.analysis.launches import comparison
from cugen.analysis.launches.traffic import ArrayTraffic
from cugen.analysis.totals.sites import Site, sites
from cugen.analysis.verdicts.report import AccessReport
from cugen.analysis.verdicts.wording import Wording
from cugen.html.environment import VERDICTS
from cugen.kernel import Kernel
from cugen.kernel_report import LaunchReport, Report
from cugen.machine import target as known_target
from cugen.machine.target import Target
from cugen.plan.kernel import Kernel as PlannedKernel
from cugen.plan.registers.estimate import registers
from cugen.report.boxes import BoxMap, ChunkMap, instruction_map
from cugen.report.formulas import Formula, formula
from cugen.report.layouts import TileLayouts, tile_layouts
from cugen.report.maps import AccessMap, access_map, initial_size
from cugen.report.output_tiles import OutputTiles, TilePart, output_tiles, tile_parts
from cugen.report.tile_loops import tile_loops
from cugen.report.timeline import Timeline, timeline


@dataclass(frozen=True)
class Entry:
    """One access. `number` counts those of the page from 1; `line` is that of the source.

    lanes: the map of its addresses, of its box or of the chunks of its rows, or why there is none."""

    number: int
    line: int
    report: AccessReport
    formula: Formula | None
    lanes: AccessMap | BoxMap | ChunkMap | str

    @property
    def verdict(self) -> str:
        return self.report.verdict

    @property
    def bytes_per_lane(self) -> int:
        return self.report.access.array.dtype.bytes * self.report.access.width


@dataclass(frozen=True)
class Launch:
    """One launch. `traffic` is empty if a size is unknown; `registers` is the plan's estimate for a thread.

    outputs: how blocks and threads divide the outputs. parts: of output tiles that several blocks compute. timeline:
    of a loop that copies tiles and reads them."""

    report: LaunchReport
    planned: PlannedKernel
    entries: tuple[Entry, ...]
    traffic: tuple[ArrayTraffic, ...]
    tiles: tuple[TileLayouts, ...]
    registers: int
    outputs: tuple[OutputTiles, ...]
    parts: tuple[TilePart, ...]
    timeline: Timeline | None


@dataclass(frozen=True)
class Page:
    """The content of a page. `params` are (name, text): a value, or `dynamic`."""

    kernel: Kernel
    target: Target
    params: tuple[tuple[str, str], ...]
    launches: tuple[Launch, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(entry for launch in self.launches for entry in launch.entries)

    @property
    def compared(self) -> comparison.Compared:
        """The kernel as one side of a comparison."""
        launches = (
            comparison.Launch(launch.planned.name, launch.planned.family, launch.report.accesses, launch.report.facts)
            for launch in self.launches
        )
        return comparison.Compared(self.kernel.spec, tuple(launches))

    @property
    def verdicts(self) -> tuple[tuple[str, int], ...]:
        """How many accesses have each verdict."""
        counts = Counter(entry.report.verdict for entry in self.entries)
        return tuple((verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict])


def page(kernel: Kernel, report: Report, params: Mapping[str, int] | None = None) -> Page:
    """The page of a kernel and its `report`. `params`: values of dynamic params by their names in the spec, those with
    which it was analysed."""
    spec, context = kernel.spec, kernel.context
    known = {p.name: p.value for p in spec.params if p.value is not None} | dict(params or {})
    values = {context.symbols[name].name: value for name, value in known.items()}
    sizes = {context.symbols[p.name]: (p.minimum, p.maximum) for p in spec.params if p.name not in known}
    target = known_target(report.kernels[0].facts.target)
    lines = kernel.line_of_access()
    launches: list[Launch] = []
    for planned, analysed in zip(kernel.plan.kernels, report.kernels, strict=True):
        first = sum(len(launch.entries) for launch in launches) + 1
        launches.append(_launch(kernel, planned, analysed, target, values, sizes, lines, first))
    shown = tuple((p.name, f"{known[p.name]:,}" if p.name in known else "dynamic") for p in spec.params)
    return Page(kernel, target, shown, tuple(launches))


def _launch(
    kernel: Kernel,
    planned: PlannedKernel,
    analysed: LaunchReport,
    target: Target,
    values: Mapping[str, int],
    sizes: Mapping[sympy.Symbol, tuple[int, int]],
    lines: Mapping[int, int],
    first: int,
) -> Launch:
    all_sites = {site.access.serial: site for site in sites(planned, values, [str(size) for size in sizes])}
    wording, walking = Wording.of(planned, [*values, *map(str, sizes)]), tile_loops(planned)
    entries = tuple(
        _entry(number, report, planned, all_sites[report.access.serial], wording, lines, sizes, walking)
        for number, report in enumerate(analysed.accesses, first)
    )
    return Launch(
        analysed,
        planned,
        entries,
        analysed.facts.traffic.arrays if analysed.facts.traffic is not None else (),
        tile_layouts(planned, target, all_sites, sizes_known=not sizes),
        registers(planned, kernel.context),
        output_tiles(planned, all_sites.values(), walking),
        tile_parts(planned, all_sites.values()),
        timeline(planned, {**{str(size): initial_size(bounds) for size, bounds in sizes.items()}, **values}),
    )


def _entry(
    number: int,
    report: AccessReport,
    planned: PlannedKernel,
    site: Site,
    wording: Wording,
    lines: Mapping[int, int],
    sizes: Mapping[sympy.Symbol, tuple[int, int]],
    walking: frozenset[int],
) -> Entry:
    line = lines[report.access.serial]
    lanes = instruction_map(site, sizes, walking) or access_map(planned, site, sizes, walking)
    return Entry(number, line, report, formula(site, wording), lanes)
