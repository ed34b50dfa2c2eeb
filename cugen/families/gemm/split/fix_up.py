"""The fix-up of stream-K: where a tile has several blocks, all but the last one store their partial sums in the
workspace and release a flag. The last one waits for them and adds their partial sums in block order.

Exactly one thread of the grid waits for a flag, and clears it for the next launch. A block has a lower dynamic id than
the one that waits for it, so no block waits for one that hasn't begun.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.shared_epilogue import SharedEpilogue
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.families.gemm.split.work_units import StreamKUnits
from cugen.pieces.blocks import append_definition
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.plan.nodes import AcquireSpinWait, Barrier, For, Loop, NamedBarrier, Node, ReleaseFlag, Section, Store, when
from cugen.plan.symbols import Integer, bounds, ceil_div, integer


@dataclass(frozen=True)
class FixUp:
    """`barrier` is one of all threads that have accumulators."""

    units: StreamKUnits
    block_ids: DynamicBlockIds
    partials: PartialsWorkspace
    barrier: Barrier | NamedBarrier

    def sections(self, epilogue: Epilogue) -> tuple[Section, ...]:
        """What follows a work unit: the block's partial sums are stored, or those of others added before the
        epilogue."""
        units, schedule = self.units, self.units.schedule
        nodes: list[Node] = []
        named = partial(append_definition, nodes=nodes, lowering=epilogue.lowering)
        count = ceil_div(units.k_tile_begin, schedule.k_tiles_per_block)
        peers = named("peers", count, within=(0, schedule.max_peers))
        first_peer = named("first_peer", self.block_ids.block_id - peers, within=(0, schedule.blocks - 1))
        store = self._store_partials(epilogue)
        finish = (Section("peer_coordinates", tuple(nodes)), *self._finish(epilogue, first_peer, peers))
        fix_up = when(units.k_tile_end, "<", integer(schedule.k_tiles), store, finish)
        return *epilogue.stage_slices(), Section("fix_up", (fix_up,))

    def _store_partials(self, epilogue: Epilogue) -> tuple[Section, ...]:
        """Stores the block's partial sums to its slot and releases its flag."""
        block_id = self.block_ids.block_id
        release = ReleaseFlag(self.block_ids.flag(1 + block_id, "atomic"), self.block_ids.set)
        release_flag = Section("release_flag", (release,))
        return (
            *self.partials.store(epilogue, block_id),
            Section("partials_stored", (self.barrier,)),
            Section("first_thread", (when(epilogue.thread.index, "==", integer(0), (release_flag,)),)),
        )

    def _finish(self, epilogue: Epilogue, first_peer: Integer, peers: Integer) -> tuple[Section, ...]:
        """Waits for the peers, which began the tile, and adds their partial sums in block order; then the epilogue."""
        thread = epilogue.thread
        min_peers, max_peers = bounds(peers, thread.lowering.ranges)
        peer = thread.loop_index("p", max_peers)
        slot = first_peer + peer.symbol
        flag = 1 + first_peer + thread.index
        wait = AcquireSpinWait(self.block_ids.flag(flag, "load"), self.block_ids.set)
        clear = Store(self.block_ids.flag(flag, "store"), self.block_ids.clear)
        waiting = Section("acquire_flag", (wait,)), Section("clear_flag", (clear,))
        wait_for_peers = (
            Section("waiting_threads", (when(thread.index, "<", peers, waiting),)),
            Section("peers_stored", (self.barrier,)),
        )
        if isinstance(epilogue, SharedEpilogue):
            loop = Loop(peer, integer(0), peers, rolled=not peers.is_Integer)
            vectors = self.partials.vectors(slot, "load")
            return *wait_for_peers, *epilogue.fix_up(loop, vectors, begins_with_slices=True)
        add = Section("add", (self.partials.add(epilogue, slot),))
        add_partials = For(Loop(peer, integer(0), peers, rolled=True), (add,))
        fix_up: tuple[Section, ...] = (*wait_for_peers, Section("add_partials", (add_partials,)))
        if min_peers == 0:
            fix_up = (Section("if_peers", (when(peers, ">", integer(0), fix_up),)),)
        return (*fix_up, *epilogue.sections())
