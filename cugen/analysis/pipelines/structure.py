"""The parts of a pipeline of a producer and consumers: its stages, mbarriers and roles."""

from __future__ import annotations

import math
from dataclasses import dataclass

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.roles import Event, Item, Role, events_in, items_of, roles_of
from cugen.plan.kernel import Kernel
from cugen.plan.memory import Access
from cugen.plan.nodes import Node
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
    is "" where no stage is refilled. TMA loads of the `producer` count at `full`. `loads` are those of one k-tile."""

    kernel: Kernel
    items: tuple[Item, ...]
    stages: int
    full: str
    empty: str
    producer: Role
    consumers: tuple[Role, ...]
    loads: tuple[Event, ...]

    @property
    def roles(self) -> tuple[Role, ...]:
        return (self.producer, *self.consumers)

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
        if sizes - {self.kernel.cluster}:
            raise NotRecognised("a multicast isn't to all blocks of a cluster")
        arrivals = (e.node for e in events_in(self.items) if isinstance(e.node, ArriveBarrier))
        return self.kernel.cluster if sizes or any(node.rank is not None for node in arrivals) else 1

    @property
    def consuming_threads(self) -> frozenset[int]:
        return frozenset(thread for role in self.consumers for thread in role.threads)

    @property
    def stage_bytes(self) -> int:
        """Bytes that the loads of one k-tile count at `full`, those of all blocks of a cluster that copy to it."""
        return sum(map(box_bytes, self.loads))


def pipeline_of(kernel: Kernel) -> Pipeline:
    """The pipeline of a kernel with mbarriers. NotRecognised for other structures."""
    items = items_of(kernel)
    roles = roles_of(items, kernel.threads)
    producers = [role for role in roles if role.executes(TensorLoad)]
    consumers = tuple(role for role in roles if role.executes(Wgmma))
    if len(producers) != 1 or not consumers or producers[0] in consumers:
        raise NotRecognised("no single warp copies what other warpgroups multiply")
    (producer,) = producers
    for role in roles:
        if role is not producer and role not in consumers and role.executes(ArriveBarrier, AwaitBarrier, TensorStore):
            raise NotRecognised(f"threads from {role.threads.start} on are neither producer nor consumers")
    loads = tuple(event for event in producer.body if isinstance(event.node, TensorLoad))
    if not loads or any(isinstance(event.node, TensorLoad) for event in (*producer.tile_before, *producer.tile_after)):
        raise NotRecognised("TMA loads are outside of the loop over k-tiles")
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
    return Pipeline(kernel, items, stages, full, empty, producer, consumers, loads)


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
