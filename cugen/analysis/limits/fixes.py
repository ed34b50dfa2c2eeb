"""Search for the smallest padding or swizzle that removes a tile's bank conflicts.

The cost by pad bounds the search; every candidate is planned and analysed like a spec of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cugen.analysis.totals.budget import Unknown
from cugen.analysis.verdicts.conflicts_by_pad import PADS, PaddedAccess, padded_accesses
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.analysis.verdicts.report import AccessReport
from cugen.machine import target
from cugen.machine.occupancy import Occupancy, occupancy
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import Access
from cugen.spec.diagnostics import SpecError
from cugen.spec.editing import RowLayout
from cugen.spec.model import Param, Spec

Planner = Callable[[Spec], Plan]
_REPRESENTATIVE_SIZE = 4096  # of a dynamic size, at which costs are compared


@dataclass(frozen=True)
class LaunchCost:
    """Cost of the accesses to one array's tiles in a launch, and the occupancy.

    Wavefronts are of the whole launch or, if `per_request` (dynamic sizes), of the worst request of each access. The
    occupancy is by threads and shared memory. `costly` has the accesses above their ideal.
    """

    kernel: str
    wavefronts: int
    ideal: int
    per_request: bool
    shared_bytes: int
    occupancy: Occupancy
    costly: tuple[AccessReport, ...]


@dataclass(frozen=True)
class Fix:
    """New layout of one array's tiles, with (before, after) costs per launch.

    why: for each access, the wavefronts of its worst request as a function of the pad.
    """

    array: str
    rows: RowLayout
    costs: tuple[tuple[LaunchCost, LaunchCost], ...]
    why: tuple[str, ...]

    @property
    def remains(self) -> tuple[AccessReport, ...]:
        """The accesses that still cost more than their ideal."""
        return tuple(report for _, after in self.costs for report in after.costly)


@dataclass(frozen=True)
class Unfixable:
    """Array whose tiles can't be improved, and the reason."""

    array: str
    accesses: tuple[AccessReport, ...]
    reason: str


@dataclass(frozen=True)
class Fixes:
    """Fixed `specs`. `fixes` and `incurable` are empty if every tile is ideal.

    unknown: accesses to tiles whose cost can't be computed.
    """

    specs: tuple[Spec, ...]
    fixes: tuple[Fix, ...]
    incurable: tuple[Unfixable, ...]
    unknown: tuple[AccessReport, ...]


@dataclass(frozen=True)
class _Launch:
    spec: Spec
    kernel: Kernel
    values: Mapping[str, int]  # of the params, by their names in C
    accesses: tuple[AccessReport, ...]


@dataclass(frozen=True)
class State:
    """Specs with their plans and reports."""

    specs: tuple[Spec, ...]
    launches: tuple[_Launch, ...]

    @property
    def shared(self) -> Iterator[tuple[_Launch, AccessReport]]:
        return ((launch, r) for launch in self.launches for r in launch.accesses if r.space == "shared")

    @property
    def score(self) -> tuple[int, int]:
        """(unknown accesses, wavefronts of all tiles); lower is better."""
        reports = [report for _, report in self.shared]
        return sum(r.verdict == "unknown" for r in reports), sum(figures_of(r)[0] for r in reports)

    @property
    def sectors(self) -> int:
        return sum(figures_of(r)[0] for launch in self.launches for r in launch.accesses if r.space == "global")

    @property
    def families(self) -> tuple[str, ...]:
        return tuple(launch.kernel.family for launch in self.launches)

    @property
    def blocks(self) -> int:
        return sum(_occupancy(launch).blocks_per_sm for launch in self.launches)


def find_fixes(specs: Sequence[Spec], plan: Planner, params: Mapping[str, int]) -> Fixes:
    """Fixes for specs that share their placements: a single spec, or the variants of a document.

    plan: the launches of a spec. params: values of dynamic params by name; those without one are analysed at their
    worst. Arrays are fixed in turn, each on top of the previous fixes. SpecError if a spec can't be planned.
    """
    state = state_of(specs, plan, params)
    fixes: list[Fix] = []
    incurable: list[Unfixable] = []
    for array in dict.fromkeys(r.access.array.name for _, r in state.shared if _is_costly(r)):
        if not any(_is_costly(r) for _, r in state.shared if r.access.array.name == array):
            continue
        result = _fix(state, array, plan, params)
        if isinstance(result, Unfixable):
            incurable.append(result)
        else:
            state, fix = result
            fixes.append(fix)
    unknown = tuple(report for _, report in state.shared if report.verdict == "unknown")
    return Fixes(state.specs, tuple(fixes), tuple(incurable), unknown)


def _fix(state: State, array: str, plan: Planner, params: Mapping[str, int]) -> Unfixable | tuple[State, Fix]:
    costly = tuple(r for _, r in state.shared if r.access.array.name == array and _is_costly(r))
    if not all(_has_memory_key(spec, array) for spec in state.specs):
        return Unfixable(array, costly, "the tile is internal to the generator, without a `memory` key in the spec")
    refusals: list[str] = []

    def tried(rows: RowLayout) -> State | None:
        try:
            return state_of([rows.apply_to(spec, array) for spec in state.specs], plan, params)
        except SpecError as error:
            refusals.append("; ".join((error.diagnostics[0].message, *error.diagnostics[0].notes)))
            return None

    bare = tried(RowLayout())
    formulas = _pad_costs(bare or state, array)
    last = _last_pad(formulas)
    candidates = [(RowLayout(pad), tried(RowLayout(pad)) if pad else bare) for pad in range(last + 1)]
    candidates.append((RowLayout(swizzle=True), tried(RowLayout(swizzle=True))))
    good = [(rows, new) for rows, new in candidates if new is not None and _is_better(new, state)]
    why = tuple(dict.fromkeys(f"{access.text}: {access.formula}" for _, accesses in formulas for access in accesses))
    if not good:
        if len(refusals) == len(candidates):
            return Unfixable(array, costly, f"no family accepts another layout of the tile: {refusals[0]}")
        swizzle = "and `swizzle: xor` is refused" if candidates[-1][1] is None else "nor does `swizzle: xor`"
        laws_text = f"; wavefronts of the worst request by pad: {'; '.join(why)}" if why else ""
        return Unfixable(array, costly, f"no pad makes it cheaper, {swizzle}{laws_text}")
    rows, new = min(good, key=lambda item: (item[1].score, -item[1].blocks, item[0].swizzle, item[0].pad))
    pairs = zip(state.launches, new.launches, strict=True)
    costs = tuple((_cost(a, array), _cost(b, array)) for a, b in pairs if _touches(a, array) or _touches(b, array))
    return new, Fix(array, rows, costs, why)


def _is_better(new: State, old: State) -> bool:
    """Whether tiles are cheaper, with the same families and no more global traffic."""
    return new.families == old.families and new.sectors <= old.sectors and new.score < old.score


def _has_memory_key(spec: Spec, array: str) -> bool:
    """Whether `memory` sets the layout of the array's tiles; of outputs `memory: shared` makes scratch arrays."""
    return any(
        a.name == array and (a.memory.space == "shared" or (a.memory.space is None and a.role in ("input", "baked")))
        for a in spec.arrays
    )


def state_of(specs: Sequence[Spec], plan: Planner, params: Mapping[str, int]) -> State:
    launches = []
    for spec in specs:
        made = plan(spec)
        names = dict(made.param_symbols)
        values = {names[p.name]: p.value for p in spec.params if p.value is not None}
        values |= {names[p.name]: params[p.name] for p in spec.params if p.is_dynamic and p.name in params}
        open_ = {names[p.name]: p.multiple_of for p in spec.params if names[p.name] not in values}
        known = values | {names[p.name]: representative(p) for p in spec.params if names[p.name] in open_}
        for kernel in made.kernels:
            accesses = analyze_any_size(kernel, spec.target, values, open_).accesses
            launches.append(_Launch(spec, kernel, known, accesses))
    return State(tuple(specs), tuple(launches))


def representative(param: Param) -> int:
    """A size of a dynamic param at which costs are compared."""
    multiple = param.multiple_of
    low, high = -(-param.minimum // multiple), param.maximum // multiple
    return max(low, min(high, -(-_REPRESENTATIVE_SIZE // multiple))) * multiple


_PadCosts = list[tuple[_Launch, tuple[PaddedAccess, ...]]]


def _pad_costs(state: State, array: str) -> _PadCosts:
    """Cost by pad of each launch with a tile of the array; empty if an access can't be counted."""
    costs = []
    for launch in state.launches:
        if not _touches(launch, array) or any(a.array.swizzle for a in _tile_accesses(launch, array)):
            continue
        try:
            costs.append((launch, padded_accesses(launch.kernel, array, launch.spec.target, launch.values)))
        except Unknown:
            return []
    return costs


def _last_pad(formulas: _PadCosts) -> int:
    """Smallest pad of minimum cost; no larger one is cheaper."""
    accesses = [access for _, padded in formulas for access in padded]
    if not accesses:
        return PADS[-1]
    tables = [{pad: cost for pad, cost, _, _ in access.costs} for access in accesses]
    common = [pad for pad in PADS if all(pad in table for table in tables)]
    return min(common, key=lambda pad: (sum(table[pad] for table in tables), pad)) if common else PADS[-1]


def _cost(launch: _Launch, array: str) -> LaunchCost:
    reports = [r for r in launch.accesses if r.space == "shared" and r.access.array.name == array]
    figures = [figures_of(r) for r in reports]
    return LaunchCost(
        launch.kernel.name,
        sum(cost for cost, _ in figures),
        sum(ideal for _, ideal in figures),
        any(r.totals is None and r.verdict != "unknown" for r in reports),
        launch.kernel.shared_bytes + launch.kernel.dynamic_shared_bytes,
        _occupancy(launch),
        tuple(filter(_is_costly, reports)),
    )


def figures_of(report: AccessReport) -> tuple[int, int]:
    """(cost, ideal) of the launch, or of the worst request with dynamic sizes; zeros if unknown."""
    if report.totals is not None or report.per_request is None:
        return report.cost, report.ideal
    return report.per_request.worst, report.per_request.worst_ideal


def _is_costly(report: AccessReport) -> bool:
    return report.cost > report.ideal


def _touches(launch: _Launch, array: str) -> bool:
    return bool(_tile_accesses(launch, array))


def _tile_accesses(launch: _Launch, array: str) -> list[Access]:
    return [r.access for r in launch.accesses if r.space == "shared" and r.access.array.name == array]


def _occupancy(launch: _Launch) -> Occupancy:
    kernel = launch.kernel
    shared = kernel.shared_bytes + kernel.dynamic_shared_bytes
    row = target(launch.spec.target).with_carveout(kernel.options.carveout, shared)
    return occupancy(row, kernel.threads, 0, shared)
