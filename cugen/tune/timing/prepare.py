"""Preparation of a candidate on a CPU core: planning, cost model, compilation, resource limits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.analysis.launches.launch import occupancy_facts
from cugen.analysis.launches.price import plan_prices, total
from cugen.analysis.totals.budget import Unknown
from cugen.kernel import Kernel, generate
from cugen.machine import target
from cugen.runtime.gpu import target_for
from cugen.schedule.lock import Schedules, filled
from cugen.spec.diagnostics import SpecError
from cugen.spec.model import Spec
from cugen.toolchain.codes import COMPILE_FAILED
from cugen.toolchain.cuda import Cubin, compile_cubin, compilers
from cugen.toolchain.errors import CompileError
from cugen.tune.limits import passed_limit

_MAX_SPILL_BYTES = 32  # bytes per thread (heuristic: kernels that spill more lose)
_MAX_COST_RATIO = 4.0  # to the minimum cost so far (heuristic: the cost model is rough)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A candidate that isn't timed, with the reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class EarlierCandidates:
    """Candidates prepared before: digests of their code, and the minimum of their costs in seconds."""

    digests: frozenset[str] = frozenset()
    minimum_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Code of a candidate. `digest`: hash of the compiler and of the code without comments. `cost`: modelled time in
    seconds, None if unknown."""

    source: str
    manifest: str
    digest: str
    cost: float | None


def with_schedules(spec: Spec, schedules: Schedules) -> Spec:
    """The spec with a candidate's schedules wherever it sets none."""
    return replace(spec, schedules=filled(spec, schedules)) if schedules else spec


def prepare(
    spec: Spec,
    schedules: Schedules,
    capability: str,
    params: Mapping[str, int],
    earlier: EarlierCandidates | None = None,
) -> Prepared | Dropped:
    """Prepares a candidate. Duplicates of `earlier`, and candidates with a much higher modelled cost, aren't compiled.

    Raises ToolMissing without a compiler, and CompileError for an unsupported target."""
    earlier = earlier or EarlierCandidates()
    try:
        kernel = generate(with_schedules(spec, schedules), remarks="none")
    except SpecError as error:
        return Dropped(error.summary)
    digest = hashlib.sha256(f"{_compiler()}\n{_without_comments(kernel.source)}".encode()).hexdigest()
    if digest in earlier.digests:
        return Dropped("it has the same code as an earlier candidate")
    cost, minimum_cost = modelled_seconds(kernel, params), earlier.minimum_cost
    if cost is not None and minimum_cost is not None and cost > _MAX_COST_RATIO * minimum_cost:
        return Dropped(f"the analysis expects {cost / minimum_cost:.1f} times the cost of an earlier candidate")
    try:
        cubin = compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))
    except CompileError as error:
        if error.code != COMPILE_FAILED:
            raise
        return Dropped(f"the compiler rejected it: {str(error).splitlines()[0]}")
    if schedules and (reason := _unfit(kernel, cubin, capability) or passed_limit(kernel, params, cubin)):
        return Dropped(reason)
    return Prepared(kernel.source, kernel.manifest.to_json(), digest, cost)


def _compiler() -> str:
    """The compiler of `compile_cubin`."""
    return next((f"{compiler.name} {compiler.version}" for compiler in compilers()), "")


def _without_comments(source: str) -> str:
    """The source without comment lines: its header names the spec's file and the schedule's hash."""
    return "\n".join(line for line in source.split("\n") if not line.lstrip().startswith("//"))


def _unfit(kernel: Kernel, cubin: Cubin, capability: str) -> str:
    for launch in kernel.plan.kernels:
        resources = cubin.kernels[launch.name]
        spilled = resources.spill_stores + resources.spill_loads
        if spilled > _MAX_SPILL_BYTES:
            return f"{launch.name} spills {spilled} bytes per thread"
        if occupancy_facts(launch, target(capability), resources).occupancy.blocks_per_sm == 0:
            used = f"{resources.registers} registers, {launch.threads} threads"
            return f"a block of {launch.name} exceeds the resources of an SM: {used}"
    return ""


def modelled_seconds(kernel: Kernel, params: Mapping[str, int]) -> float | None:
    """Modelled time of the launches in seconds; None if the analysis can't count something."""
    try:
        price = total(plan_prices(kernel.plan, params))
    except Unknown:
        return None
    return price.seconds if price.is_complete else None
