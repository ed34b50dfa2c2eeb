"""`Kernel`: a spec with its plan and generated files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import jinja2

from cugen.abi.manifest import Manifest
from cugen.emit.inputs import REMARKS_MODES, RemarksMode, input_hash
from cugen.emit.manifests import make_manifest
from cugen.emit.overrides import TemplateError, Templates
from cugen.emit.printer.statements import EmissionError
from cugen.emit.source import render
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.remarks import Remarks
from cugen.plan.traversal.walking import accesses
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Spec

if TYPE_CHECKING:
    from cugen.analysis.bounds.claims import BoundsClaim
    from cugen.analysis.verdicts.report import AccessReport, KernelReport
    from cugen.runtime.call.callable import Compiled


@dataclass(frozen=True, repr=False)
class Kernel:
    """A generated kernel: the texts of <stem>.cu, <stem>.h and <stem>.hpp, and the manifest in <stem>.json."""

    spec: Spec
    plan: Plan
    source: str
    header: str
    typed_header: str
    manifest: Manifest
    remarks: Remarks = field(default=Remarks())
    reports: tuple[KernelReport, ...] = ()  # of the launches, for the spec's sizes; without remarks none
    bounds: tuple[BoundsClaim, ...] = ()  # of all accesses, for all sizes; without remarks none

    def __repr__(self) -> str:
        families = ", ".join(kernel.family for kernel in self.plan.kernels)
        return f"<Kernel {self.name} for {self.spec.target}: {families}>"

    def _repr_html_(self) -> str:
        """For notebooks."""
        from cugen.html.notebook import kernel_html

        lines = self.line_of_access() if self.reports else {}
        by_line: dict[int, list[AccessReport]] = {}
        for report in (report for analysed in self.reports for report in analysed.accesses):
            by_line.setdefault(lines[report.access.serial], []).append(report)
        return kernel_html(self.spec, self.plan.kernels, self.source, by_line)

    @property
    def name(self) -> str:
        return self.spec.kernel

    @property
    def context(self) -> Context:
        """The context of the plan: names, arrays and ranges."""
        return self.plan.context

    @property
    def headers(self) -> Mapping[str, str]:
        """Texts of the headers by file name: <stem>.h, and for C++ <stem>.hpp and cugen_launch.hpp."""
        from cugen.emit.files import LAUNCH_HEADER
        from cugen.emit.host.launch_header import launch_header

        return {
            f"{self.name}.h": self.header,
            f"{self.name}.hpp": self.typed_header,
            LAUNCH_HEADER: launch_header(),
        }

    def provenance(self) -> Mapping[int, str]:
        """Template line and spec key of each line of the source (1-based)."""
        from cugen.emit.provenance import provenance

        return provenance(self.context, self.plan, self.remarks)

    def access_lines(self) -> Mapping[int, int]:
        """Line of the source (1-based) of each access, by its number in the plan."""
        from cugen.emit.provenance import access_lines

        return access_lines(self.context, self.plan, self.remarks)

    def line_of_access(self) -> Mapping[int, int]:
        """Line of the source (1-based) of each access, by its serial number."""
        numbers = self.access_lines()
        planned = (access for made in self.plan.kernels for access in accesses(made.body))
        return {access.serial: numbers[position] for position, access in enumerate(planned)}

    def statement_lines(self) -> Mapping[int, range]:
        """Lines of the source (1-based) of each statement, and of each head of a loop or branch, by the node's `id`."""
        from cugen.emit.provenance import statement_lines

        return statement_lines(self.context, self.plan, self.remarks)

    def compile(self, device: str = "gpu") -> Compiled:
        """The kernel as a function of arrays by name, outputs included: `fn(A=a, B=b, C=c, stream=s)`.

        `device` is "gpu", for arrays with `__cuda_array_interface__` or DLPack, or "cpu", for NumPy arrays. Each call
        checks its arguments (RunError).
        """
        from cugen.runtime.call.callable import compiled
        from cugen.runtime.cpu import CpuDevice

        if device not in ("gpu", "cpu"):
            raise ValueError(f'device is "gpu" or "cpu", not {device!r}')
        return compiled(self.source, self.manifest, CpuDevice() if device == "cpu" else None)


def generate(
    spec: Spec,
    *,
    remarks: RemarksMode = "worst",
    analysis: bool = True,
    lock: str | os.PathLike[str] | None = None,
    device_name: str = "",
    templates: Templates = (),
) -> Kernel:
    """Plans a spec and generates its files.

    `remarks` are the accesses whose cost is in a comment beside them: "worst", those that are not ideal, with the ideal
    ones in a table in the head; "all"; or "none", without analysis, which is also what `analysis=False` asks for.
    `lock` is a file of `cugen tune`: its entry for `device_name`, by default the first of the target's devices, is the
    schedule where the spec has none. An entry that no family accepts is ignored, as `spec.tuned` and the source note.
    `templates` (`cugen.emit.overrides.read_templates`) replace those of families; they must print the same plan.
    SpecError where no family supports the spec, or for an invalid lock file; TemplateError for a wrong template;
    OutOfBounds, of a defect of the generator, for a plan with an access that is seen outside of its array;
    TypeError for what is no spec, such as the name of its file; ValueError for other `remarks`."""
    if not isinstance(spec, Spec):
        raise TypeError(f"a Spec is needed, not {type(spec).__name__}: cugen.load reads it")
    if remarks not in REMARKS_MODES:
        raise ValueError(f"`remarks` is {', '.join(REMARKS_MODES)}, not {remarks!r}")
    if not analysis:
        remarks = "none"
    if lock is not None:
        from cugen.schedule.lock import apply, read

        spec = apply(spec, read(lock), device_name)
    inputs = input_hash(spec, remarks=remarks, templates=templates)
    try:
        plan = make_plan(spec)
    except SpecError as error:
        if spec.tuned is None:
            raise
        refused = replace(spec.tuned, refused=error.summary)
        spec = replace(spec, schedules=spec.tuned.written, tuned=refused)
        plan = make_plan(spec)
    plan = replace(plan, templates=templates)
    claims = Remarks()
    reports: tuple[KernelReport, ...] = ()
    bounds: tuple[BoundsClaim, ...] = ()
    if remarks != "none":
        from cugen.analysis.bounds.claims import bounds_summary
        from cugen.analysis.bounds.proof import bounds_of
        from cugen.analysis.verdicts.comments import remarks_on, reports_of

        bounds = bounds_of(plan)
        reports = reports_of(plan.context, plan)
        claims = remarks_on(plan, reports, bounds_summary(bounds), lists_ideal=remarks == "worst")
    try:
        sources = render(plan.context, plan, claims)
    except (EmissionError, jinja2.TemplateError) as error:
        if not templates:
            raise
        line = f"{error.name}:{error.lineno}: " if isinstance(error, jinja2.TemplateSyntaxError) else ""
        raise TemplateError(f"{line}{error}") from error
    manifest = make_manifest(plan.context, plan, sources.source, sources.header, sources.typed_header, inputs)
    return Kernel(spec, plan, sources.source, sources.header, sources.typed_header, manifest, claims, reports, bounds)
