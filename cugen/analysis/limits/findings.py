"""Findings of `cugen check`, and what those of one launch share: the spec, the launch, its limits and its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cugen.analysis.launches.facts import BranchFacts, Facts
from cugen.analysis.limits import codes
from cugen.analysis.limits.anchors import Anchor
from cugen.analysis.verdicts.report import KernelReport
from cugen.machine import target as known_target
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.spec.diagnostics import Diagnostic, Related
from cugen.spec.expressions import NOWHERE
from cugen.spec.model import Spec

TOLERANCE = 1e-9  # relative, for the rounding of limits such as 1.1
_ALLOW = "`unknown: allow` under `check` accepts what is unproved"


class Printed(Protocol):
    """Generated source of the kernel."""

    def locate(self, access: Access, text: str, message: str) -> Related:
        """Location of an access in the .cu, where it is printed as `text`."""

    def condition(self, branch: BranchFacts) -> str:
        """Condition of a guard, branch or loop, in C; of an expression, what may branch in it."""


@dataclass(frozen=True, slots=True)
class Launch:
    """Kernel with its report and facts."""

    kernel: Kernel
    report: KernelReport
    facts: Facts


@dataclass(frozen=True, slots=True)
class Finding:
    """Diagnostic about one launch, or about the arithmetic of a spec; `subject` identifies it independently of figures
    and lines."""

    diagnostic: Diagnostic
    kernel: str
    subject: str


class SpecLimits:
    """The limits of a spec."""

    def __init__(self, spec: Spec, file: str) -> None:
        self.spec, self.file = spec, file
        self.check = spec.check
        self.lines = spec.text.splitlines()

    def limit_anchor(self, name: str) -> Anchor:
        return Anchor(dict(self.check.spans).get(name, NOWHERE), f"check.{name}")

    def limit_note(self, name: str, limit: float) -> str:
        return f"the limit is `check.{name}: {limit:g}` in line {self.limit_anchor(name).span.line}"

    def finding(
        self,
        code: str,
        message: str,
        anchor: Anchor,
        *,
        label: str,
        notes: tuple[str, ...],
        help: str,
        severity: str = "error",
        subject: str,
        shown: Related | None = None,
        kernel: str = "",
    ) -> Finding:
        """A finding of the spec, or of one of its launches (`kernel`)."""
        span = anchor.span
        line = self.lines[span.line - 1] if 0 < span.line <= len(self.lines) else ""
        related = () if shown is None else (shown,)
        diagnostic = Diagnostic(code, message, self.file, span, anchor.key, label, notes, help, line, severity, related)
        return Finding(diagnostic, kernel or self.spec.kernel, subject)


class LaunchLimits(SpecLimits):
    """The limits of a spec on one launch."""

    def __init__(self, spec: Spec, file: str, launch: Launch, printed: Printed) -> None:
        super().__init__(spec, file)
        self.launch, self.printed = launch, printed
        self.kernel, self.facts = launch.kernel, launch.facts
        self.target = known_target(launch.report.target)

    @property
    def allow(self) -> str:
        """What helps against a limit that the analysis can't vouch for."""
        missing = [param.name for param in self.spec.params if param.name in self.facts.unknown.split()]
        return f"`--set {missing[0]}=…` checks it at a size; {_ALLOW}" if missing else _ALLOW

    def unproved_launch(self, name: str, message: str, notes: tuple[str, ...]) -> Finding:
        """A limit on the launch that the analysis can't vouch for."""
        return self.finding(
            codes.UNPROVED,
            message,
            self.limit_anchor(name),
            label=f"can't be held to `{name}`",
            notes=notes,
            help=self.allow,
            subject=name,
            kernel=self.kernel.name,
        )


def number(value: float) -> str:
    """At most three digits, and no more than it takes."""
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"
