"""Findings about the partitions of device memory, on 1.x."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.hardware.dram import spread_text
from cugen.analysis.limits import codes
from cugen.analysis.limits.anchors import statement_anchor
from cugen.analysis.limits.findings import Finding, LaunchLimits
from cugen.analysis.totals.partitions import PartitionSpread
from cugen.machine.dram import PARTITION_BYTES


class PartitionGate(LaunchLimits):
    """Warnings of partition camping that another pitch cures."""

    def run(self) -> Iterator[Finding]:
        texts = {report.access.serial: report.text for report in self.launch.report.accesses}
        for spread in self.facts.partitions:
            if spread.pitch:
                yield self._camping(spread, texts[spread.access.serial])

    def _camping(self, spread: PartitionSpread, text: str) -> Finding:
        access, count = spread.access, len(spread.moved)
        busy = sum(moved > 0 for moved in spread.moved)
        return self.finding(
            codes.PARTITION_CAMPING,
            f"`{text}` of a wave of blocks goes to {busy} of {count} partitions of device memory on {self.target.name}",
            statement_anchor(self.spec, self.kernel, access),
            label=f"the busiest serves {spread.crowding:.3g} times its even share",
            notes=(spread_text(spread), *(_step(name, size, count) for name, size in spread.steps)),
            help=f"write `pitch: {spread.pitch}` for `{access.array.name}`, which callers have to store so",
            severity="warning",
            subject=f"partitions of {access.kind} {text}",
            shown=self.printed.locate(access, text, f"{busy} of {count} partitions"),
            kernel=self.kernel.name,
        )


def _step(name: str, size: int, partitions: int) -> str:
    """How many partitions the next block is further."""
    step = f"{name} + 1 is {abs(size):,} bytes further"
    if size % PARTITION_BYTES:
        return step
    whole = abs(size) // PARTITION_BYTES
    return f"{step}: {whole:,} times {PARTITION_BYTES} bytes, and {whole:,} mod {partitions} = {whole % partitions}"
