"""From a candidate to code that can be timed, on a CPU core: planned, held to limits, costed, compiled."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.analysis.launches.launch import occupancy_facts
from cugen.kernel import Kernel, generate
from cugen.kernel_report import analyze
from cugen.machine import default_device, target
from cugen.runtime.gpu import target_for
from cugen.schedule.lock import Schedules, filled
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Spec
from cugen.toolchain.codes import COMPILE_FAILED
from cugen.toolchain.cuda import Cubin, compile_cubin
from cugen.toolchain.errors import CompileError
from cugen.tune.limits import passed_limit

_MOST_SPILLED = 32  # bytes a thread: what spills more loses to what doesn't
_HOPELESS = 4.0  # times the least cost; the guess is a rough one
_LAUNCH_S = 2e-6  # that even an empty kernel takes
_CLOCK = 1.5e9  # Hz; near enough to compare two kernels on one device
_CACHE_SPEED = 3  # times the bandwidth of memory


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that isn't timed, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Others:
    """The candidates that were prepared before: the digests of their codes and the least of their costs."""

    digests: frozenset[str] = frozenset()
    least_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate's code, and a `digest` that is equal for equal code. `cost` is a guess of the seconds that it needs
    at least; None where that can't be said."""

    source: str
    manifest: str
    digest: str
    cost: float | None


def with_schedules(spec: Spec, schedules: Schedules) -> Spec:
    """The spec with a candidate's schedules where it is silent."""
    return replace(spec, schedules=filled(spec, schedules)) if schedules else spec


def prepare(
    spec: Spec, schedules: Schedules, capability: str, params: Mapping[str, int], others: Others | None = None
) -> Prepared | Dropped:
    """What is no better than `others`, as far as can be told, isn't compiled. ToolMissing, and CompileError for a
    target, as the compilers raise them."""
    others = others or Others()
    try:
        kernel = generate(with_schedules(spec, schedules), analysis=False)
    except SpecError as error:
        return Dropped(error.summary)
    digest = hashlib.sha256(_without_comments(kernel.source).encode()).hexdigest()
    if digest in others.digests:
        return Dropped("it is the same code as another")
    cost, least_cost = _cost(kernel, params), others.least_cost
    if cost is not None and least_cost is not None and cost > _HOPELESS * least_cost:
        return Dropped(f"the analysis expects {cost / least_cost:.1f} times the cost of another")
    try:
        cubin = compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))
    except CompileError as error:
        if error.code != COMPILE_FAILED:
            raise
        return Dropped(f"the compiler refused it: {str(error).splitlines()[0]}")
    if schedules and (reason := _unfit(kernel, cubin, capability) or passed_limit(kernel, params, cubin)):
        return Dropped(reason)
    return Prepared(kernel.source, kernel.manifest.to_json(), digest, cost)


def _without_comments(source: str) -> str:
    """The head of a source names the spec's file and the hash of its schedule."""
    return "\n".join(line for line in source.split("\n") if not line.lstrip().startswith("//"))


def _unfit(kernel: Kernel, cubin: Cubin, capability: str) -> str:
    for launch in kernel.plan.kernels:
        resources = cubin.kernels[launch.name]
        spilled = resources.spill_stores + resources.spill_loads
        if spilled > _MOST_SPILLED:
            return f"{launch.name} spills {spilled} bytes a thread"
        if occupancy_facts(launch, target(capability), resources).occupancy.blocks_per_sm == 0:
            return f"no SM holds a block of {launch.name}: {resources.registers} registers, {launch.threads} threads"
    return ""


def _cost(kernel: Kernel, params: Mapping[str, int]) -> float | None:
    """The sum over launches of what limits each: memory, its cache, shared memory or arithmetic, spread as evenly as
    the blocks are over the SMs."""
    device = default_device(kernel.spec.target)
    if device is None:
        return None
    total = 0.0
    for launch in analyze(kernel, params=params).kernels:
        facts = launch.facts
        blocks = facts.launch.blocks
        if facts.traffic is None or facts.work is None or not blocks:
            return None
        wavefronts, sectors = 0, 0
        for access in launch.accesses:
            if access.totals is None:
                return None
            wavefronts += access.totals.wavefronts if access.space == "shared" else 0
            sectors += access.totals.sectors if access.space == "global" else 0
        limits = (
            facts.traffic.compulsory / device.bandwidth,
            sectors * 32 / (device.bandwidth * _CACHE_SPEED),
            wavefronts / (device.sms * _CLOCK),
            facts.work.all_flop / device.peak(),
        )
        share = facts.hiding.bandwidth_share if facts.hiding else 1.0
        uneven = -(-blocks // device.sms) * device.sms / blocks
        total += max(_LAUNCH_S, max(*limits[1:], limits[0] / share) * uneven)
    return total
