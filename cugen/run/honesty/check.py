"""One run of a kernel on the CPU device, its accesses traced and held against the plan."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.plan.ir import Plan
from cugen.plan.manifest import Manifest
from cugen.run.cpu import CpuDevice
from cugen.run.honesty.comparison import Comparison, compare
from cugen.run.honesty.prediction import predicted
from cugen.run.inputs import draw, known_params
from cugen.run.verify import make_job
from cugen.spec.model import Spec


def check_honesty(
    spec: Spec,
    plan: Plan,
    source: str,
    manifest: Manifest,
    lines: Mapping[int, int],
    params: Mapping[str, int],
    *,
    seed: int = 0,
) -> Comparison:
    """Random inputs; `params` are the dynamic ones, `lines` those of `Kernel.access_lines`. RuntimeError where the run
    ends in a fault."""
    job = make_job(source, manifest, draw(spec, known_params(spec, params), seed), params)
    return compare(CpuDevice().trace(job), predicted(plan, lines, job))
