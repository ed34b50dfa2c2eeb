"""The parts of a pipeline of a producer and consumers, or of consumers that copy themselves: its stages, mbarriers and
roles."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import sympy

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.expressions import K_TILE, of_rank
from cugen.analysis.pipelines.roles.events import Event, Item, PipelineLoop, events_in
from cugen.analysis.pipelines.roles.roles import Role, roles_of
from cugen.analysis.pipelines.roles.traversal import items_of
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Barrier, Node
from cugen.plan.pipeline_nodes import (
    ArriveBarrier,
    AwaitBarrier,
    InitBarrier,
    TensorLoad,
    TensorStore,
    Wgmma,
)


@dataclass(frozen=True)
class Pipeline:
    """`stages` of shared memory with the mbarriers `full` and `empty` of each, by the symbols of their arrays. `empty`
    is "" where no stage is refilled, or by the consumers. TMA loads of the `producer` count at `full`. `loads` are
    those of one k-tile. Consumers that copy themselves do so `ahead` of the k-tile that they read by so many, after
    `barriers` of the block in it; as many k-tiles are copied by `first` before."""

    kernel: Kernel
    items: tuple[Item, ...]
    stages: int
    full: str
    empty: str
    producer: Role
    consumers: tuple[Role, ...]
    loads: tuple[Event, ...]
    first: Role | None = None
    ahead: int = 0
    barriers: int = 0

    @property
    def roles(self) -> tuple[Role, ...]:
        return (*self.copying, *self.consumers)

    @property
    def copying(self) -> tuple[Role, ...]:
        """The roles with TMA loads."""
        return (self.first, self.producer) if self.first else (self.producer,)

    @property
    def refills(self) -> bool:
        """Whether stages are filled again."""
        return bool(self.empty) or self.first is not None

    @property
    def has_producer(self) -> bool:
        """Whether threads other than consumers copy."""
        return not self.producing_threads <= self.consuming_threads

    @property
    def producing_threads(self) -> frozenset[int]:
        return self.loads[0].threads

    @property
    def arrays(self) -> tuple[str, ...]:
        """The arrays of mbarriers."""
        return (self.full, self.empty) if self.empty else (self.full,)

    @property
    def max_fills(self) -> int:
        """K-tiles that a block copies, at most."""
        tiles, k_tiles = self.producer.tiles, self.producer.k_tiles
        assert k_tiles is not None
        return k_tiles.trip_range[1] * (tiles.trip_range[1] if tiles else 1)

    @property
    def cluster(self) -> int:
        """Blocks that copy to each other's stages, or arrive at each other's barriers; 1 if each is for itself."""
        sizes = {load.node.blocks for load in self.loads if isinstance(load.node, TensorLoad)} - {1}
        arrivals = (e.node for e in events_in(self.items) if isinstance(e.node, ArriveBarrier))
        return self.kernel.cluster if sizes or any(node.rank is not None for node in arrivals) else 1

    def receivers(self, load: Event, rank: int) -> frozenset[int]:
        """The ranks of the blocks that a load by the block `rank` copies to."""
        node = load.node
        assert isinstance(node, TensorLoad)
        if node.blocks == 1:
            return frozenset((rank,))
        first = of_rank(load.value(node.first), rank, self.kernel.cluster)
        if not first.is_Integer:
            raise NotRecognised("the blocks that get a box aren't known by the rank of the one that copies it")
        blocks = frozenset(int(first) + node.stride * block for block in range(node.blocks))
        if not blocks <= frozenset(range(self.kernel.cluster)):
            raise NotRecognised("a multicast is to blocks outside of the cluster")
        return blocks

    def peers(self, rank: int) -> frozenset[int]:
        """The ranks of the blocks that the block `rank` copies to, itself among them."""
        return frozenset((rank,)).union(*(self.receivers(load, rank) for load in self.loads))

    @property
    def consuming_threads(self) -> frozenset[int]:
        return frozenset(thread for role in self.consumers for thread in role.threads)

    @property
    def stage_bytes(self) -> int:
        """Bytes that the loads of one k-tile count at `full`, those of all blocks of a cluster that copy to it."""
        return copied_bytes(self.producer)


def pipeline_of(kernel: Kernel) -> Pipeline:
    """The pipeline of a kernel with mbarriers. NotRecognised for other structures."""
    items = items_of(kernel)
    roles = roles_of(items, kernel.threads)
    producers = [role for role in roles if role.executes(TensorLoad)]
    consumers = tuple(role for role in roles if role.executes(Wgmma))
    if len(producers) != 1 or not consumers:
        raise NotRecognised("no single warp copies what other warpgroups multiply")
    (producer,) = producers
    if producer in consumers:
        return _without_producer(kernel, items, producer, roles)
    for role in roles:
        if role is not producer and role not in consumers and role.executes(ArriveBarrier, AwaitBarrier, TensorStore):
            raise NotRecognised(f"threads from {role.threads.start} on are neither producer nor consumers")
    loads = loads_of(producer)
    if not loads or any(isinstance(event.node, TensorLoad) for event in (*producer.tile_before, *producer.tile_after)):
        raise NotRecognised("TMA loads are outside of the loop over k-tiles")
    stages, full, empty = _barriers(items, loads)
    return Pipeline(kernel, items, stages, full, empty, producer, consumers, loads)


def _barriers(items: tuple[Item, ...], loads: tuple[Event, ...]) -> tuple[int, str, str]:
    """The number of stages, and the arrays of mbarriers at which loads count, and of the others."""
    counted = {barrier_of(event.node).array.symbol for event in loads}
    used = {
        barrier_of(event.node).array.symbol
        for event in events_in(items)
        if isinstance(event.node, InitBarrier | ArriveBarrier | AwaitBarrier)
    }
    if len(counted) != 1 or len(used | counted) > 2:
        raise NotRecognised("a stage has other barriers than one for copies and one for reads")
    (full,), empty = counted, "".join(used - counted)
    (stages,) = {int(barrier_of(event.node).array.shape[0]) for event in loads}
    return stages, full, empty


def _without_producer(kernel: Kernel, items: tuple[Item, ...], copying: Role, roles: tuple[Role, ...]) -> Pipeline:
    """The pipeline of consumers of which one copies: its copies become those of a producer, which say of a k-tile what
    they are for that one."""
    first, loop = copying.first_k_tiles, copying.k_tiles
    if not all(role.executes(Wgmma) for role in roles):
        raise NotRecognised("threads that don't multiply are no producer")
    if first is None or loop is None or copying.tiles is not None:
        raise NotRecognised("the warpgroup that copies has no loop over the first k-tiles before that over all")
    if any(isinstance(event.node, TensorLoad) for event in (*copying.before, *copying.tile_after)):
        raise NotRecognised("TMA loads are outside of loops over k-tiles")
    before = Role(copying.threads, k_tiles=first, body=copying.first_copies)
    stages, full, empty = _barriers(items, (*loads_of(before), *loads_of(copying)))
    if empty or not loads_of(before):
        raise NotRecognised("a block's own copies have other barriers than one for each stage")
    copies = tuple(e for e in copying.body if isinstance(e.node, TensorLoad | ArriveBarrier))
    consumers = tuple(
        replace(role, first_k_tiles=None, body=tuple(e for e in role.body if e not in copies)) for role in roles
    )
    if not copies:
        return Pipeline(kernel, items, stages, full, empty, before, consumers, loads_of(before))
    ahead = _ahead(copies, loop)
    moved = (replace(e, scope=replace(e.scope, chosen=(), ahead=ahead)) for e in copies)
    refill = Role(copying.threads, k_tiles=loop, body=tuple(moved))
    barriers = sum(isinstance(e.node, Barrier) for e in copying.body[: copying.body.index(copies[0])])
    loads = loads_of(refill)
    return Pipeline(kernel, items, stages, full, empty, refill, consumers, loads, before, ahead, barriers)


def _ahead(copies: tuple[Event, ...], loop: PipelineLoop) -> int:
    """How many k-tiles after the current one is that which is copied, if there is one."""
    conditions = {event.scope.chosen for event in copies}
    terms = next(iter(conditions))
    if len(conditions) != 1 or len(terms) != 1 or terms[0].operator != "<":
        raise NotRecognised("a block copies k-tiles under other conditions than that there is one")
    ahead = sympy.expand((terms[0].left - terms[0].right + loop.stop) / loop.step - K_TILE)
    if not ahead.is_Integer or ahead < 0:
        raise NotRecognised("a block copies k-tiles under other conditions than that there is one")
    return int(ahead)


def loads_of(role: Role) -> tuple[Event, ...]:
    """The TMA loads of a k-tile."""
    return tuple(event for event in role.body if isinstance(event.node, TensorLoad))


def copied_bytes(role: Role) -> int:
    """Bytes that a role's loads of one k-tile count."""
    return sum(map(box_bytes, loads_of(role)))


def barrier_of(node: Node) -> Access:
    """The mbarrier of a node that has one."""
    assert isinstance(node, InitBarrier | ArriveBarrier | AwaitBarrier | TensorLoad)
    return node.barrier


def at_barrier(events: tuple[Event, ...], kind: type, array: str) -> list[Event]:
    """The events of a kind at an array of mbarriers."""
    return [e for e in events if isinstance(e.node, kind) and barrier_of(e.node).array.symbol == array]


def box_bytes(load: Event) -> int:
    """Bytes that a load counts, in all iterations of the loops round it."""
    node = load.node
    assert isinstance(node, TensorLoad)
    if node.source.array.tensor_map is None or load.scope.times is None:
        raise NotRecognised("the number of bytes of a TMA load is unknown")
    boxes = load.scope.times * node.blocks  # every block of the cluster copies one to each
    return math.prod(node.source.array.tensor_map.box) * node.source.array.dtype.bytes * boxes


def whole_warps(threads: frozenset[int], size: int) -> bool:
    """Whether the threads are whole groups of so many consecutive ones."""
    return all(frozenset(range(first, first + size)) <= threads for first in {t // size * size for t in threads})
