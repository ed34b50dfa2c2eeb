"""Runs drawn kernels on a GPU at full size: inputs are drawn there, and a sample of each output is compared with the
reference."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from cugen.bench.buffers import Buffers
from cugen.bench.check import check
from cugen.bench.measure import own_contender
from cugen.bench.session import Session, session
from cugen.kernel import Kernel
from cugen.runtime.inputs import known_params


def gpu_faults(kernel: Kernel, dynamic: Mapping[str, int]) -> Iterator[str]:
    """Elements that differ from the reference, and bytes written out of place."""
    opened, spec = _session(), kernel.spec
    buffers = Buffers(opened, spec, kernel.manifest, known_params(spec, dynamic), seed=0)
    try:
        contender, scalars = own_contender(opened, spec, kernel, buffers, dynamic, seed=0)
        contender.run(0)
        yield from check(opened, spec, buffers, dynamic, scalars, seed=0).messages
    finally:
        buffers.release()


@functools.cache
def _session() -> Session:
    """The session of this process."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(session())
