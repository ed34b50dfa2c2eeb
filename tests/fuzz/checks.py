"""What a drawn spec must hold: it is planned and analysed, its vector accesses are aligned, its kernels compile."""

from __future__ import annotations

import time
import traceback
from collections.abc import Iterator, Mapping

from cugen.kernel import Kernel, generate
from cugen.plan.alignment import unaligned
from cugen.plan.registers.assignment import unassigned_reads
from cugen.plan.registers.estimate import dynamic_arrays
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.toolchain.codes import TARGET_UNKNOWN
from cugen.toolchain.cuda import compile_cubin
from cugen.toolchain.errors import CompileError
from tests.cpu_time import usual_seconds

from .bounds import bounds_faults
from .stores import store_faults

TOO_LARGE_A_TEXTURE = "CG3105"  # a refusal that drawn sizes may earn
MAX_SECONDS = 10.0  # of CPU for one spec (heuristic)
MAX_SPILLED_BYTES = 64  # per thread: what a compiler spills round a loop, not in it
MAX_STACK_BYTES = 64  # per thread: that of a mathematical function


def plan_faults(text: str, dynamic: Mapping[str, int]) -> Iterator[str]:
    """Why a valid spec can't be generated: an error or an exception, an unaligned access, an array in registers that is
    indexed at run time, stores that don't make up the outputs, an access outside of its array, seconds of analysis."""
    began = time.process_time()
    try:
        (spec,) = load_text(text)
        kernel = generate(spec)
    except SpecError as error:
        if any(diagnostic.code != TOO_LARGE_A_TEXTURE for diagnostic in error.diagnostics):
            yield f"refused: {error.summary}"
        return
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        yield f"{type(error).__name__} at {where.filename}:{where.lineno}: {error}"
        return
    if time.process_time() - began > MAX_SECONDS and (seconds := usual_seconds(began)) > MAX_SECONDS:
        yield f"{seconds:.0f} seconds to plan and analyse it"
    for launch in kernel.plan.kernels:
        yield from (f"{a.array.name} is not always aligned" for a in unaligned(launch.body, kernel.plan.context))
        for name in sorted(dynamic_arrays(launch, kernel.plan.context)):
            yield f"{name} is in registers and indexed at run time"
        yield from (f"{name} may be read without a value" for name in unassigned_reads(launch))
    yield from store_faults(kernel, dynamic)
    yield from bounds_faults(kernel, dynamic)


def compile_faults(kernel: Kernel) -> Iterator[str]:
    """Errors and warnings of a CUDA compiler, launches that spill registers, and such that keep arrays in local memory.
    A target that the compiler doesn't know any more is left out."""
    try:
        cubin = compile_cubin(kernel.source, kernel.name, kernel.spec.target)
    except CompileError as error:
        if error.code != TARGET_UNKNOWN:
            yield error.output
        return
    yield from (f"{kernel.name}.cu:{warning.line}: {warning.text}" for warning in cubin.warnings)
    for name, launch in cubin.kernels.items():
        if launch.spill_stores > MAX_SPILLED_BYTES:
            yield f"{name} spills {launch.spill_stores} bytes of registers"
        elif launch.stack_bytes > MAX_STACK_BYTES:
            yield f"{name} keeps {launch.stack_bytes} bytes of arrays in local memory"
