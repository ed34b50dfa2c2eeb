"""One run of a kernel on the CPU device, its accesses traced and held against the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cugen.abi.manifest import Manifest
from cugen.plan.kernel import Plan
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty.comparison import Comparison, compare
from cugen.runtime.honesty.prediction import predicted
from cugen.runtime.inputs import draw, known_params
from cugen.runtime.verify import make_job
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
    trace, begins = CpuDevice().trace(job), _begins(source)
    table = trace.table.copy()
    table["line"] = begins[table["line"]]
    first_lines = {number: int(begins[line]) for number, line in lines.items()}
    return compare(replace(trace, table=table), predicted(plan, first_lines, job))


def _begins(source: str) -> NDArray[np.int64]:
    """The line on which each line's statement begins: of one on several lines compilers name now this, now that."""
    begins, is_open = [0], False
    for number, line in enumerate(source.splitlines(), 1):
        begins.append(begins[-1] if is_open else number)
        text = line.strip()
        is_open = bool(text) and not text.startswith(("#", "//")) and not text.endswith((";", "{", "}"))
    return np.array(begins, np.int64)
