"""Limits of a spec's `check:`, applied to candidates: `cugen check` must accept the tuned kernel."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.analysis.launches.facts import BranchFacts, facts
from cugen.analysis.limits.findings import Launch
from cugen.analysis.limits.gate import findings
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.kernel import Kernel
from cugen.kernel_report import settled_by_compiler
from cugen.plan.memory import Access
from cugen.spec.diagnostics import Related
from cugen.spec.expressions import NOWHERE
from cugen.spec.model import Check
from cugen.toolchain.cuda import Cubin


class _Unprinted:
    """Placeholder for a source, as the lines of findings are not shown."""

    def locate(self, access: Access, text: str, message: str) -> Related:
        return Related("", NOWHERE, message, "")

    def condition(self, branch: BranchFacts) -> str:
        return ""


def passed_limit(kernel: Kernel, params: Mapping[str, int], cubin: Cubin) -> str:
    """Message of the first limit of the spec that the kernel exceeds; empty if it exceeds none."""
    spec, context = kernel.spec, kernel.context
    if spec.check == Check():
        return ""
    known = {p.name: p.value for p in spec.params if p.value is not None} | dict(params)
    values = {context.symbols[name].name: value for name, value in known.items()}
    for made in kernel.plan.kernels:
        report = analyze_any_size(made, spec.target, values, {})
        resources = cubin.kernels[made.name]
        launch_facts = facts(made, context, spec.target, values, resources=resources, accesses=report.accesses)
        if spec.check.mixed_warps is not None:
            launch_facts = settled_by_compiler(kernel, made, launch_facts)
        for finding in findings(spec, spec.file, Launch(made, report, launch_facts), _Unprinted()):
            if finding.diagnostic.severity == "error":
                return finding.diagnostic.message
    return ""
