"""What kernels make of the precisions that `accumulate` allows: algorithms, and which have no effect, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from cugen.families.registry import first_family_name, is_specialised
from cugen.machine import Target, target
from cugen.machine.mma import FAST_FLOAT8, TF32, MmaInstruction, multiplies_float8
from cugen.plan.context import Context, make_context
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import Mma
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.request import Single
from cugen.plan.traversal.walking import walk_nodes
from cugen.rewrite.schedules import schedule_of
from cugen.rewrite.stored.winograd import with_winograd
from cugen.spec.expressions import Reduce, factors_of_product, walk
from cugen.spec.model import Statement

Product = tuple[str, str, str]  # the types of both factors and of the sum


def products(statements: Sequence[Statement], arrays: Mapping[str, Array]) -> Iterator[Product]:
    """The types of the sums of products of two arrays."""
    for statement in statements:
        for node in walk(statement.value):
            factors = factors_of_product(node.body, node.dtype) if isinstance(node, Reduce) else ()
            if factors and isinstance(node, Reduce) and node.kind == "sum":
                a, b = (arrays[read.array].dtype.name for read in factors)
                yield a, b, node.dtype.name


def algorithms(context: Context) -> tuple[str, ...]:
    """A sentence on each algorithm by which sums are rounded otherwise, as the spec allows."""
    declared = {statement.target for statement in context.original.statements}
    targets: dict[str, dict[str, None]] = {}
    for statement in context.spec.statements:
        if statement.algorithm and statement.target in declared:
            targets.setdefault(statement.algorithm, {})[statement.target] = None
    return tuple(
        f"{', '.join(names)} by {algorithm}, whose sums are rounded otherwise, as `winograd: true` allows"
        for algorithm, names in targets.items()
    )


def unused_precisions(context: Context, statements: Sequence[Statement], kernels: Sequence[Kernel]) -> tuple[str, ...]:
    """A sentence on each precision of the spec without an effect on the kernels of the statements."""
    precision, on = context.spec.precision, target(context.spec.target)
    types = tuple(dict.fromkeys(products(statements, context.arrays)))
    nodes = [node for kernel in kernels for node in walk_nodes(kernel.body)]
    used = {node.instruction for node in nodes if isinstance(node, Mma)}
    wgmmas = {node.instruction for node in nodes if isinstance(node, Wgmma)}
    reasons: dict[str, str] = {}
    if precision.tf32 and not any(mma.is_rounded for mma in used) and not any(wgmma.rounds for wgmma in wgmmas):
        reasons["tf32: true"] = _why_no_tf32(types, on) or _why_idle(TF32, kernels)
    if precision.is_fp8_fast and used.isdisjoint(FAST_FLOAT8.values()) and not any(w.sum_bits for w in wgmmas):
        reasons["fp8: fast"] = _why_no_fast_float8(types, on) or _why_idle(next(iter(FAST_FLOAT8.values())), kernels)
    if precision.winograd and not algorithms(context):
        reasons["winograd: true"] = _why_no_winograd(context)
    return tuple(f"`{key}` has no effect: {reason}" for key, reason in reasons.items())


def _why_no_winograd(context: Context) -> str:
    """Why no statement is computed by Winograd's algorithm: of those that are convolutions, if there are any."""
    spec = context.original
    reasons: list[str] = []
    for statement in spec.statements:
        schedule, on = schedule_of(spec, (statement,)), target(spec.target)
        steps = with_winograd(Single(statement, make_context(spec), schedule, on, is_specialised, first_family_name))
        if not isinstance(steps, str):
            return "the cost models don't expect it to be faster, or its launches don't honour the placements"
        reasons.append(steps)
    return reasons[-1]


def _why_no_tf32(types: Sequence[Product], on: Target) -> str:
    if ("float32",) * 3 in types:
        return TF32.feature.why_not(on)
    return f"it is for sums in float32 of float32 x float32, {_sums(types)}"


def _why_no_fast_float8(types: Sequence[Product], on: Target) -> str:
    if not any((a, b) in FAST_FLOAT8 and accumulated == "float32" for a, b, accumulated in types):
        return f"it is for sums in float32 of products of float8, {_sums(types)}"
    return "" if multiplies_float8(on) else f"{on.name} multiplies float8 as float16"


def _sums(types: Sequence[Product]) -> str:
    """What the sums of the spec are instead."""
    texts = [f"{accumulated} of {a} x {b}" for a, b, accumulated in types]
    return f"not in {' or '.join(texts)}" if texts else "and no sum is of a product of two arrays"


def _why_idle(instruction: MmaInstruction, kernels: Sequence[Kernel]) -> str:
    """Why no kernel has the instruction, which the target has."""
    idle = (kernel.idle_unit for kernel in kernels if kernel.idle_unit is not None)
    reasons = [unit.reason for unit in idle if unit.peak == instruction.peak]
    return reasons[0] if reasons else "CUDA cores multiply"
