"""Main loop of a GEMM block: multistage copy pipeline, double-buffered register fragments, multiply-accumulates.

    for stage in 0 .. STAGES-2:                                       # prologue: fill STAGES-1 stages
        copy(gA[stage*BK] -> As[stage]), copy(gB -> Bs); commit
    wait(until STAGES-2 commit groups are pending); barrier           # stage 0 is complete and visible
    load_fragments(read_stage = 0, k = 0)                             # into buffer 0
    for k0 in 0, BK, 2*BK .. k_padded-BK:                             # main loop over k-tiles
        copy(gA[k0 + (STAGES-1)*BK] -> As[write_stage]) ..; commit    # prefetch
        for k in F, 2*F .. WK-F:                                      # k steps of the warp tile
            load_fragments(read_stage, k)                             # into buffer k/F % 2
            acc += a_frag[(k/F-1) % 2] * b_frag[(k/F-1) % 2]          # of the previous k step
        wait(until STAGES-2 commit groups are pending); barrier       # next_stage is complete, read_stage is free
        load_fragments(next_stage, k = 0)                             # of the next k-tile; unused after the last
        acc += a_frag[1] * b_frag[1]                                  # last k step
    drain                                                             # if shared memory is reused
    epilogue(acc)                                                     # in `epilogue`, `shared_epilogue`

The order is that of CuTe's sgemm_sm80: read_stage and write_stage are its smem_pipe_read and smem_pipe_write, a k step
is its k_block. The fragments have two buffers, not one for each k step, and the last k step of a k-tile is peeled.

F is `fragment_k`, the K of a k step: 1, on tensor cores `mma_k`. WK is `warp_k`, the slice of a k-tile that a sliced-K
group multiplies (BK without sliced-K). Valid configs have 2 or more stages and an even number of k steps: the last k
step of a k-tile is always in buffer 1.

One barrier in a k-tile is enough. It makes the copies to the next stage visible; and as all fragments of read_stage are
loaded before it, the prefetch of the next k-tile may overwrite that stage. Every k-tile commits one group, an empty one
if it copies nothing, so that the number of pending groups is right past the end of K. Where cp.async is unavailable for
an operand, its copies are loads before the k steps and stores after them, which need the barrier only.

If K isn't a multiple of BK, the first k-tile is the partial one (K residue), filled with zeros at its front. `k0` and
the k of a copy count from the first of these zeros; `OperandPipeline` subtracts the K residue. All other k-tiles are
full: only the prologue checks the bounds of K for each element, and a prefetch past the end is clamped or skipped as a
whole. Bounds of M and N are checked by `OperandPipeline`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace

import sympy

from cugen.families.gemm.config import Prefetch
from cugen.families.gemm.copy.elements import ElementCopies
from cugen.families.gemm.copy.pipeline import OperandPipeline, Part
from cugen.families.gemm.copy.registers import RegisterCopies
from cugen.families.gemm.fragments.elements import ElementFragments
from cugen.families.gemm.fragments.simt import SimtFragments
from cugen.families.gemm.fragments.split import SplitFragments
from cugen.families.gemm.fragments.tensor import TensorFragments
from cugen.families.gemm.fragments.thread_tile import Accumulators
from cugen.pieces.blocks import define
from cugen.pieces.loop_variables import unrolled
from cugen.plan.nodes import (
    AwaitCopies,
    Barrier,
    Comment,
    CommitCopies,
    Define,
    For,
    Index,
    Loop,
    NamedBarrier,
    Node,
    Section,
    when,
)
from cugen.plan.symbols import Choice, FloorDiv, Integer, Minimum, Mod, bounds, ceil_div, integer


class MainLoop(ABC):
    """The loop over the k-tiles of a block's range of K, which split-K and stream-K shorten. Each thread adds to its
    `accumulators`.

    `k_padded` is the range's length with the zeros of the K residue, a multiple of BK; `k_extent` is the length without
    them, or `k_padded` too where the range is given in k-tiles. Both have the same number of k-tiles, and the bounds of
    `k_extent` are never wider. A single stage may begin at a k-tile `start` instead of at 0; `k_padded` is its end."""

    def __init__(
        self,
        pipelines: list[OperandPipeline],
        accumulators: Accumulators,
        k_extent: Integer,
        k_padded: Integer,
        start: Integer = sympy.S.Zero,
    ) -> None:
        thread, self.config, self.pipelines = accumulators.thread, accumulators.config, pipelines
        self.thread, self.k_padded, self.start = thread, k_padded, start
        self.prologue = self._prologue()
        lowering, block_k = thread.lowering, self.config.block_k
        self.max_k_tiles = bounds(ceil_div(k_extent, block_k), lowering.ranges)[1]
        name = lowering.names.allocate(f"{thread.contraction.k.name}0")
        self.k0 = Index(name, integer(0), (0, self.max_k_tiles * int(block_k)))  # with its value after the last k-tile
        lowering.ranges[self.k0.symbol] = (0, max(self.max_k_tiles - 1, 0) * int(block_k))  # inside of the loop
        k_tile = thread.k_offset + self.k0.symbol - thread.k_residue
        self.fragments: ElementFragments | SimtFragments | TensorFragments
        if self.config.is_strided:
            elements = [pipeline for pipeline in pipelines if isinstance(pipeline, ElementCopies)]
            self.fragments = ElementFragments(elements, accumulators, k_tile)
        elif self.config.uses_tensor_cores:
            is_split = self.config.mma is not None and self.config.mma.split
            self.fragments = (SplitFragments if is_split else TensorFragments)(pipelines, accumulators, k_tile)
        else:
            self.fragments = SimtFragments(pipelines, accumulators, k_tile)

    @abstractmethod
    def sections(self) -> tuple[Section, ...]:
        """The sections between the accumulators' declaration and the epilogue. The template orders them."""

    def _prologue(self) -> tuple[Section, ...]:
        """What precedes the k-tiles: pointers to each operand's first element, where its pipeline has one."""
        pointers = [pipeline.source_pointer for pipeline in self.pipelines]
        return (Section("source_pointers", tuple(pointer for pointer in pointers if pointer is not None)),)

    def copies(self, stage: Integer, k: Integer, *, in_bounds: bool, part: Part | None = None) -> tuple[Node, ...]:
        """Copies of a k-tile, or of a part of it, to a stage."""
        return _copies(self.pipelines, stage, k, in_bounds=in_bounds, part=part)

    def barrier(self) -> Node:
        """The barrier of a copy group: all threads of the block, or each sliced-K group, which has a named barrier."""
        if self.config.copy_groups > 1:
            return NamedBarrier(self.thread.k_slice, self.config.copy_group_threads)
        return Barrier()

    def load_fragments(self, stage: Integer, k: Integer, buffer: Integer) -> tuple[Node, ...]:
        """Loads the fragments at `k` of the slice that the thread's sliced-K group multiplies into a buffer."""
        return tuple(self.fragments.load(stage, self._in_slice(k), buffer))

    def multiply_accumulate(self, buffer: Integer, k: Integer) -> tuple[Node, ...]:
        """Multiplies the fragments of a register buffer, those at `k` of the slice."""
        return self.fragments.multiply_accumulate(buffer, self._in_slice(k))

    def masked_terms(self, stage: Integer) -> tuple[Node, ...]:
        """Adds what tensor cores leave out of the k-tile in a stage, because of a condition on its terms."""
        if not isinstance(self.fragments, TensorFragments):
            return ()
        k = self.thread.loop_index(self.thread.contraction.k.name, self.config.warp_k, "index of K")
        return self.fragments.masked_terms(stage, k, self._in_slice(k.symbol))

    def _in_slice(self, k: Integer) -> Integer:
        return self.thread.k_slice * integer(self.config.warp_k) + k


class SingleStage(MainLoop):
    """Copies a k-tile, multiplies it, and copies the next one to the same memory: two barriers in each k-tile."""

    def sections(self) -> tuple[Section, ...]:
        config, k_name = self.config, self.thread.contraction.k.name
        k = self.thread.loop_index(k_name, config.warp_k, "index of K")
        k_step = (
            Section("load_fragments", self.load_fragments(integer(0), k.symbol, integer(0))),
            Section("multiply", self.multiply_accumulate(integer(0), k.symbol)),
        )
        body = (
            Section("copies", self.copies(integer(0), self.k0.symbol, in_bounds=self.thread.exact[k_name])),
            Section("tiles_stored", (self.barrier(),)),
            Section("masked_terms", self.masked_terms(integer(0))),
            Section("k_steps", (unrolled(k, k_step, config.fragment_k, stop=config.warp_k),)),
            Section("tiles_read", (self.barrier(),)),
        )
        return (
            *self.prologue,
            Section("fragments", self.fragments.declarations()),
            Section("main_loop", (For(Loop(self.k0, self.start, self.k_padded, config.block_k), body),)),
        )


class Multistage(MainLoop):
    """The pipeline of the module's docstring."""

    def sections(self) -> tuple[Section, ...]:
        k_tile = self._k_tile_body()
        what = Comment(f"{self.fragments.description}, double-buffered")
        return (
            *self.prologue,
            Section("wait", self._wait_for_stage()),
            Section("fragments", (what, *self.fragments.declarations())),
            Section("load_first_fragments", self.load_fragments(integer(0), integer(0), integer(0))),
            Section("main_loop", (For(Loop(self.k0, integer(0), self.k_padded, self.config.block_k), k_tile),)),
            Section("drain", self._drain()),
        )

    def _prologue(self) -> tuple[Section, ...]:
        """Copies of the first STAGES - 1 k-tiles, one stage and one commit group each; before them, the pointers."""
        thread, block_k, stages = self.thread, self.config.block_k, self.config.stages
        min_k = bounds(self.k_padded, thread.lowering.ranges)[0]
        stage, clamp = thread.loop_index("stage", stages - 1), tuple[Node, ...]()
        k: Integer = stage.symbol * integer(block_k)
        # Whether no copy needs a bounds check along K: no k-tile is partial, and there is one to clamp to.
        in_bounds = thread.k_residue == 0 and min_k >= block_k
        if in_bounds and min_k < (stages - 1) * block_k:
            # There may be fewer than STAGES - 1 k-tiles: the last one is copied again, to stages of unused data.
            clamped = define("prologue_k", Minimum(k, self.k_padded - integer(block_k)), thread.lowering)
            clamp, k = (clamped,), clamped.index.symbol
        copies = Section("copies", self.copies(stage.symbol, k, in_bounds=in_bounds))
        body = (Section("k", clamp), copies, Section("commit", _commit(self.pipelines)))
        return *super()._prologue(), Section("prologue", (unrolled(stage, body, stop=stages - 1),))

    def _k_tile_body(self) -> tuple[Section, ...]:
        """The body of the main loop. Only one of the three prefetch variants has nodes; sections may be empty.

        A k step loads its own fragments and multiplies those of the previous one, so its distributed copies are the
        previous one's part. Those of the last k step, and their commit, are before the wait; its multiply-accumulates
        are after the barrier, where they hide the latency of the loads from the next stage."""
        config, stage_indices = self.config, _StageIndices(self)
        prefetch = _Prefetch(self, stage_indices)
        next_stage = stage_indices.next(self, prefetch)
        k = self.thread.loop_index(self.thread.contraction.k.name, config.warp_k, "index of K")
        step_index = FloorDiv(k.symbol, integer(config.fragment_k))
        read_stage, previous_k = stage_indices.read.index.symbol, k.symbol - config.fragment_k
        k_step = (
            Section("interleaved_prefetch", prefetch.interleaved_copies(k)),
            Section("load_fragments", self.load_fragments(read_stage, k.symbol, Mod(step_index, integer(2)))),
            Section("distributed_prefetch", prefetch.distributed_copies(previous_k)),
            Section("multiply", self.multiply_accumulate(Mod(step_index + 1, integer(2)), previous_k)),
        )
        k_loop = Loop(k, integer(config.fragment_k), integer(config.warp_k), config.fragment_k, unroll=True)
        last_k = integer(config.warp_k - config.fragment_k)
        return (
            Section("read_stage", (stage_indices.read,)),
            Section("write_stage", prefetch.definitions()),
            Section("loads_ahead", prefetch.loads()),
            Section("upfront_prefetch", prefetch.upfront_copies()),
            Section("commit", prefetch.commit() if prefetch.commits_upfront else ()),
            Section("k_steps", (For(k_loop, k_step),)),
            Section("last_distributed_prefetch", prefetch.distributed_copies(last_k)),
            Section("stores_ahead", prefetch.stores()),
            Section("commit_all", () if prefetch.commits_upfront or prefetch.is_interleaved else prefetch.commit()),
            Section("masked_terms", self.masked_terms(read_stage)),
            Section("wait", self._wait_for_stage()),
            Section("next_stage", (next_stage,)),
            Section("load_first_fragments", self.load_fragments(next_stage.index.symbol, integer(0), integer(0))),
            Section("multiply", self.multiply_accumulate(integer(1), last_k)),
        )

    def _wait_for_stage(self) -> tuple[Node, ...]:
        """Waits until the thread's copies to the next stage that is read are complete; then a barrier.

        Only the STAGES - 2 newest commit groups may be pending. Copy groups are no commit groups but warp groups."""
        wait = (AwaitCopies(self.config.stages - 2),) if _is_async(self.pipelines) else ()
        return (*wait, self.barrier())

    def _drain(self) -> tuple[Node, ...]:
        """Waits for the thread's outstanding copies, whose data is unused, if the epilogue or the next tile of stream-K
        writes to the same shared memory. The barrier between the threads is in the epilogue or that tile."""
        is_reused = self.config.exchanges_in_shared or self.config.stream_k > 0
        return (AwaitCopies(0),) if is_reused and _is_async(self.pipelines) else ()


class _Prefetch:
    """Copies of the k-tile that is STAGES - 1 ahead, into the stage that the previous k-tile read.

    They are in one of three places, each with its commit:
    - upfront: before the k steps;
    - interleaved (a tunable for CUDA cores): A's in front of one k step, B's in front of a later one;
    - distributed (always on tensor cores, if they divide into equal parts): a part of both operands in each k step.

    Operands whose copies aren't asynchronous are loaded to registers before the k steps, and stored after them, where
    the pipeline `uses_registers`. If the prologue copies all k-tiles, there are commits only."""

    def __init__(self, main_loop: Multistage, stage_indices: _StageIndices) -> None:
        self.main_loop, self.config = main_loop, main_loop.config
        config, lowering, k_padded = self.config, main_loop.thread.lowering, main_loop.k_padded
        self.has_copies = main_loop.max_k_tiles >= config.stages
        self.is_interleaved = config.prefetch == Prefetch.INTERLEAVED
        through_registers = [pipeline for pipeline in main_loop.pipelines if pipeline.uses_registers]
        self.register_copies = [RegisterCopies(p) for p in through_registers] if self.has_copies else []
        self.pipelines = [pipeline for pipeline in main_loop.pipelines if not pipeline.uses_registers]
        self.is_distributed = config.uses_tensor_cores and all(
            pipeline.divides_into(config.warp_k // config.fragment_k) for pipeline in self.pipelines
        )
        self.is_upfront = not (self.is_interleaved or self.is_distributed)
        self.commits_upfront = self.is_upfront and not self.register_copies  # whose stores are of the same k-tile
        # Past the end of K the last k-tile is copied again: without a branch the compiler schedules copies between
        # multiply-adds. That k-tile must be full, so with a K residue there must be two; else there is a branch.
        min_k = bounds(k_padded, lowering.ranges)[0]
        self.is_clamped = min_k >= (2 if main_loop.thread.k_residue != 0 else 1) * config.block_k
        assert not self.is_interleaved or (self.is_clamped and self.has_copies)
        self.write_stage = stage_indices.define("write_stage", config.stages - 1)
        self.k_ahead = main_loop.k0.symbol + integer((config.stages - 1) * config.block_k)
        k = Minimum(self.k_ahead, k_padded - integer(config.block_k)) if self.is_clamped else self.k_ahead
        self.prefetch_k = define("prefetch_k", k, lowering)

    def definitions(self) -> tuple[Node, ...]:
        """write_stage and prefetch_k, before all copies; an upfront prefetch with a branch has them in it."""
        is_in_branch = self.is_upfront and not self.is_clamped and not self.register_copies
        return self._definitions() if self.has_copies and not is_in_branch else ()

    def loads(self) -> tuple[Node, ...]:
        """Loads to registers, before the k steps."""
        if not self.register_copies:
            return ()
        what = Comment("through registers: stored after the k steps, which hide the latency of these loads")
        declarations = tuple(copies.declaration() for copies in self.register_copies)
        k = self.prefetch_k.index.symbol
        loads = tuple(node for copies in self.register_copies for node in copies.loads(k))
        return what, *declarations, *self._if_within_k(loads)

    def stores(self) -> tuple[Node, ...]:
        """Stores from registers, after the k steps."""
        stage = self.write_stage.index.symbol
        return self._if_within_k(tuple(node for copies in self.register_copies for node in copies.stores(stage)))

    def upfront_copies(self) -> tuple[Node, ...]:
        if not self.is_upfront or not self.has_copies:
            return ()
        if self.is_clamped or self.register_copies:
            return self._if_within_k(self._copies())
        return self._if_within_k((*self._definitions(), *self._copies()))

    def commit(self) -> tuple[Node, ...]:
        """Commits the copies, or without any an empty group: the wait counts groups."""
        commit = _commit(self.main_loop.pipelines)
        if not commit or self.has_copies:
            return commit
        return (Comment("no k-tile is left to copy: an empty group, since the wait counts groups"), *commit)

    def interleaved_copies(self, k: Index) -> tuple[Node, ...]:
        """A's copies in front of the k step at a quarter of the slice, B's at half of it, in both cases not before the
        first k step of the loop. A k step is one k here: this is for CUDA cores only."""
        if not self.is_interleaved:
            return ()
        copies_a, copies_b = self._copies(along_m=True), self._copies(along_m=False)
        commit = _commit(self.main_loop.pipelines)
        k_of_a, k_of_b = max(self.config.warp_k // 4, 1), max(self.config.warp_k // 2, 1)
        if k_of_a == k_of_b:
            return (when(k.symbol, "==", integer(k_of_a), (*copies_a, *copies_b, *commit)),)
        at_a = when(k.symbol, "==", integer(k_of_a), copies_a)
        return at_a, when(k.symbol, "==", integer(k_of_b), (*copies_b, *commit))

    def distributed_copies(self, k: Integer) -> tuple[Node, ...]:
        """The part of the copies that belongs to the k step at `k`: `fragment_k` of the parts, from part `k` on."""
        if not self.is_distributed or not self.has_copies:
            return ()
        return self._if_within_k(self._copies((k, self.config.fragment_k)))

    def _definitions(self) -> tuple[Node, ...]:
        why = "past the last k-tile: copy it again, so that the loop has no branch"
        return (self.write_stage, *((Comment(why),) if self.is_clamped else ()), self.prefetch_k)

    def _copies(self, part: Part | None = None, *, along_m: bool | None = None) -> tuple[Node, ...]:
        stage, k = self.write_stage.index.symbol, self.prefetch_k.index.symbol
        pipelines = [p for p in self.pipelines if along_m in (None, p.operand.is_along_m)]
        return _copies(pipelines, stage, k, in_bounds=True, part=part)

    def _if_within_k(self, copies: tuple[Node, ...]) -> tuple[Node, ...]:
        """The copies, in a branch if they aren't clamped: the k-tile ahead may be past the end of K."""
        if self.is_clamped or not copies:
            return copies
        return (when(self.k_ahead, "<", self.main_loop.k_padded, copies),)


class _StageIndices:
    """Stages of the circular buffer: `read` is that of the current k-tile; `define` makes others, at a distance of 1
    (next_stage) or STAGES - 1 (write_stage) from it.

    If there are more k-tiles than stages, read_stage is a second counter in the header of the loop over k0, and the
    others are printed as a selection (`shown`): a modulo in each k-tile costs more instructions than all other loop
    overhead. The definitions keep the modulo, for the analyses of the kernel."""

    def __init__(self, main_loop: Multistage) -> None:
        self.stages, self.lowering = main_loop.config.stages, main_loop.thread.lowering
        self.k_tile_index = FloorDiv(main_loop.k0.symbol, integer(main_loop.config.block_k))
        self.wraps = main_loop.max_k_tiles > self.stages
        read = define("read_stage", Mod(self.k_tile_index, integer(self.stages)), self.lowering)
        self.read = replace(read, then=self._wrapped(read, 1)) if self.wraps else read

    def define(self, name_hint: str, distance: int) -> Define:
        node = define(name_hint, Mod(self.k_tile_index + integer(distance), integer(self.stages)), self.lowering)
        if not self.wraps:
            return node
        return replace(node, index=replace(node.index, shown=self._wrapped(self.read, distance)))

    def next(self, main_loop: Multistage, prefetch: _Prefetch) -> Define:
        """The stage of the next k-tile. If no copies are made past the end of K, the last k-tile's own is taken after
        it: no copy may ever have written another."""
        node = self.define("next_stage", 1)
        if prefetch.has_copies and prefetch.is_clamped:
            return node
        block_k, k_padded = integer(main_loop.config.block_k), main_loop.k_padded
        k_tile = Minimum(self.k_tile_index + 1, FloorDiv(k_padded - block_k, block_k))
        following = self._wrapped(self.read, 1) if self.wraps else self.k_tile_index + 1
        shown = Choice(main_loop.k0.symbol + block_k, k_padded, following, self.read.index.symbol)
        return replace(node, index=replace(node.index, definition=Mod(k_tile, integer(self.stages)), shown=shown))

    def _wrapped(self, read: Define, distance: int) -> Integer:
        """(read + distance) % stages, for a distance of 1 or stages - 1, without a modulo."""
        stage = read.index.symbol
        if self.stages == 2:
            return 1 - stage
        if distance == 1:
            return Choice(stage, integer(self.stages - 1), stage + 1, integer(0))  # stage < stages - 1 ? stage + 1 : 0
        assert distance == self.stages - 1
        return Choice(integer(0), stage, stage - 1, integer(self.stages - 1))  # stage > 0 ? stage - 1 : stages - 1


def _is_async(pipelines: list[OperandPipeline]) -> bool:
    """Whether there are commit groups to wait for; the other operand's copies may be synchronous."""
    return any(pipeline.asynchronous for pipeline in pipelines)


def _copies(
    pipelines: list[OperandPipeline], stage: Integer, k: Integer, *, in_bounds: bool, part: Part | None = None
) -> tuple[Node, ...]:
    return tuple(node for p in pipelines for node in p.copies(stage, k, in_bounds=in_bounds, part=part))


def _commit(pipelines: list[OperandPipeline]) -> tuple[Node, ...]:
    """Commits the copies of both operands to one k-tile as one group."""
    return (CommitCopies(),) if _is_async(pipelines) else ()
