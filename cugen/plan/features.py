"""Features of CUDA C that a kernel uses, and those that its target lacks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.machine import Target
from cugen.machine.features import (
    ASYNC_COPIES,
    ATOMICS,
    CACHE_OPERATORS,
    CLUSTERS,
    EVICT_FIRST_LOADS,
    MATRIX_LOADS,
    MATRIX_STORES,
    NAMED_BARRIERS,
    READ_ONLY_LOADS,
    SHUFFLES,
    SPIN_WAITS,
    TENSOR_COPIES,
    TEXTURE_OBJECTS,
    TYPES,
    WARP_BARRIERS,
    WGMMA,
    Feature,
)
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array, Shuffled, Start
from cugen.plan.nodes import (
    AcquireSpinWait,
    AtomicAdd,
    Copy,
    CountArrival,
    FetchBlockId,
    LoadMatrix,
    Mma,
    NamedBarrier,
    Node,
    ReleaseFlag,
    StoreMatrix,
)
from cugen.plan.pipeline_nodes import (
    AwaitWgmmas,
    CommitWgmmas,
    FenceWgmma,
    PipelineNode,
    SetMaxRegisters,
    Wgmma,
)
from cugen.plan.request import Match, Refusal, Refusals, Request
from cugen.plan.traversal import usage
from cugen.plan.traversal.walking import accesses, accesses_of, walk_nodes
from cugen.spec.expressions import Cast, Expr, walk
from cugen.spec.types import DType


def why_unsupported(kernel: Kernel, target: Target) -> tuple[str, ...]:
    """The features of the kernel that the target lacks, each with the first target that has it."""
    return tuple(dict.fromkeys(filter(None, (feature.why_not(target) for feature in _features(kernel)))))


def refuse_unsupported(answer: Match | Refusals, request: Request) -> Match | Refusals:
    """A family's answer, or instead of a match the features of its kernel that the target lacks.

    Families choose by the later features themselves; the kernel is made only where they may not have asked, and once:
    made again, it would have other names."""
    unasked = (SHUFFLES, READ_ONLY_LOADS, TEXTURE_OBJECTS, EVICT_FIRST_LOADS)
    if isinstance(answer, Refusals) or all(feature.is_on(request.target) for feature in unasked):
        return answer
    kernel = answer.kernel()
    reasons = why_unsupported(kernel, request.target)
    return Refusals(tuple(map(Refusal, reasons))) if reasons else replace(answer, kernel=lambda: kernel)


def wide_fetches(body: tuple[Node, ...], arrays: Mapping[str, Array]) -> dict[str, str]:
    """Why arrays can't be textures, by name: they are read in ways that texture fetches don't have."""
    reasons: dict[str, str] = {}
    for node in walk_nodes(body):
        if isinstance(node, Start) and node.array.space == "texture":
            reasons.setdefault(node.array.name, f"reads {node.array.name} by a pointer, and a texture has none")
        for access in accesses_of(node):
            if access.array.space != "texture":
                continue
            name = access.array.name
            if isinstance(node, Copy) and node.asynchronous:
                reasons.setdefault(name, f"copies {name} asynchronously, and texture fetches go to registers")
            elif access.width > 1:
                reasons.setdefault(name, f"reads {name} by vectors, and a texture fetch reads one element")
            elif access.array.texture_2d is not None and access.array != arrays[name]:
                reasons.setdefault(name, f"reads {name} as an array of another shape, and a 2-D texture has its own")
    return reasons


def types_of(value: Expr) -> Iterator[DType]:
    """The types of an expression's nodes, and those that it rounds to."""
    for node in walk(value):
        yield node.to if isinstance(node, Cast) else node.dtype


def _features(kernel: Kernel) -> Iterator[Feature]:
    if kernel.is_clustered:
        yield CLUSTERS
    for node in walk_nodes(kernel.body):
        match node:
            case NamedBarrier():
                yield WARP_BARRIERS if node.is_of_warp else NAMED_BARRIERS
            case Copy(asynchronous=True):
                yield ASYNC_COPIES
            case LoadMatrix():
                yield MATRIX_LOADS
            case StoreMatrix():
                yield MATRIX_STORES
            case Mma():
                yield node.instruction.feature
            case Wgmma() | FenceWgmma() | CommitWgmmas() | AwaitWgmmas() | SetMaxRegisters():
                yield WGMMA
            case _ if isinstance(node, PipelineNode):
                yield TENSOR_COPIES
            case AcquireSpinWait():
                yield SPIN_WAITS
            case (
                AtomicAdd(access=access)
                | FetchBlockId(counter=access)
                | CountArrival(counter=access)
                | ReleaseFlag(access=access)
            ):
                yield ATOMICS[access.array.dtype.name, access.array.space]
    types = {array.dtype: None for array in usage.arrays(kernel.body)}
    for value in usage.values(kernel.body):
        types.update(dict.fromkeys(types_of(value)))
        if any(isinstance(leaf, Shuffled) for leaf in walk(value)):
            yield SHUFFLES
    yield from (TYPES[dtype.name] for dtype in types if dtype.name in TYPES)
    for access in accesses(kernel.body):
        if access.cache_operator:
            yield CACHE_OPERATORS
        elif access.streaming and not access.array.loads_readonly:
            yield EVICT_FIRST_LOADS
        if access.array.loads_readonly:
            yield READ_ONLY_LOADS
        if access.array.space == "texture":
            yield TEXTURE_OBJECTS
