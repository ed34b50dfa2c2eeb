"""Trace of a kernel on the CPU device, compared with the plan's prediction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from cugen.abi.manifest import Manifest
from cugen.plan.kernel import Plan
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty.comparison import Comparison, compare
from cugen.runtime.honesty.prediction import predict
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
    """Compares trace and prediction for random inputs.

    `params` are the dynamic ones, `lines` those of `Kernel.access_lines`. RuntimeError where the run ends in a fault.
    """
    job = make_job(source, manifest, draw(spec, known_params(spec, params), seed), params)
    trace, statement_lines = CpuDevice().trace(job), _statement_lines(source)
    table = trace.table.copy()
    table["line"] = statement_lines[table["line"]]
    first_lines = {number: int(statement_lines[line]) for number, line in lines.items()}
    return compare(replace(trace, table=table), predict(plan, first_lines, job))


def _statement_lines(source: str) -> NDArray[np.int64]:
    """First line of each line's statement, since line tables name any line of a wrapped one."""
    first_lines, is_open = [0], False
    for number, line in enumerate(source.splitlines(), 1):
        first_lines.append(first_lines[-1] if is_open else number)
        text = line.strip()
        is_open = bool(text) and not text.startswith(("#", "//")) and not text.endswith((";", "{", "}"))
    return np.array(first_lines, np.int64)
