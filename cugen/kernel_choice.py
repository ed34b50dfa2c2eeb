"""The choice among kernels that compute the same, as the launcher of their `<name>.h` makes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cugen.abi.choice import BlockCost, Candidate, fastest
from cugen.abi.limits import Limits, those_that_fit
from cugen.abi.sizes import evaluate_all
from cugen.analysis.launches.facts import facts
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.verdicts.report import analyze_kernel
from cugen.kernel import Kernel
from cugen.machine import default_device
from cugen.machine.occupancy import occupancy
from cugen.runtime.inputs import known_params
from cugen.toolchain.cuda import compile_cubin


def block_cost(kernel: Kernel) -> BlockCost | None:
    """What a block of the kernel costs at typical sizes, on the default device of its target; None for a plan of
    several launches, for a target without a device, and where the analysis doesn't know."""
    spec, device = kernel.spec, default_device(kernel.spec.target)
    if device is None or len(kernel.plan.kernels) != 1:
        return None
    (launch,) = kernel.plan.kernels
    symbols = kernel.context.symbols
    values = {str(symbols[param.name]): param.typical for param in spec.params}
    try:
        accesses = analyze_kernel(launch, spec.target, values).accesses
        known = facts(launch, kernel.context, spec.target, values, device=device, accesses=accesses)
    except Unknown:
        return None
    loads, resident, blocks = known.hiding or known.copies, known.occupancy.occupancy.blocks_per_sm, known.launch.blocks
    if known.traffic is None or known.traffic.moved is None or loads is None or not resident or not blocks:
        return None
    in_flight = loads.bytes_in_flight / resident
    saturating = loads.latency.saturating_bytes or loads.bytes_needed
    if not in_flight:
        return None
    return BlockCost(*(float(f"{figure:.6g}") for figure in (known.traffic.moved / blocks, in_flight, saturating)))


def fastest_that_fits(
    kernels: Sequence[Kernel], limits: Limits, sms: int, params: Mapping[str, int] | None = None
) -> Kernel:
    """The variant that the launcher of the variants' `<name>.h` calls on a device of so many SMs: of those that fit it
    the one that takes least by the model; if what any costs is unknown, the largest.

    params: of dynamic ones the values. Compiles the kernels, whose registers limit the blocks on an SM. RunError
    (CG5010) where none fits, ValueError for no kernels; CompileError and ToolMissing of the compiler."""
    fitting = those_that_fit(kernels, limits)
    candidates = []
    for kernel in fitting:
        cost = block_cost(kernel)
        if cost is None:
            return fitting[0]
        grid = evaluate_all(kernel.manifest.launches[0].grid, known_params(kernel.spec, params or {}))
        candidates.append(Candidate(cost, prod(grid), _resident(kernel)))
    return fitting[fastest(candidates, sms)]


def _resident(kernel: Kernel) -> int:
    """Blocks that an SM of the kernel's target holds at once."""
    (launch,) = kernel.manifest.launches
    resources = compile_cubin(kernel.source, kernel.name, kernel.manifest.target).kernels[launch.kernel]
    shared = launch.shared_bytes + launch.dynamic_shared_bytes
    return occupancy(kernel.manifest.target, prod(launch.block), resources.registers, shared).blocks_per_sm
