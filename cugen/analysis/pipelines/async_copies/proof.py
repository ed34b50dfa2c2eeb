"""The claims about a multistage pipeline of asynchronous copies, for every number of k-tiles."""

from __future__ import annotations

from collections.abc import Iterator

from cugen.analysis.pipelines.async_copies.flags import flags
from cugen.analysis.pipelines.async_copies.machine import Divided, Machine, has
from cugen.analysis.pipelines.async_copies.stage_numbers import StageNumbers
from cugen.analysis.pipelines.async_copies.states import Stage, State
from cugen.analysis.pipelines.claims import Claim, Fault, NotRecognised, PipelineProof, claim_of
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Array
from cugen.plan.nodes import CommitCopies, Copy
from cugen.plan.traversal.walking import walk_nodes

_REASONS = {
    "order": "k-tile f is copied to stage f % STAGES, and read from there",
    "copies": "a stage is read after a wait for its commit group, and a barrier",
    "stages": "a stage is overwritten after a barrier that follows its last read",
}


def prove_async_copies(kernel: Kernel) -> PipelineProof | None:
    """The claims about a kernel with commit groups of asynchronous copies; None for one without."""
    if not has(kernel.body, CommitCopies):
        return None
    copied = [node.target.array for node in walk_nodes(kernel.body) if isinstance(node, Copy)]
    tiles: dict[str, Array] = {array.symbol: array for array in copied if array.space == "shared"}
    counts = {int(array.shape[0]) for array in tiles.values() if array.shape and array.shape[0].is_Integer}
    if len(counts) != 1:
        reason = "the tiles have different numbers of stages"
        return PipelineProof(kernel.name, (Claim("structure", "unknown", reason),), "")
    if kernel.block[1:] != (1, 1):
        reason = "the block has more than one dimension"
        return PipelineProof(kernel.name, (Claim("structure", "unknown", reason),), "")
    (stages,) = counts
    machine = Machine(kernel, {name: n * stages for n, name in enumerate(tiles)}, StageNumbers(stages))
    gap = ""
    initial = {State((Stage(),) * (stages * len(tiles)))}
    try:
        try:
            machine.run(kernel.body, initial, {}, None)
        except Divided:
            machine.run(kernel.body, initial, {}, None)  # with the groups known, for the accesses before
        if machine.slices is not None:
            machine.slices.check()
    except NotRecognised as reason:
        gap = str(reason)
    claims = tuple(claim_of(name, reason, _faults(machine.faults.get(name), gap)) for name, reason in _REASONS.items())
    number = "every number of k-tiles"
    if machine.max_k_tiles <= machine.numbers.many + 1:
        number = "one k-tile" if machine.max_k_tiles == 1 else f"at most {machine.max_k_tiles} k-tiles"
    summary = f"for {number}: {stages} stages, commit groups and barriers order copies and reads"
    of_flags = flags(kernel)
    return PipelineProof(kernel.name, (*claims, of_flags) if of_flags else claims, summary)


def _faults(fault: Fault | None, gap: str) -> Iterator[Fault]:
    if fault is not None:
        yield fault
    if gap:
        yield Fault(gap, refutes=False)
