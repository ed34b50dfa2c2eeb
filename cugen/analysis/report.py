"""The report of a kernel: for every access its exact cost on a target, and how that stands to the least possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.analysis.requests import warp_request
from cugen.analysis.sites import Site, sites
from cugen.analysis.totals import Cost, Totals, Unknown, totals
from cugen.plan.ir import Access, Kernel
from cugen.targets import Target
from cugen.targets import target as known_target

# What a space's cost is counted in.
_UNITS = {"shared": "wavefronts", "global": "sectors", "constant": "requests"}
_SPACES = {"shared": "shared", "constant": "constant", "global": "global", "readonly": "global", "table": "global"}


@dataclass(frozen=True)
class AccessReport:
    """One access over the whole launch.

    `unit` says what `cost` and `ideal` count. `verdict` is ideal, costly, assumed (some rule of the hardware is neither
    published nor measured) or unknown (`reason` then says why); `totals` is None exactly for unknown.
    """

    kernel: str
    access: Access
    space: str
    unit: str
    totals: Totals | None
    cost: int
    ideal: int
    verdict: str
    reason: str = ""

    @property
    def ratio(self) -> float | None:
        """Cost ÷ ideal; None where it is unknown, 1 where nothing runs."""
        if self.totals is None:
            return None
        return self.cost / self.ideal if self.ideal else 1.0


@dataclass(frozen=True)
class KernelReport:
    """All accesses of one launch outside registers, in the order of the source."""

    kernel: str
    target: str
    accesses: tuple[AccessReport, ...]


def analyze_kernel(kernel: Kernel, target: Target | str, params: Mapping[str, int]) -> KernelReport:
    """The report of one launch. `params` gives every param's value by its name in C."""
    row = known_target(target) if isinstance(target, str) else target
    found = [_report(kernel, site, row) for site in sites(kernel, params) if site.access.array.space in _SPACES]
    return KernelReport(kernel.name, row.name, tuple(found))


def site_totals(kernel: Kernel, site: Site, target: Target) -> tuple[Totals, tuple[str, ...]]:
    """The totals of one access over the launch, and what they assume. Unknown where they can't be given."""
    array = site.access.array
    space = _SPACES[array.space]
    width = array.dtype.bytes * site.access.width
    assumptions: dict[str, None] = {}

    def measure(addresses: tuple[int | None, ...]) -> Cost:
        found = warp_request(space, site.access.kind, width, addresses, target)
        if found.assumption:
            assumptions.setdefault(found.assumption)
        ideal = 1 if space == "constant" else found.ideal_wavefronts
        return found.requests, found.wavefronts, ideal, found.sectors, found.ideal_sectors

    total = totals(site, kernel.block, array.dtype.bytes, _period(space, width, target), measure)
    return total, tuple(assumptions)


def _report(kernel: Kernel, site: Site, target: Target) -> AccessReport:
    space = _SPACES[site.access.array.space]
    unit = _UNITS[space]
    try:
        total, assumptions = site_totals(kernel, site, target)
    except Unknown as why:
        return AccessReport(kernel.name, site.access, space, unit, None, 0, 0, "unknown", str(why))
    cost, ideal = {
        "wavefronts": (total.wavefronts, total.ideal_wavefronts),
        "sectors": (total.sectors, total.ideal_sectors),
        "requests": (total.requests, total.ideal_wavefronts),
    }[unit]
    verdict = "ideal" if cost == ideal else "costly"
    if assumptions:
        verdict = "assumed"
    return AccessReport(kernel.name, site.access, space, unit, total, cost, ideal, verdict, "; ".join(assumptions))


def _period(space: str, width: int, target: Target) -> int:
    """Bytes by which all addresses of a warp may move without a change of cost.

    From 5.x on, moving by one word turns the banks and leaves their crowding as it is; before, segments of 64 words
    (3.x) and of up to 256 bytes count."""
    if target.capability >= (5, 0) and space == "shared":
        return max(4, width)
    if space == "constant":
        return max(4, width)
    return max(32, width) if target.capability >= (6, 0) else 256
