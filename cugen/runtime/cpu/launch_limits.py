"""Limits of a launch that the compiled .cu sets, and the manifest doesn't show."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from cugen.abi.limits import dynamic_limits
from cugen.abi.manifest import Manifest
from cugen.machine.table import target
from cugen.runtime.cpu.source import Declarations
from cugen.runtime.cpu.symbols import SharedArray
from cugen.runtime.device import Fault


def launch_fault(manifest: Manifest, declared: Declarations, shared: Iterable[SharedArray]) -> Fault | None:
    """The first launch that a GPU refuses: more threads than `__launch_bounds__`, or more shared memory than a block
    of the manifest's target has. `shared` are the static arrays of all kernels."""
    known = target(manifest.target)
    arrays = tuple(shared)
    opted_in = dynamic_limits(manifest)
    for launch in manifest.launches:
        threads = prod(launch.block)
        if (bounds := declared.launch_bounds.get(launch.kernel)) and threads > bounds.threads:
            message = f"{launch.kernel} is launched with {threads} threads per block, its launch bounds are"
            return Fault("launch", f"{message} {bounds.threads}", bounds.line)
        static = sum(array.bytes for array in arrays if array.function == launch.kernel)
        limit = max(known.shared_per_block, known.shared_opt_in if launch.kernel in opted_in else 0)
        if static > known.shared_per_block or static + launch.dynamic_shared_bytes > limit:
            amounts = f"{static} bytes of static and {launch.dynamic_shared_bytes} of dynamic shared memory"
            allowed = f"this launch allows {known.shared_per_block} static, and {limit} in all, on {known.name}"
            return Fault("launch", f"{launch.kernel} needs {amounts}; {allowed}")
    return None
