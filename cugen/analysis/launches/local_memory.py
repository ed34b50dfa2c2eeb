"""Local memory of a launch: register arrays that are indexed at run time, and functions with arrays of their own.

Whether an array is in local memory is assumed, until a compiler's figures settle it. Spilled registers are counted
separately (`spills`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from cugen.analysis.launches.conditional_code import LOCAL_MEMORY_BYTES, reduces_range
from cugen.analysis.launches.launch import Resources
from cugen.analysis.verdicts.local_arrays import MAY_SELECT, bytes_of, local_arrays
from cugen.analysis.verdicts.report import AccessReport
from cugen.plan.kernel import Kernel
from cugen.plan.traversal.usage import values
from cugen.spec.expressions import Op, walk


@dataclass(frozen=True, slots=True)
class LocalFacts:
    """Local memory of a thread without spilled registers: at least `low` and at most `high` bytes.

    arrays: those indexed at run time, by their names in C, with their bytes. functions: those with arrays of their own.
    """

    arrays: tuple[tuple[str, int], ...]
    functions: tuple[str, ...]
    low: int
    high: int

    @property
    def array_bytes(self) -> tuple[int, int]:
        """The least and the most bytes that register arrays take."""
        if not self.arrays:
            return 0, 0
        others = LOCAL_MEMORY_BYTES if self.functions else 0
        return max(0, self.low - others), self.high


def local_facts(kernel: Kernel, resources: Resources | None) -> LocalFacts:
    """Local memory of a launch. With a compiler's stack, all of it is local memory; its spills are part of it."""
    arrays = tuple((name, bytes_of(array, kernel)) for name, array in local_arrays(kernel).items())
    leaves = (leaf for value in values(kernel.body) for leaf in walk(value))
    functions = {
        f"{leaf.name} of {leaf.dtype.name}": None for leaf in leaves if isinstance(leaf, Op) and reduces_range(leaf)
    }
    if resources is not None:
        # Each slot of a spilled register is stored at least once.
        low = max(0, resources.stack_bytes - resources.spill_stores)
        high = resources.stack_bytes if arrays or functions else low
    else:
        low, high = 0, sum(-(-size // _ALIGNMENT) * _ALIGNMENT for _, size in arrays)
        high += LOCAL_MEMORY_BYTES if functions else 0
    return LocalFacts(arrays, tuple(functions), low, high)


_ALIGNMENT = 16  # bytes, of an array in local memory


def settled_accesses(reports: Iterable[AccessReport], local: LocalFacts) -> tuple[AccessReport, ...]:
    """The reports as a compiler settles them: without accesses of arrays that it keeps in registers, and without the
    assumption where it keeps them in local memory."""
    low, high = local.array_bytes
    if high == 0:
        return tuple(report for report in reports if report.space != "local")
    if low == 0:
        return tuple(reports)
    return tuple(_in_local_memory(report) for report in reports)


def _in_local_memory(report: AccessReport) -> AccessReport:
    if report.space != "local" or report.doubt != MAY_SELECT:
        return report
    words = replace(
        report.words,
        claim=lambda: report.claim.removeprefix("assumed: "),
        reason=lambda: report.reason.removesuffix(f"; assumed: {MAY_SELECT}"),
    )
    verdict = "ideal" if report.cost == report.ideal else "costly"
    return replace(report, verdict=verdict, words=words, doubt="")
