"""The limits of a spec's `check:`, held against a candidate: a faster kernel that the gate refuses is of no use."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.analysis.launches.facts import facts
from cugen.analysis.limits.gate import Launch, findings
from cugen.analysis.verdicts.dynamic import analyze_any_size
from cugen.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Node
from cugen.spec.diagnostics import Related
from cugen.spec.expressions import NOWHERE
from cugen.spec.model import Check
from cugen.toolchain.cuda import Cubin


class _Unprinted:
    """Stands for a source whose lines nobody will be shown."""

    def locate(self, access: Access, text: str, message: str) -> Related:
        return Related("", NOWHERE, message, "")

    def condition(self, node: Node) -> str:
        return ""


def passed_limit(kernel: Kernel, params: Mapping[str, int], cubin: Cubin) -> str:
    """The first of the spec's limits that the kernel passes, in words; empty where it passes none."""
    spec, context = kernel.spec, kernel.context
    if spec.check == Check():
        return ""
    known = {p.name: p.value for p in spec.params if p.value is not None} | dict(params)
    values = {context.symbols[name].name: value for name, value in known.items()}
    for made in kernel.plan.kernels:
        report = analyze_any_size(made, spec.target, values, {})
        resources = cubin.kernels[made.name]
        launch_facts = facts(made, context, spec.target, values, resources=resources, accesses=report.accesses)
        for finding in findings(spec, spec.file, Launch(made, report, launch_facts), _Unprinted()):
            if finding.diagnostic.severity == "error":
                return finding.diagnostic.message
    return ""
