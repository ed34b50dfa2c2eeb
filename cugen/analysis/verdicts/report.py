"""The report of a kernel: for every access its exact cost on a target, how that stands to the least possible, and why.

Verdicts: `ideal` and `costly` are proved by exact totals; `assumed` rests on a rule of the hardware that is neither
published nor measured; `unknown` couldn't be computed. The last two say why.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from cugen.analysis.totals.exact import Cost, Pattern, Totals, Unknown, totals
from cugen.analysis.totals.sites import DATA_DEPENDENT_GUARD, Site, sites
from cugen.analysis.verdicts import copy_sources, reasons
from cugen.analysis.verdicts.wording import Wording
from cugen.machine import Target
from cugen.machine import target as known_target
from cugen.machine.requests import async_copies
from cugen.machine.requests.request import warp_request
from cugen.machine.target import Cache
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access

# What a space's cost is counted in.
UNITS = {"shared": "wavefronts", "global": "sectors", "constant": "requests"}
SPACES = {"shared": "shared", "constant": "constant", "global": "global", "readonly": "global", "table": "global"}


@dataclass(frozen=True)
class PerRequest:
    """What one instruction of one warp costs, in the unit of the access: on average over the launch, and where it is
    furthest from its ideal."""

    unit: str
    average: float
    ideal_average: float
    worst: int
    worst_ideal: int

    def __str__(self) -> str:
        """`5 sectors, ideal 4; 4.4 on average`."""
        unit = self.unit[:-1] if self.worst == 1 else self.unit
        text = f"{self.worst} {unit}, ideal {self.worst_ideal}"
        ideal = self.worst == self.worst_ideal and self.average == self.ideal_average
        return text if ideal or self.average == self.worst else f"{text}; {_short(self.average)} on average"


@dataclass(frozen=True)
class AccessReport:
    """One access over the whole launch.

    `text` is the access as the source prints it, but for casts. `unit` says what `cost` and `ideal` count; these are 0,
    `totals` and `per_request` None where the verdict is unknown. `claim` fits a comment, `reason` derives it. `doubt`
    is why a verdict is assumed or unknown, empty where it is neither.
    """

    kernel: str
    access: Access
    text: str
    space: str
    unit: str
    totals: Totals | None
    per_request: PerRequest | None
    cost: int
    ideal: int
    verdict: str
    claim: str
    reason: str
    doubt: str = ""

    @property
    def ratio(self) -> float | None:
        """Cost ÷ ideal; None where it is unknown, 1 where nothing runs."""
        if self.verdict == "unknown" or self.per_request is None:
            return None
        return self.cost / self.ideal if self.ideal else 1.0


@dataclass(frozen=True)
class KernelReport:
    """All accesses of one launch outside registers, in the order of the source."""

    kernel: str
    target: str
    accesses: tuple[AccessReport, ...]


@dataclass(frozen=True)
class Setting:
    """What a launch is analysed for: the target and how it is set, and where the arrays start.

    bank_bytes: 3.x only, how wide its banks are set. cache: 2.x to 5.x only, where global loads are cached. offsets:
    for an array of the spec, how many bytes past a multiple of 256 its buffer starts.
    """

    target: Target
    bank_bytes: int | None = None
    cache: Cache | None = None
    offsets: Mapping[str, int] | None = None

    def totals(self, kernel: Kernel, site: Site) -> tuple[Totals, tuple[str, ...]]:
        """`site_totals` of one access. ValueError where its array doesn't start as the access needs."""
        array = site.access.array
        shared = array.space == "shared"
        start = array.dynamic_offset if shared else (self.offsets or {}).get(array.name, 0)
        width = array.dtype.bytes * site.access.width
        if start % width:
            raise ValueError(f"{array.name} starts at byte {start}, but {width} bytes are moved at once")
        cache = self.cache if SPACES[array.space] == "global" else None
        site = self.moved(site)
        return site_totals(kernel, site, self.target, start=start, bank_bytes=self.bank_bytes, cache=cache)

    def moved(self, site: Site) -> Site:
        """The site with what it is copied from, if it is, as far on as its array starts."""
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
) -> KernelReport:
    """The report of one launch. `params` gives every param's value by its name in C.

    offsets: for arrays of the spec that start inside a larger buffer, by how many bytes their start misses a multiple
        of 256.
    bank_bytes: 3.x only: how wide its banks are set, 4 (unless given) or 8.
    cache: 2.x to 5.x only: where global loads are cached, `l1` or `l2`; the target's default unless given.

    ValueError for an offset that is no multiple of what an access moves at once, and for what the target hasn't got.
    """
    setting = make_setting(kernel, target, offsets, bank_bytes, cache)
    wording = Wording.of(kernel, params)
    found = [
        report(kernel, site, setting, wording) for site in sites(kernel, params) if site.access.array.space in SPACES
    ]
    return KernelReport(kernel.name, setting.target.name, tuple(found))


def make_setting(
    kernel: Kernel,
    target: Target | str,
    offsets: Mapping[str, int] | None,
    bank_bytes: int | None,
    cache: Cache | None,
) -> Setting:
    row = known_target(target) if isinstance(target, str) else target
    if bank_bytes is not None and bank_bytes not in row.bank_modes:
        known = ", ".join(map(str, row.bank_modes))
        raise ValueError(f"{row.name} has no banks of {bank_bytes} bytes; known are {known}")
    arrays = sorted({array.name for array in kernel.arrays})
    for name in offsets or {}:
        if name not in arrays:
            raise ValueError(f"no array {name!r} in {kernel.name}; known are {', '.join(arrays)}")
    return Setting(row, bank_bytes, cache, offsets)


def report(kernel: Kernel, site: Site, setting: Setting, wording: Wording) -> AccessReport:
    """One access, at known sizes."""
    try:
        found, assumptions = setting.totals(kernel, site)
    except Unknown as why:
        return unknown(kernel, site, wording, str(why))
    return judged(kernel, site, setting, wording, found, assumptions)


def unknown(kernel: Kernel, site: Site, wording: Wording, why: str) -> AccessReport:
    """The report of an access whose cost can't be computed."""
    space, text = SPACES[site.access.array.space], wording.access(site.access)
    claim = f"unknown: {why}"
    return AccessReport(
        kernel.name, site.access, text, space, UNITS[space], None, None, 0, 0, "unknown", claim, why, why
    )


def site_totals(
    kernel: Kernel,
    site: Site,
    target: Target,
    *,
    start: int = 0,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
) -> tuple[Totals, tuple[str, ...]]:
    """The totals of one access over the launch, and what they assume. Unknown where they can't be given.

    `start` is the first byte of the array, counted from a multiple of 256."""
    access = site.access
    if site.opaque:
        raise Unknown(site.opaque)
    space = SPACES[access.array.space]
    width = access.array.dtype.bytes * access.width
    if site.source_guard is not None and width < async_copies.L1_BYPASS_BYTES:
        return _held_back(kernel, site, target, start)
    sources = None if site.source_offset is None else copy_sources.sources_of(site, kernel.block)
    assumptions: dict[str, None] = {}

    def measure(addresses: tuple[int | None, ...]) -> Cost:
        found = warp_request(
            space, access.kind, width, addresses, target, bank_bytes=bank_bytes, cache=cache, sources=sources
        )
        if found.assumption:
            assumptions.setdefault(found.assumption)
        return found.requests, found.wavefronts, found.ideal_wavefronts, found.sectors, found.ideal_sectors

    by_lines = sources is not None and width == async_copies.L1_BYPASS_BYTES  # then it matters where lines begin
    period = async_copies.LINE_BYTES if by_lines else period_of(space, width, target)
    found = totals(site, kernel.block, access.array.dtype.bytes, period, measure, start)
    return found, tuple(assumptions)


def _held_back(kernel: Kernel, site: Site, target: Target, start: int) -> tuple[Totals, tuple[str, ...]]:
    """A copy whose source a guard holds back: of narrow ones, zeros are written by instructions of their own,
    which count as such."""
    assert site.source_guard is not None
    if not site.source_guard.depends_only_on(site.counters):
        raise Unknown(DATA_DEPENDENT_GUARD)
    filled = replace(site.source_guard, negated=not site.source_guard.negated)
    parts = (
        replace(site, predicates=(*site.predicates, site.source_guard), source_guard=None),
        replace(site, predicates=(*site.predicates, filled), source_guard=None, source_offset=None, source=None),
    )
    (read, doubts), (zeros, more) = (site_totals(kernel, part, target, start=start) for part in parts)
    sums = {f.name: getattr(read, f.name) + getattr(zeros, f.name) for f in fields(Totals)}
    return Totals(**sums), tuple(dict.fromkeys((*doubts, *more)))


def judged(
    kernel: Kernel, site: Site, setting: Setting, wording: Wording, found: Totals, assumptions: tuple[str, ...]
) -> AccessReport:
    """The verdict on exact totals, with its reason."""
    access = site.access
    space = SPACES[access.array.space]
    unit = UNITS[space]
    cost, ideal = _figures(unit, found)
    each = per_request(unit, found)
    bank_bytes = setting.bank_bytes or setting.target.bank_modes[0]
    width = access.array.dtype.bytes * access.width
    sources = None if site.source_offset is None else copy_sources.sources_of(setting.moved(site), kernel.block)
    subject = reasons.Subject(site, space, width, kernel.block, setting.target, bank_bytes, wording, sources)
    verdict = "ideal" if cost == ideal else "costly"
    claim = reasons.claim(subject, found, str(each))
    reason = reasons.reason(subject, found)
    doubt = "; ".join(assumptions)
    if doubt:
        verdict, claim, reason = "assumed", f"assumed: {claim}", f"{reason}; assumed: {doubt}"
    text = wording.access(access)
    return AccessReport(kernel.name, access, text, space, unit, found, each, cost, ideal, verdict, claim, reason, doubt)


def per_request(unit: str, found: Totals) -> PerRequest:
    """Averages over all requests, and the request that is furthest from its ideal; zeros where nothing runs."""
    worst = found.worst_pattern
    if worst is None:
        return PerRequest(unit, 0.0, 0.0, 0, 0)
    cost, ideal = _figures(unit, found)
    return PerRequest(unit, cost / found.warps, ideal / found.warps, *_cost_of(unit, worst))


def period_of(space: str, width: int, target: Target) -> int:
    """Bytes by which all addresses of a warp may move without a change of cost.

    From 5.x on, moving by one word turns the banks and leaves their crowding as it is; before, segments of 64 words
    (3.x) and of up to 256 bytes count."""
    if target.shared_rule == "phases" and space == "shared":
        return max(4, width)
    if space == "constant":
        return max(4, width)
    return max(32, width) if target.global_rule == "sectors" else 256


def _figures(unit: str, found: Totals) -> tuple[int, int]:
    return {
        "wavefronts": (found.wavefronts, found.ideal_wavefronts),
        "sectors": (found.sectors, found.ideal_sectors),
        "requests": (found.requests, found.ideal_wavefronts),
    }[unit]


def _cost_of(unit: str, pattern: Pattern) -> tuple[int, int]:
    requests, wavefronts, ideal, sectors, ideal_sectors = pattern.cost
    return {"wavefronts": (wavefronts, ideal), "sectors": (sectors, ideal_sectors), "requests": (requests, ideal)}[unit]


def _short(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
