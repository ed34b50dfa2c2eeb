"""Report of a kernel: the exact cost of every access on a target, its ideal and the reason.

Verdicts: `ideal` and `costly` follow from exact totals; `assumed` relies on a rule that is neither documented nor
measured; `unknown` couldn't be computed. The last two have a reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial

from cugen.analysis.totals.budget import Budget, Unknown
from cugen.analysis.totals.exact import Cost, Pattern, Totals, totals
from cugen.analysis.totals.sites import DATA_DEPENDENT_GUARD, Site, sites
from cugen.analysis.verdicts import async_proxy, constant_reasons, copy_sources, global_reasons, reasons
from cugen.analysis.verdicts.local_arrays import MAY_SELECT, local_arrays
from cugen.analysis.verdicts.subjects import Subject
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.machine import target as known_target
from cugen.machine.requests import async_copies
from cugen.machine.requests.request import warp_request
from cugen.machine.target import TENSOR_ALIGNMENT, Cache
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access, Array

# Unit of the cost by memory space.
UNITS = {"shared": "wavefronts", "global": "sectors", "local": "sectors", "constant": "requests"}
# Memory space by that of the array; register arrays are analysed where they may be in local memory.
SPACES = {
    "shared": "shared",
    "constant": "constant",
    "register": "local",
    **dict.fromkeys(("global", "readonly", "texture", "table", "tensor"), "global"),
}

# Measured on sm_90 (H200): fetches of linear memory read the sectors of L2 that loads of the same addresses read. L1
# looks sectors up for each group of 8 lanes.
FETCH_LIKE_LOAD = "a texture fetch moves the sectors that a load moves"
# The cache of a load with a cache operator (PTX ISA): `cs` and `lu` allocate lines where loads do by default.
_CACHES: Mapping[str, Cache] = {"ca": "l1", "cg": "l2"}
UNKNOWN_LOCALITY = "the sectors of 2-D texture fetches are not modelled"


@dataclass(frozen=True)
class PerRequest:
    """Cost of one warp instruction in the unit of the access: the average over the launch, and the worst request.

    transactions: number and size of the worst request's, where they aren't sectors: `2 x 128 bytes`.
    """

    unit: str
    average: float
    ideal_average: float
    worst: int
    worst_ideal: int
    transactions: str = ""

    def __str__(self) -> str:
        """`8 sectors in 2 x 128 bytes, ideal 4; 4.4 on average`."""
        unit = self.unit[:-1] if self.worst == 1 else self.unit
        moved = f" in {self.transactions}" if self.transactions else ""
        text = f"{self.worst} {unit}{moved}, ideal {self.worst_ideal}"
        ideal = self.worst == self.worst_ideal and self.average == self.ideal_average
        return text if ideal or self.average == self.worst else f"{text}; {_short(self.average)} on average"


@dataclass(frozen=True)
class Words:
    """The texts of a report, each made where it is read: a derivation takes longer than the totals."""

    text: Callable[[], str]
    claim: Callable[[], str]
    reason: Callable[[], str]


@dataclass(frozen=True)
class AccessReport:
    """Verdict on one access over the launch.

    cost, ideal: in `unit`; 0, and `totals` and `per_request` None, if the verdict is `unknown`.
    doubt: why the verdict is `assumed` or `unknown`, else empty.
    """

    kernel: str
    access: Access
    space: str
    unit: str
    totals: Totals | None
    per_request: PerRequest | None
    cost: int
    ideal: int
    verdict: str
    words: Words = field(repr=False, compare=False)
    doubt: str = ""

    @cached_property
    def text(self) -> str:
        """The access as printed, without casts."""
        return self.words.text()

    @cached_property
    def claim(self) -> str:
        """A short clause for a comment."""
        return self.words.claim()

    @cached_property
    def reason(self) -> str:
        """The derivation of the claim."""
        return self.words.reason()

    @property
    def ratio(self) -> float | None:
        """Cost ÷ ideal; None if unknown, 1 if nothing runs."""
        if self.verdict == "unknown" or self.per_request is None:
            return None
        return self.cost / self.ideal if self.ideal else 1.0


@dataclass(frozen=True)
class KernelReport:
    """All memory accesses of one launch, in source order."""

    kernel: str
    target: str
    accesses: tuple[AccessReport, ...]


@dataclass(frozen=True)
class AnalysisConfig:
    """Target, its configuration and the alignment of the arrays.

    bank_bytes: 3.x only: bank width. cache: 2.x to 5.x only: where global loads are cached. offsets: start of an array
    of the spec in bytes, modulo 256. budget: of all accesses together; None for one of each.
    """

    target: Target
    bank_bytes: int | None = None
    cache: Cache | None = None
    offsets: Mapping[str, int] | None = None
    budget: Budget | None = None

    def totals(self, kernel: Kernel, site: Site) -> tuple[Totals, tuple[str, ...]]:
        """`site_totals` of one access. ValueError if its array is misaligned for the access."""
        array = site.access.array
        start = self.start_of(array)
        width = TENSOR_ALIGNMENT if array.space == "tensor" else array.dtype.bytes * site.access.width
        if start % width:
            raise ValueError(f"{array.name} starts at byte {start}, but {width} bytes are moved at once")
        cache = self.cache_of(site.access)
        site = self.with_source_offset(site)
        return site_totals(
            kernel, site, self.target, start=start, bank_bytes=self.bank_bytes, cache=cache, budget=self.budget
        )

    def cache_of(self, access: Access) -> Cache | None:
        """Where loads of an access are cached, if not by default: as asked, or by its cache operator."""
        if self.cache is None and self.target.global_rule == "lines":
            return _CACHES.get(access.cache_operator) if access.is_load else None
        return self.cache if SPACES[access.array.space] == "global" else None

    def start_of(self, array: Array) -> int:
        """First byte of an array: of a tile in shared memory, of an argument modulo 256."""
        return array.dynamic_offset if array.space == "shared" else (self.offsets or {}).get(array.name, 0)

    def with_source_offset(self, site: Site) -> Site:
        """Site with its copy source shifted by the start of the source array."""
        if site.source is None or site.source_offset is None:
            return site
        array = site.source.array
        return replace(
            site, source_offset=site.source_offset + (self.offsets or {}).get(array.name, 0) // array.dtype.bytes
        )


def analyze_kernel(
    kernel: Kernel,
    target: Target | str,
    params: Mapping[str, int],
    *,
    offsets: Mapping[str, int] | None = None,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
    space: str | None = None,
) -> KernelReport:
    """Report of one launch. `params` has every param's value by its name in C.

    offsets: start of an array of the spec in bytes, modulo 256; for arrays inside a larger buffer.
    bank_bytes: 3.x only: bank width, 4 (default) or 8.
    cache: 2.x to 5.x only: where global loads are cached, `l1` or `l2`; default as the target.
    space: the memory space whose accesses are reported; all by default.

    ValueError for an offset that misaligns an access, and for an option that the target doesn't have.
    """
    config = replace(make_config(kernel, target, offsets, bank_bytes, cache), budget=Budget())
    wording = Wording.of(kernel, params)
    reported = [
        site for site in memory_sites(kernel, sites(kernel, params)) if space in (None, SPACES[site.access.array.space])
    ]
    accesses = [report(kernel, site, config, wording) for site in reported]
    return KernelReport(kernel.name, config.target.name, tuple(accesses))


def memory_sites(kernel: Kernel, all_sites: Iterable[Site]) -> Iterator[Site]:
    """The sites in memory: not those of arrays that stay in registers, nor of mbarriers at one address per warp."""
    local = local_arrays(kernel)
    for site in all_sites:
        array = site.access.array
        if async_proxy.is_synchronisation(site):
            continue
        if array.space in SPACES and (array.space != "register" or array.symbol in local):
            yield site


def make_config(
    kernel: Kernel,
    target: Target | str,
    offsets: Mapping[str, int] | None,
    bank_bytes: int | None,
    cache: Cache | None,
) -> AnalysisConfig:
    row = known_target(target) if isinstance(target, str) else target
    if bank_bytes is None and kernel.options.bank_bytes in row.bank_modes:
        bank_bytes = kernel.options.bank_bytes
    if bank_bytes is not None and bank_bytes not in row.bank_modes:
        known = ", ".join(map(str, row.bank_modes))
        raise ValueError(f"{row.name} has no banks of {bank_bytes} bytes; known are {known}")
    arrays = sorted({array.name for array in kernel.arrays})
    for name in offsets or {}:
        if name not in arrays:
            raise ValueError(f"no array {name!r} in {kernel.name}; known are {', '.join(arrays)}")
    return AnalysisConfig(row, bank_bytes, cache, offsets)


def report(kernel: Kernel, site: Site, config: AnalysisConfig, wording: Wording) -> AccessReport:
    """Report of one access with known sizes."""
    try:
        totals, assumptions = config.totals(kernel, site)
    except Unknown as why:
        return unknown(kernel, site, wording, str(why))
    return assess(kernel, site, config, wording, totals, assumptions)


def unknown(kernel: Kernel, site: Site, wording: Wording, why: str) -> AccessReport:
    """Report of an access whose cost can't be computed."""
    space = SPACES[site.access.array.space]
    if space == "local":
        why = f"{why}; {MAY_SELECT}"
    words = Words(partial(wording.access, site.access), lambda: f"unknown: {why}", lambda: why)
    return AccessReport(kernel.name, site.access, space, UNITS[space], None, None, 0, 0, "unknown", words, why)


def site_totals(
    kernel: Kernel,
    site: Site,
    target: Target,
    *,
    start: int = 0,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
    budget: Budget | None = None,
) -> tuple[Totals, tuple[str, ...]]:
    """Totals of one access over the launch, with the assumptions made. Unknown if they can't be computed.

    start: first byte of the array, modulo 256. budget: as for `totals`.
    """
    access = site.access
    if access.array.texture_2d is not None:
        raise Unknown(UNKNOWN_LOCALITY)
    if site.opaque:
        raise Unknown(site.opaque)
    if site.instruction is not None:
        return async_proxy.instruction_totals(kernel, site, start, budget)
    if access.kind == "barrier":
        raise Unknown("the bank conflicts of mbarriers at several addresses are not modelled")
    if access.array.space == "texture" and not target.has_unified_cache:
        raise Unknown(f"the texture cache of {target.name} is not modelled")
    space = SPACES[access.array.space]
    width = access.array.dtype.bytes * access.width
    if site.source_guard is not None and width < async_copies.L1_BYPASS_BYTES:
        return _guarded_copy_totals(kernel, site, target, start, budget)
    sources = None if site.source_offset is None else copy_sources.sources_of(site, kernel.block)
    is_assumed = access.array.space == "texture" and not target.measured
    assumptions: dict[str, None] = {FETCH_LIKE_LOAD: None} if is_assumed else {}

    def measure(addresses: tuple[int | None, ...]) -> Cost:
        cost = warp_request(
            space, access.kind, width, addresses, target, bank_bytes=bank_bytes, cache=cache, sources=sources
        )
        if cost.assumption:
            assumptions.setdefault(cost.assumption)
        return cost.requests, cost.wavefronts, cost.ideal_wavefronts, cost.sectors, cost.ideal_sectors

    by_lines = sources is not None and width == async_copies.L1_BYPASS_BYTES  # then the alignment to lines matters
    period = async_copies.LINE_BYTES if by_lines else period_of(space, width, target)
    actual = totals(site, kernel.block, access.array.dtype.bytes, period, measure, start, budget)
    return actual, tuple(assumptions)


def _guarded_copy_totals(
    kernel: Kernel, site: Site, target: Target, start: int, budget: Budget | None
) -> tuple[Totals, tuple[str, ...]]:
    """Totals of a narrow copy with a guarded source: lanes outside are zero-filled by separate instructions."""
    assert site.source_guard is not None
    if not site.source_guard.depends_only_on(site.counters):
        raise Unknown(DATA_DEPENDENT_GUARD)
    filled = replace(site.source_guard, negated=not site.source_guard.negated)
    parts = (
        replace(site, predicates=(*site.predicates, site.source_guard), source_guard=None),
        replace(site, predicates=(*site.predicates, filled), source_guard=None, source_offset=None, source=None),
    )
    (read, doubts), (zeros, more) = (site_totals(kernel, part, target, start=start, budget=budget) for part in parts)
    sums = {f.name: getattr(read, f.name) + getattr(zeros, f.name) for f in fields(Totals)}
    return Totals(**sums), tuple(dict.fromkeys((*doubts, *more)))


def assess(
    kernel: Kernel, site: Site, config: AnalysisConfig, wording: Wording, totals: Totals, assumptions: tuple[str, ...]
) -> AccessReport:
    """Report of one access from its exact totals."""
    access = site.access
    space = SPACES[access.array.space]
    unit = UNITS[space]
    cost, ideal = figures(unit, totals)
    bank_bytes = config.bank_bytes or config.target.bank_modes[0]
    width = access.array.dtype.bytes * access.width
    sources = (
        None if site.source_offset is None else copy_sources.sources_of(config.with_source_offset(site), kernel.block)
    )
    constant_bytes = constant_reasons.bytes_read(kernel) if space == "constant" else 0
    subject = Subject(
        site,
        space,
        width,
        kernel.block,
        config.target,
        bank_bytes,
        wording,
        sources,
        config.cache_of(access),
        period_of(space, width, config.target),
        constant_bytes,
    )
    each = per_request(unit, totals)
    if (worst := totals.worst_pattern) is not None:
        each = replace(each, transactions=global_reasons.transactions(subject, worst))
    verdict = "ideal" if cost == ideal else "costly"
    doubts = (*assumptions, MAY_SELECT if space == "local" else constant_reasons.doubt(constant_bytes, config.target))
    doubt = "; ".join(filter(None, doubts))
    words = Words(
        partial(wording.access, access),
        partial(reasons.claim, subject, totals, str(each)),
        partial(reasons.reason, subject, totals),
    )
    if doubt:
        verdict, words = "assumed", _assumed(words, doubt)
    return AccessReport(kernel.name, access, space, unit, totals, each, cost, ideal, verdict, words, doubt)


def _assumed(words: Words, doubt: str) -> Words:
    return Words(words.text, lambda: f"assumed: {words.claim()}", lambda: f"{words.reason()}; assumed: {doubt}")


def per_request(unit: str, totals: Totals) -> PerRequest:
    """Averages over all requests, and the worst request; zeros if nothing runs."""
    worst = totals.worst_pattern
    if worst is None:
        return PerRequest(unit, 0.0, 0.0, 0, 0)
    cost, ideal = figures(unit, totals)
    return PerRequest(unit, cost / totals.warps, ideal / totals.warps, *_cost_of(unit, worst))


def period_of(space: str, width: int, target: Target) -> int:
    """Period of the cost in a warp's addresses, in bytes.

    From 5.x on, a shift by one word permutes the banks; before, segments of 64 words (3.x) and of up to 256 bytes
    matter.
    """
    if target.shared_rule == "phases" and space == "shared":
        return max(4, width)
    if space in ("constant", "local"):
        return max(4, width)
    return max(32, width) if target.global_rule == "sectors" else 256


def figures(unit: str, totals: Totals) -> tuple[int, int]:
    """Cost and ideal of all requests, in a unit."""
    return {
        "wavefronts": (totals.wavefronts, totals.ideal_wavefronts),
        "sectors": (totals.sectors, totals.ideal_sectors),
        "requests": (totals.requests, totals.ideal_wavefronts),
    }[unit]


def request_figures(unit: str, totals: Totals) -> set[tuple[int, int]]:
    """(cost, ideal) of each kind of request, in a unit."""
    return {_cost_of(unit, pattern) for pattern in totals.patterns}


def _cost_of(unit: str, pattern: Pattern) -> tuple[int, int]:
    requests, wavefronts, ideal, sectors, ideal_sectors = pattern.cost
    return {"wavefronts": (wavefronts, ideal), "sectors": (sectors, ideal_sectors), "requests": (requests, ideal)}[unit]


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
