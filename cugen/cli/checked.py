"""Results of `cugen check`: kernels with their launches and findings, and the rejected specs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cugen.analysis.launches.comparison import Compared
    from cugen.analysis.limits.findings import Finding, Launch
    from cugen.cli.resources import Resources
    from cugen.cli.text.quoted_source import PrintedLaunch
    from cugen.kernel import Kernel
    from cugen.spec.diagnostics import Diagnostic


@dataclass(frozen=True)
class Checked:
    """One kernel with its launches and findings. `resources` are empty unless a limit required compilation."""

    kernel: Kernel
    file: str
    params: Mapping[str, int]
    launches: tuple[Launch, ...]
    printed: tuple[PrintedLaunch, ...]
    resources: Resources
    findings: tuple[Finding, ...]

    @property
    def compared(self) -> Compared:
        """The kernel as one side of a comparison."""
        from cugen.analysis.launches import comparison

        launches = (
            comparison.Launch(launch.kernel.name, launch.kernel.family, launch.report.accesses, launch.facts)
            for launch in self.launches
        )
        return comparison.Compared(self.kernel.spec, tuple(launches))

    @property
    def passed(self) -> bool:
        return all(finding.diagnostic.severity != "error" for finding in self.findings)


@dataclass(frozen=True)
class Outcome:
    """Report of a check: the analysed kernels, and the findings of rejected specs."""

    kernels: tuple[Checked, ...]
    refused: tuple[Diagnostic, ...] = ()

    @property
    def passed(self) -> bool:
        return not self.refused and all(kernel.passed for kernel in self.kernels)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        return (*self.refused, *(finding.diagnostic for kernel in self.kernels for finding in kernel.findings))
