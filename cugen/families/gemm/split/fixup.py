"""Stream-K fix-up: the block that finishes a tile adds the partial sums of its peers, the blocks that began it."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.families.gemm.coordinates import ThreadCoordinates
from cugen.families.gemm.epilogue import Epilogue
from cugen.families.gemm.reduction_epilogue import ReductionEpilogue
from cugen.families.gemm.split.partials import PartialsWorkspace
from cugen.pieces.grid_sync import DynamicBlockIds
from cugen.plan.memory import Array
from cugen.plan.nodes import AcquireSpinWait, Barrier, Comparison, For, Guard, If, Loop, ReleaseFlag, Section, Store
from cugen.plan.symbols import Integer, bounds, integer


@dataclass(frozen=True)
class FixUp:
    """A block releases its flag once its partial sums are stored. Exactly one thread of the grid waits for a flag, and
    clears it for the next launch. Peers have lower dynamic block ids, so no block waits for one that hasn't begun."""

    block_ids: DynamicBlockIds
    partials: PartialsWorkspace

    @property
    def workspace(self) -> tuple[Array, ...]:
        return self.block_ids.flags, self.partials.array

    def store_partials(self, epilogue: Epilogue, slot: Integer) -> tuple[Section, ...]:
        """Stores the block's partial sums to its slot and releases its flag."""
        release = ReleaseFlag(self.block_ids.flag(1 + self.block_ids.block_id, "atomic"), self.block_ids.set)
        is_first_thread = Guard((Comparison(epilogue.thread.index, "==", integer(0)),))
        return (
            *self.partials.store(epilogue, slot),
            Section("partials_stored", (Barrier(),)),
            Section("first_thread", (If(is_first_thread, (Section("release_flag", (release,)),)),)),
        )

    def epilogue(self, epilogue: Epilogue, first_peer: Integer, peers: Integer) -> tuple[Section, ...]:
        """Waits for the peers' flags, adds their partial sums in block order, and computes the epilogue. A peer's slot
        has its number."""
        thread = epilogue.thread
        min_peers, max_peers = bounds(peers, thread.lowering.ranges)
        peer = thread.loop_index("p", max_peers)
        is_reduction = isinstance(epilogue, ReductionEpilogue)
        loop = Loop(peer, integer(0), peers, rolled=not peers.is_Integer or not is_reduction)
        slot = first_peer + peer.symbol
        wait = self._wait_for_peers(thread, first_peer, peers)
        if isinstance(epilogue, ReductionEpilogue):
            return *wait, *epilogue.fix_up(loop, self.partials.vectors(slot, "load"), begins_with_slices=True)
        add = Section("add", (self.partials.add(epilogue, slot),))
        fix_up: tuple[Section, ...] = (*wait, Section("add_partials", (For(loop, (add,)),)))
        if min_peers == 0:
            fix_up = (Section("if_peers", (If(Guard((Comparison(peers, ">", integer(0)),)), fix_up),)),)
        return (*fix_up, *epilogue.sections())

    def _wait_for_peers(self, thread: ThreadCoordinates, first_peer: Integer, peers: Integer) -> tuple[Section, ...]:
        """One thread waits for each peer."""
        flag = 1 + first_peer + thread.index
        wait = AcquireSpinWait(self.block_ids.flag(flag, "load"), self.block_ids.set)
        clear = Store(self.block_ids.flag(flag, "store"), self.block_ids.clear)
        has_peer = Guard((Comparison(thread.index, "<", peers),))
        waiting = Section("acquire_flag", (wait,)), Section("clear_flag", (clear,))
        return Section("waiting_threads", (If(has_peer, waiting),)), Section("peers_stored", (Barrier(),))
