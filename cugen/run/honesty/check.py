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
    return compare(CpuDevice().trace(job), predicted(plan, _lines_of_calls(lines, source), job))


def _lines_of_calls(lines: Mapping[int, int], source: str) -> Mapping[int, int]:
    """The same lines, but of an asynchronous copy that takes several the first: machine code knows that one alone."""
    texts = [line.strip() for line in source.splitlines()]

    def begin(number: int) -> int:
        first = number
        while first > 1 and texts[first - 2] and not texts[first - 2].endswith((";", "{", "}", ")")):
            first -= 1
        return first if texts[first - 1].startswith("__pipeline_memcpy_async(") else number

    return {access: begin(number) for access, number in lines.items()}
