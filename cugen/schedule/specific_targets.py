"""What a spec's target leaves aside of the devices of its compute capability."""

from __future__ import annotations

from dataclasses import replace

from cugen.machine import architecture_specific
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.traversal.walking import walk_nodes
from cugen.schedule.planner import make_plan
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Spec


def unused_target(spec: Spec) -> str:
    """``sm_90a would multiply by wgmma: `--target sm_90a` `` where the spec is for `sm_90` and that is so; else empty.

    A schedule of a lock file isn't part of the other plan: it was tuned for the spec's target."""
    specific = architecture_specific(spec.target)
    if specific == spec.target:
        return ""
    written = spec.schedules if spec.tuned is None else spec.tuned.written
    try:
        plan = make_plan(replace(spec, target=specific, schedules=written, tuned=None))
    except SpecError:
        return ""
    if not any(isinstance(node, Wgmma) for kernel in plan.kernels for node in walk_nodes(kernel.body)):
        return ""
    return f"{specific} would multiply by wgmma: `--target {specific}`"
