"""Inputs staged in shared memory: the tile of each that a block reads, with its halo, then one thread per output."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.families.base import Family, Match, Refusal, Refusals, Request, refuse_tunables
from cugen.families.staged import config as configs
from cugen.families.staged.config import StagedConfig, choose_config, shared_bytes, walk_unasked, windows_unasked
from cugen.families.staged.kernel import StagedBuilder
from cugen.pieces.grid import AXES, MAX_BLOCK_Z, fastest_first
from cugen.plan.traversal.ragged import has_ragged_range
from cugen.rewrite.align_reductions import with_common_indices
from cugen.spec.expressions import Reduce, Scan, walk


def match(request: Request) -> Match | Refusals:
    """The tiles of the inputs that the spec places in shared memory; or of those that a long reduction reads for every
    output of a block, or of windows; or why there are none."""
    if reasons := tuple(_form_refusals(request)):
        return Refusals(reasons)
    aligned = request.with_statements(with_common_indices(request.group.statements, request.context))
    config = _config(aligned)
    if isinstance(config, Refusal):
        return Refusals((config,))
    if reasons := tuple(_tile_refusals(request, config)):
        return Refusals(reasons)
    return Match(lambda: StagedBuilder(aligned, config).kernel())


def keeps_nested(request: Request) -> bool:
    """Whether nested reductions are faster in a walk than in temporaries."""
    if tuple(_form_refusals(request)) or any(array.memory.space == "shared" for array in request.touched()):
        return False
    aligned = request.with_statements(with_common_indices(request.group.statements, request.context))
    return configs.keeps_nested(aligned, fastest_first(aligned))


def _config(request: Request) -> StagedConfig | Refusal:
    order = fastest_first(request)
    if placed := tuple(array.name for array in request.touched() if array.memory.space == "shared"):
        return choose_config(request, order, placed)
    if any(
        isinstance(node, Reduce) and has_ragged_range(node) for s in request.group.statements for node in walk(s.value)
    ):
        return Refusal("stages what all results read; ranges that end at elements are reduced by `reduce`")
    walked = walk_unasked(request, order)
    return windows_unasked(request, order) if isinstance(walked, Refusal) else walked


def _form_refusals(request: Request) -> Iterator[Refusal]:
    yield from refuse_tunables(request, ())
    arrays = [array for array in request.touched() if array.memory.space == "shared"]
    for array in arrays:
        key = f"arrays.{array.name}.memory"
        if array.role not in ("input", "baked"):
            yield Refusal(f"stages inputs only, and statements write {array.name}", key)
        if array.memory.stages > 1:
            yield Refusal(f"fills the tile of {array.name} once: there is nothing to pipeline", key)
    for array in request.touched() if Reduce in request.node_kinds() else ():
        if array.memory.space == "register" and array.role != "temporary":
            yield Refusal(f"has no use for {array.name} in registers", f"arrays.{array.name}.memory")
    if any(not statement.indices for statement in request.group.statements):
        yield Refusal("takes arrays, not single elements")
    if Scan in request.node_kinds():
        yield Refusal("takes no scans")
    yield from _size_refusals(request)


def _size_refusals(request: Request) -> Iterator[Refusal]:
    if not request.group.statements[0].indices:
        return
    names = [index.name for index in fastest_first(request)]
    for key in ("block", "thread"):
        for name, size in getattr(request.schedule, key):
            if name not in names[: len(AXES)] and size != 1:
                yield Refusal(f"{key} sizes are for {', '.join(names[: len(AXES)])}", f"schedule.{key}.{name}")
            elif key == "block" and size > MAX_BLOCK_Z and names.index(name) == 2:
                reason = f"{name} maps to z, where a block has at most {MAX_BLOCK_Z} threads"
                yield Refusal(reason, f"schedule.block.{name}")


def _tile_refusals(request: Request, config: StagedConfig) -> Iterator[Refusal]:
    memory = [request.context.spec.array(tile.array).memory for tile in config.tiles]
    is_dynamic = bool(memory) and all(m.dynamic for m in memory)
    allowed = request.target.shared_opt_in if is_dynamic else request.target.shared_per_block
    needed = shared_bytes(request, config)
    if needed > allowed:
        names = ", ".join(dict.fromkeys(tile.array for tile in config.tiles))
        reason = f"the tiles of {names} take {needed} bytes of shared memory, {allowed} are allowed"
        yield Refusal(reason, f"arrays.{config.tiles[0].array}.memory")


FAMILY = Family(
    "staged",
    rank=11,
    doc="inputs staged in shared memory, with the halo that adjacent outputs share",
    match=match,
    keeps_nested=keeps_nested,
    is_general=True,
    fallback=True,
)
