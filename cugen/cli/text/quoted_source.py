"""Source excerpts for findings: the lines of accesses, and conditions in C."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cugen.analysis.launches.facts import BranchFacts
from cugen.emit.printer.nodes import NodePrinter
from cugen.kernel import Kernel
from cugen.kernel_report import expression_text
from cugen.plan.memory import Access
from cugen.plan.nodes import AcquireSpinWait, Copy, For, If, Load, ReturnUnless
from cugen.spec.diagnostics import Related
from cugen.spec.expressions import Span


@dataclass(frozen=True)
class PrintedLaunch:
    """One launch in the .cu. `lines`: the whole file. `line_of`: line of each access (1-based), by its serial
    number."""

    file: str
    lines: tuple[str, ...]
    line_of: Mapping[int, int]
    printer: NodePrinter

    def locate(self, access: Access, text: str, message: str) -> Related:
        number = self.line_of[access.serial]
        line = self.lines[number - 1]
        start = line.find(text)
        stop = start + len(text)
        if start < 0:  # not found: the access is printed with a cast
            start = line.find(f"{access.printed()[0]}[")
            stop = line.find("]", start) + 1
        if start < 0 or stop <= start:  # wrapped over several lines
            start, stop = len(line) - len(line.lstrip()), len(line)
        return Related(self.file, Span(number, start + 1, number, stop + 1), message, line)

    def condition(self, branch: BranchFacts) -> str:
        if branch.kind in ("choice", "function", "conversion"):
            return expression_text(branch, self.printer)
        node = branch.node
        match node:
            case AcquireSpinWait():
                return self.printer.spin_wait(node)
            case For():
                return self.printer.loop(node)
            case ReturnUnless(guard=guard) | Load(guard=guard) | Copy(guard=guard) if guard is not None:
                return self.printer.condition(guard)
            case If(condition=condition):
                return self.printer.condition(condition)
        raise TypeError(f"{type(node).__name__} has no condition")


def printed_launches(kernel: Kernel) -> tuple[PrintedLaunch, ...]:
    """Launches in order, with the file name of `cugen generate`."""
    plan = kernel.plan
    line_of = kernel.line_of_access()
    scalars, params = dict(plan.scalar_symbols), dict(plan.param_symbols)
    lines = tuple(kernel.source.splitlines())
    return tuple(
        PrintedLaunch(f"{kernel.name}.cu", lines, line_of, NodePrinter(dict(made.ranges), scalars, params))
        for made in plan.kernels
    )
