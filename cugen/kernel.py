"""`Kernel`: a spec with its plan and the files that it gives."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cugen.abi.manifest import Manifest
from cugen.emit.inputs import input_hash
from cugen.emit.manifests import make_manifest
from cugen.emit.source import render
from cugen.plan.context import Context
from cugen.plan.kernel import Plan
from cugen.plan.remarks import Remarks
from cugen.schedule.planner import make_plan
from cugen.schedule.splitting import plan_context
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Spec

if TYPE_CHECKING:
    from cugen.runtime.call.callable import Compiled


@dataclass(frozen=True, repr=False)
class Kernel:
    """`source` is the text of <stem>.cu, `header` of <stem>.h; `manifest` is what <stem>.json says."""

    spec: Spec
    plan: Plan
    source: str
    header: str
    manifest: Manifest
    remarks: Remarks = field(default=Remarks())

    def __repr__(self) -> str:
        families = ", ".join(kernel.family for kernel in self.plan.kernels)
        return f"<Kernel {self.name} for {self.spec.target}: {families}>"

    @property
    def name(self) -> str:
        return self.spec.kernel

    @property
    def context(self) -> Context:
        """The names that the plan and the source share."""
        return plan_context(self.spec)

    def provenance(self) -> Mapping[int, str]:
        """For each line of the source (1-based), the template line and the spec key that it came from."""
        from cugen.emit.provenance import provenance

        return provenance(self.context, self.plan, self.remarks)

    def access_lines(self) -> Mapping[int, int]:
        """The line of the source (1-based) of each access, by its number in the plan."""
        from cugen.emit.provenance import access_lines

        return access_lines(self.context, self.plan, self.remarks)

    def compile(self, device: str = "gpu") -> Compiled:
        """The kernel as a function of arrays, by name: `fn(A=a, B=b, C=c, stream=s)`; outputs are given too.

        `device` is "gpu", whose arrays may be anything with `__cuda_array_interface__` or DLPack, or "cpu", for NumPy
        arrays. Arguments are checked at each call (RunError).
        """
        from cugen.runtime.call.callable import compiled
        from cugen.runtime.cpu import CpuDevice

        if device not in ("gpu", "cpu"):
            raise ValueError(f'device is "gpu" or "cpu", not {device!r}')
        return compiled(self.source, self.manifest, CpuDevice() if device == "cpu" else None)


def generate(
    spec: Spec, *, analysis: bool = True, lock: str | os.PathLike[str] | None = None, device_name: str = ""
) -> Kernel:
    """Plans a spec and prints its files; with `analysis`, each access of the source has its cost beside it.

    `lock` is a file that `cugen tune` wrote: what it says for `device_name`, or for the first of the target's devices,
    is the schedule where the spec is silent. One that no longer fits is left aside; the kernel's `spec.tuned` and the
    source then say so. SpecError where the spec asks for what no family can do, or the lock file is broken."""
    if lock is not None:
        from cugen.schedule.lock import apply, read

        spec = apply(spec, read(lock), device_name)
    made_from = input_hash(spec, analysis=analysis)
    try:
        plan = make_plan(spec)
    except SpecError as error:
        if spec.tuned is None:
            raise
        refused = replace(spec.tuned, refused=error.summary)
        spec = replace(spec, schedules=spec.tuned.written, tuned=refused)
        plan = make_plan(spec)
    context = plan_context(spec)
    remarks = Remarks()
    if analysis:
        from cugen.analysis.verdicts.comments import remarks_on

        remarks = remarks_on(context, plan)
    sources = render(context, plan, remarks)
    manifest = make_manifest(context, plan, sources.source, sources.header, made_from)
    return Kernel(spec, plan, sources.source, sources.header, manifest, remarks)
