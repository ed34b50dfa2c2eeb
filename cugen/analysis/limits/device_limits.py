"""Limits of `check` on a launch as a device executes it: full warps, blocks for all SMs, waves, traffic, roofline."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.launches.price import Price, launch_price
from cugen.analysis.launches.sentences import time_text
from cugen.analysis.launches.traffic import Traffic
from cugen.analysis.limits import codes
from cugen.analysis.limits.anchors import Anchor, kernel_anchor
from cugen.analysis.limits.findings import TOLERANCE, Finding, LaunchLimits, number
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import SPIN_WAIT
from cugen.machine import device as known_device
from cugen.machine.latency import EMPTY_LAUNCH_SECONDS
from cugen.machine.requests.warp import WARP_SIZE
from cugen.spec.expressions import NOWHERE

_WORTHWHILE = 1.2  # modelled time by that on all SMs, from which on a small grid is a warning (heuristic)
_SMALLER_BLOCKS = "use a smaller `block`, fewer elements per thread, or split the reduction (`split_k`)"
_NO_DEVICE = "the table has no device of the target"


class DeviceGate(LaunchLimits):
    """Findings about a launch on the device of its facts."""

    def run(self) -> Iterator[Finding]:
        yield from self._block()
        yield from self._grid()
        yield from self._waves()
        yield from self._traffic()
        yield from self._roofline()

    def _block(self) -> Iterator[Finding]:
        threads, blocks = self.facts.launch.threads, self.facts.launch.blocks
        if threads < WARP_SIZE and (blocks is None or blocks > 1):
            yield self.finding(
                codes.IDLE_LANES,
                f"blocks of {self.kernel.name} have {threads} thread{'s' * (threads > 1)}: {WARP_SIZE - threads} of "
                f"the {WARP_SIZE} lanes of every warp are idle",
                self._block_anchor(),
                label="less than a warp",
                notes=("an SM executes whole warps, and issues and fetches for all of their lanes",),
                help=f"choose a `block` whose threads are a multiple of {WARP_SIZE}",
                severity="warning",
                subject="block",
                kernel=self.kernel.name,
            )

    def _block_anchor(self) -> Anchor:
        """Location of the schedule's `block`, else of the statement."""
        for name, schedule in self.spec.schedules:
            if schedule.block and schedule.span_of("block") != NOWHERE:
                return Anchor(schedule.span_of("block"), f"schedule.{name}.block" if name else "schedule.block")
        return kernel_anchor(self.spec, self.kernel)

    def _grid(self) -> Iterator[Finding]:
        limit, blocks = self.check.grid, self.facts.launch.blocks
        if not self.facts.device or blocks is None:
            if limit is not None:
                yield from self._unproved("grid")
            return
        sms = known_device(self.facts.device).sms
        message = (
            f"{self.kernel.name} has {blocks:,} block{'s' * (blocks != 1)} for the {sms} SMs of {self.facts.device}"
        )
        if limit is not None and blocks < limit * sms * (1 - TOLERANCE):
            label = f"{number(blocks / sms)} blocks per SM, at least {limit:g} required"
            yield self._small_grid(message, self.limit_anchor("grid"), label, "error")
        elif limit is None and self._is_slowed_by_grid(blocks, sms):
            label = f"{sms - blocks} SMs are idle"
            yield self._small_grid(message, kernel_anchor(self.spec, self.kernel), label, "warning")

    def _small_grid(self, message: str, anchor: Anchor, label: str, severity: str) -> Finding:
        price = self._price()
        notes = () if isinstance(price, str) else (_modelled(price), _bound(price))
        return self.finding(
            codes.SMALL_GRID,
            message,
            anchor,
            label=label,
            notes=notes,
            help=_SMALLER_BLOCKS,
            severity=severity,
            subject="small grid",
            kernel=self.kernel.name,
        )

    def _is_slowed_by_grid(self, blocks: int, sms: int) -> bool:
        """Whether SMs are idle, and the launch would take less time on all of them: not if it has so little work that
        an empty launch takes as long."""
        price = self._price()
        if not 0 < blocks < sms or isinstance(price, str) or price.limiter in ("launch", "memory"):
            return False
        return price.seconds > _WORTHWHILE * max(EMPTY_LAUNCH_SECONDS, price.seconds * blocks / sms)

    def _waves(self) -> Iterator[Finding]:
        limit, waves = self.check.waves, self.facts.waves
        if limit is None:
            return
        if waves is None:
            yield from self._unproved("waves")
            return
        if waves.utilisation >= limit * (1 - TOLERANCE):
            return
        registers = "registers not counted" if self.facts.occupancy.registers is None else "as compiled"
        yield self.finding(
            codes.UNEVEN_WAVES,
            f"the blocks of {self.kernel.name} use {number(waves.utilisation)} of the block slots of "
            f"{self.facts.device} over its waves",
            self.limit_anchor("waves"),
            label=f"at least {limit:g} is required",
            notes=(
                f"{number(waves.waves)} waves of {waves.at_once:,} resident blocks ({registers}): {waves.full_waves:,} "
                f"full, and a tail of {waves.tail_blocks:,} block{'s' * (waves.tail_blocks != 1)}",
            ),
            help="choose a `block` with which the number of blocks is a multiple of the resident ones or much larger, "
            "or a persistent schedule (`stream_k`)",
            subject="waves",
            kernel=self.kernel.name,
        )

    def _traffic(self) -> Iterator[Finding]:
        if not self.check.is_set("traffic"):
            return
        traffic = self.facts.traffic
        if traffic is None:
            yield from self._unproved("traffic")
            return
        if self.check.traffic is not None:
            yield from self._moved("", traffic, self.check.traffic)
        for name, array, limit in self.check.by_array:
            if name == "traffic":
                yield from self._moved(array, traffic, limit)

    def _moved(self, array: str, traffic: Traffic, limit: float) -> Iterator[Finding]:
        """Findings about an array, or about all of them if it is empty."""
        rows = [row for row in traffic.arrays if array in ("", row.name)]
        compulsory = sum(row.compulsory for row in rows)
        moved = [row.moved for row in rows if row.moved is not None]
        subject = f"traffic of {array}" if array else "traffic"
        if len(moved) < len(rows):
            yield from self._unproved("traffic", "an address depends on data")
        elif sum(moved) > limit * compulsory * (1 + TOLERANCE):
            whose = f" of {array}" if array else ""
            yield self.finding(
                codes.MUCH_TRAFFIC,
                f"{self.kernel.name} moves {number(sum(moved) / compulsory)} times the compulsory bytes{whose}",
                self.limit_anchor("traffic"),
                label=f"at most {limit:g} allowed",
                notes=tuple(
                    f"{row.array}: {row.moved:,} bytes {row.direction} in sectors, {row.compulsory:,} compulsory"
                    for row in rows
                ),
                help="stage what threads share in `memory: shared`, use larger tiles, or make the accesses coalesced",
                subject=subject,
                kernel=self.kernel.name,
            )

    def _roofline(self) -> Iterator[Finding]:
        limit = self.check.roofline
        if limit is None:
            return
        price = self._price()
        if isinstance(price, str):
            yield from self._unproved("roofline", price)
            return
        share = price.bound.seconds / price.seconds
        if share < limit * (1 - TOLERANCE):
            yield self.finding(
                codes.FAR_FROM_BOUND,
                f"{self.kernel.name} reaches {number(share)} of its roofline on {self.facts.device}",
                self.limit_anchor("roofline"),
                label=f"at least {limit:g} is required",
                notes=(_modelled(price), _bound(price)),
                help="reduce what limits it; `cugen inspect --what analysis` has all ceilings",
                subject="roofline",
                kernel=self.kernel.name,
            )
        elif any(report.totals is None and report.doubt != SPIN_WAIT for report in self.launch.report.accesses):
            yield from self._unproved("roofline", "the cost of an access is unknown, so this is the least time")

    def _price(self) -> Price | str:
        """The modelled time of the launch, or why it is unknown."""
        if not self.facts.device:
            return _NO_DEVICE
        try:
            return launch_price(self.facts, self.launch.report.accesses, known_device(self.facts.device))
        except Unknown as why:
            return str(why)

    def _unproved(self, name: str, why: str = "") -> Iterator[Finding]:
        """A finding about a limit, unless the check allows what is unknown."""
        if not self.check.allow_unknown:
            reason = why or self.facts.unknown or _NO_DEVICE
            yield self.unproved_launch(name, f"whether {self.kernel.name} keeps `{name}` is unknown", (reason,))


def _modelled(price: Price) -> str:
    return f"modelled time {time_text(price.seconds)}, limited by {price.limiter}"


def _bound(price: Price) -> str:
    return f"the bound is {time_text(price.bound.seconds)}, by {price.bound_limiter}"
