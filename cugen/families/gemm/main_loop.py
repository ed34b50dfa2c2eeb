"""Main loop of a GEMM block: multistage copy pipeline, double-buffered register fragments, multiply-accumulates.

    for stage in 0 .. STAGES-2:                                       # prologue: fill STAGES-1 buffers
        copy(gA[k_tile stage] -> As[stage]), copy(gB -> Bs); commit
    wait(until STAGES-2 groups are pending); barrier                  # stage 0 is complete and visible
    load_fragments(read_stage = 0, k = 0)
    for k0 in 0, BK, 2*BK .. K-1:                                     # main loop over k-tiles
        copy(gA[k0 + (STAGES-1)*BK] -> As[write_stage]) ..; commit    # prefetch
        for k in 1 .. WK-1:                                           # k steps of the warp tile
            load_fragments(read_stage, k)                             # into buffer k % 2
            acc += a_frag[(k-1) % 2] * b_frag[(k-1) % 2]
        wait(until STAGES-2 groups are pending); barrier
        load_fragments(next_stage, k = 0)                             # of the next k-tile
        acc += a_frag[1] * b_frag[1]
    epilogue(acc)                                                     # in `epilogue`, `reduction_epilogue`

If K isn't a multiple of BK, the first k-tile is the partial one (K residue), filled with zeros at its front: only the
prologue checks bounds. On tensor cores a k step is `mma_k` long.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.copy.pipeline import OperandPipeline
from cugen.families.gemm.fragments.simt import SimtFragments
from cugen.families.gemm.fragments.tensor import TensorFragments
from cugen.pieces.blocks import define
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.memory import Array
from cugen.plan.nodes import (
    AwaitCopies,
    Barrier,
    Comment,
    CommitCopies,
    Comparison,
    Define,
    For,
    Guard,
    If,
    Index,
    Loop,
    NamedBarrier,
    Node,
    Section,
)
from cugen.plan.symbols import Choice, FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer


def prologue(thread: ThreadCoordinates, pipelines: list[OperandPipeline], k_padded: Integer) -> tuple[Section, ...]:
    """Copies of the first STAGES - 1 k-tiles."""
    block_k, stages = thread.config.block_k, thread.config.stages
    min_k = bounds(k_padded, thread.lowering.ranges)[0]
    stage = thread.loop_index("stage", stages - 1)
    clamp: tuple[Node, ...] = ()
    k: Integer = stage.symbol * block_k
    in_bounds = thread.k_residue == 0 and min_k >= block_k
    if in_bounds and min_k < (stages - 1) * block_k:
        # With fewer k-tiles than stages the last one is copied several times.
        clamped = define("prologue_k", Minimum(k, k_padded - block_k), thread.lowering)
        clamp = (clamped,)
        k = clamped.index.symbol
    copy_a, copy_b = (pipeline.copies(stage.symbol, k, in_bounds=in_bounds) for pipeline in pipelines)
    body = (
        Section("k", clamp),
        Section("copy_a", copy_a),
        Section("copy_b", copy_b),
        Section("commit", _commit(pipelines)),
    )
    pointers = tuple(pipeline.source_pointer for pipeline in pipelines if pipeline.source_pointer is not None)
    loop = Loop(stage, integer(0), integer(stages - 1), unroll=True)
    return Section("source_pointers", pointers), Section("prologue", (For(loop, body),))


class MainLoop:
    """The loop over the k-tiles of a block's range: `k_extent` elements, `k_padded` with the zeros of the K residue.
    Each thread adds to its `accumulators`."""

    def __init__(
        self,
        thread: ThreadCoordinates,
        pipelines: list[OperandPipeline],
        accumulators: Array,
        fragment_widths: tuple[int, int],
        k_extent: Integer,
        k_padded: Integer,
    ) -> None:
        self.thread, self.config, self.pipelines = thread, thread.config, pipelines
        self.k_padded = k_padded
        lowering, block_k = thread.lowering, self.config.block_k
        max_k_tiles = bounds(ceil_div(k_extent, block_k), lowering.ranges)[1]
        name = lowering.names.allocate(f"{thread.contraction.k.name}0")
        self.k0 = Index(name, integer(0), (0, max_k_tiles * block_k))
        lowering.ranges[self.k0.symbol] = (0, max(max_k_tiles - 1, 0) * block_k)
        self.fragments: SimtFragments | TensorFragments = (
            TensorFragments(thread, pipelines, accumulators)
            if self.config.uses_tensor_cores
            else SimtFragments(thread, pipelines, accumulators, fragment_widths)
        )
        k_tile = FloorDiv(self.k0.symbol, integer(block_k))
        self.stages = _StageIndices(k_tile, max_k_tiles, self.config.stages, lowering)
        self.prefetch = _Prefetch(self, max_k_tiles)

    def sections(self) -> tuple[Section, ...]:
        """Loads the first fragments, loops over the k-tiles, and drains the pipeline if its memory is reused."""
        k_tile = self._k_tile()
        what = Comment(f"{self.fragments.description}, double-buffered")
        return (
            Section("wait", self._wait_for_stage()),
            Section("fragments", (what, *self.fragments.declarations())),
            Section("load_first_fragments", self._load_fragments(integer(0), integer(0), integer(0))),
            Section("main_loop", (For(Loop(self.k0, integer(0), self.k_padded, self.config.block_k), k_tile),)),
            Section("drain", self._drain()),
        )

    def _k_tile(self) -> tuple[Section, ...]:
        """The body of the main loop."""
        config, prefetch, multiply_accumulate = self.config, self.prefetch, self.fragments.multiply_accumulate
        next_stage, commit = self.stages.define("next_stage", 1), _commit(self.pipelines)
        k = self.thread.loop_index(self.thread.contraction.k.name, config.warp_k)
        buffer = FloorDiv(k.symbol, integer(config.fragment_k))
        read_stage = self.stages.read.index.symbol
        k_step = (
            Section("interleaved_prefetch", prefetch.interleaved_copies(k)),
            Section("load_fragments", self._load_fragments(read_stage, k.symbol, Mod(buffer, integer(2)))),
            Section("distributed_prefetch", prefetch.distributed_copies(k.symbol - config.fragment_k)),
            Section("multiply", multiply_accumulate(Mod(buffer + 1, integer(2)))),
        )
        k_loop = Loop(k, integer(config.fragment_k), integer(config.warp_k), config.fragment_k, unroll=True)
        return (
            Section("read_stage", (self.stages.read,)),
            Section("write_stage", prefetch.definitions()),
            Section("upfront_prefetch", prefetch.upfront_copies()),
            Section("commit", commit if prefetch.is_upfront else ()),
            Section("k_steps", (For(k_loop, k_step),)),
            Section("last_distributed_prefetch", prefetch.last_distributed_copies()),
            Section("commit_distributed", commit if prefetch.is_distributed else ()),
            Section("wait", self._wait_for_stage()),
            Section("next_stage", (next_stage,)),
            Section("load_first_fragments", self._load_fragments(next_stage.index.symbol, integer(0), integer(0))),
            Section("multiply", multiply_accumulate(integer(1))),
        )

    def _wait_for_stage(self) -> tuple[Node, ...]:
        """Waits for the copies of the next stage to read, by all threads that copied it."""
        config = self.config
        independent = config.copy_groups > 1
        barrier = NamedBarrier(self.thread.k_slice, config.copy_group_threads) if independent else Barrier()
        return (AwaitCopies(config.stages - 2), barrier) if _is_async(self.pipelines) else (barrier,)

    def _load_fragments(self, stage: Integer, k: Integer, buffer: Integer) -> tuple[Node, ...]:
        """Loads the fragments at `k` of the thread's slice of a k-tile."""
        return tuple(self.fragments.load(stage, self.thread.k_slice * self.config.warp_k + k, buffer))

    def _drain(self) -> tuple[Node, ...]:
        """Waits for all copies if the epilogue or the next tile of stream-K writes to the buffer."""
        if _is_async(self.pipelines) and (self.config.reduces_in_shared or self.config.stream_k > 0):
            return (AwaitCopies(0),)
        return ()


class _Prefetch:
    """Copies of the k-tile that is STAGES - 1 ahead, into the stage that was read last.

    They are issued upfront, before the multiply-accumulates of a k-tile; interleaved with them, one operand at a time;
    or, on tensor cores, distributed evenly over the k steps."""

    def __init__(self, main_loop: MainLoop, max_k_tiles: int) -> None:
        self.main_loop, self.config = main_loop, main_loop.config
        config, lowering, k_padded = self.config, main_loop.thread.lowering, main_loop.k_padded
        self.is_needed = max_k_tiles >= config.stages
        self.is_interleaved = config.prefetch == "interleaved"
        self.is_distributed = config.uses_tensor_cores and all(
            pipeline.divides_into(config.warp_k // config.fragment_k) for pipeline in main_loop.pipelines
        )
        self.is_upfront = not (self.is_interleaved or self.is_distributed)
        # Past the end of K the last k-tile, if it is a full one, is copied again: without a branch the compiler
        # schedules copies between multiply-adds.
        min_k = bounds(k_padded, lowering.ranges)[0]
        self.clamps = min_k >= (2 if main_loop.thread.k_residue != 0 else 1) * config.block_k
        assert not self.is_interleaved or (self.clamps and self.is_needed)
        self.write_stage = main_loop.stages.define("write_stage", config.stages - 1)
        self.k_ahead = main_loop.k0.symbol + (config.stages - 1) * config.block_k
        k = Minimum(self.k_ahead, k_padded - config.block_k) if self.clamps else self.k_ahead
        self.k = define("prefetch_k", k, lowering)

    def definitions(self) -> tuple[Node, ...]:
        """The write stage and k of the prefetch; those of an upfront prefetch with a bounds check are inside of it."""
        return () if not self.is_needed or (self.is_upfront and not self.clamps) else self._definitions()

    def upfront_copies(self) -> tuple[Node, ...]:
        if not self.is_upfront or not self.is_needed:
            return ()
        return self._copies() if self.clamps else self._within_k((*self._definitions(), *self._copies()))

    def interleaved_copies(self, k: Index) -> tuple[Node, ...]:
        """A's copies after a quarter of the k steps, B's after half of them."""
        if not self.is_interleaved:
            return ()
        copies_a, copies_b = (self._copies_of(pipeline) for pipeline in self.main_loop.pipelines)
        commit = _commit(self.main_loop.pipelines)
        k_of_a, k_of_b = max(self.config.warp_k // 4, 1), max(self.config.warp_k // 2, 1)
        if k_of_a == k_of_b:
            return (_when(k, k_of_a, (*copies_a, *copies_b, *commit)),)
        return _when(k, k_of_a, copies_a), _when(k, k_of_b, (*copies_b, *commit))

    def distributed_copies(self, k: Integer) -> tuple[Node, ...]:
        """The part of the copies that belongs to the k step at `k`."""
        if not self.is_distributed or not self.is_needed:
            return ()
        return self._within_k(self._copies((k, self.config.fragment_k)))

    def last_distributed_copies(self) -> tuple[Node, ...]:
        return self.distributed_copies(integer(self.config.warp_k - self.config.fragment_k))

    def _definitions(self) -> tuple[Node, ...]:
        why = "past the last k-tile: copy it again, so that the loop has no branch"
        return (self.write_stage, *((Comment(why),) if self.clamps else ()), self.k)

    def _copies(self, part: tuple[Integer, int] | None = None) -> tuple[Node, ...]:
        return tuple(node for pipeline in self.main_loop.pipelines for node in self._copies_of(pipeline, part))

    def _copies_of(self, pipeline: OperandPipeline, part: tuple[Integer, int] | None = None) -> tuple[Node, ...]:
        return pipeline.copies(self.write_stage.index.symbol, self.k.index.symbol, in_bounds=True, part=part)

    def _within_k(self, copies: tuple[Node, ...]) -> tuple[Node, ...]:
        if self.clamps or not copies:
            return copies
        return (If(Guard((Comparison(self.k_ahead, "<", self.main_loop.k_padded),)), copies),)


class _StageIndices:
    """Stages of the circular buffer: `read` of the current k-tile, and others at a distance from it.

    If the buffer wraps around, the loop has a stage counter next to k0: a modulo in each k-tile costs more instructions
    than all other loop overhead."""

    def __init__(self, k_tile: Integer, max_k_tiles: int, stages: int, lowering: Lowering) -> None:
        self.k_tile, self.stages, self.lowering = k_tile, integer(stages), lowering
        self.wraps = max_k_tiles > stages
        read = define("read_stage", Mod(k_tile, self.stages), lowering)
        self.read = replace(read, then=self._wrapped(read, 1)) if self.wraps else read

    def define(self, name_hint: str, distance: int) -> Define:
        """The stage of the k-tile that is `distance` after the current one."""
        node = define(name_hint, Mod(self.k_tile + distance, self.stages), self.lowering)
        if not self.wraps:
            return node
        return replace(node, index=replace(node.index, shown=self._wrapped(self.read, distance)))

    def _wrapped(self, read: Define, distance: int) -> Integer:
        """(read + distance) % stages, without a modulo."""
        stage = read.index.symbol
        if self.stages == 2:
            return 1 - stage
        if distance == 1:
            return Choice(stage, self.stages - 1, stage + 1, integer(0))
        assert distance == self.stages - 1
        return Choice(integer(0), stage, stage - 1, self.stages - 1)


def _is_async(pipelines: list[OperandPipeline]) -> bool:
    return any(pipeline.asynchronous for pipeline in pipelines)


def _commit(pipelines: list[OperandPipeline]) -> tuple[Node, ...]:
    return (CommitCopies(),) if _is_async(pipelines) else ()


def _when(k: Index, value: int, nodes: tuple[Node, ...]) -> Node:
    return If(Guard((Comparison(k.symbol, "==", integer(value)),)), nodes)
