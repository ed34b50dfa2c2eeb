"""The roles of a warp-specialised kernel: what each warpgroup, the producer warp among them, executes in the loops over
output tiles and k-tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.analysis.pipelines.claims import NotRecognised
from cugen.analysis.pipelines.roles.events import Event, Item, PipelineLoop
from cugen.machine.wgmma import WARPGROUP


@dataclass(frozen=True, slots=True)
class Role:
    """What a warpgroup, or the part of one, executes, in order: `before` all, and for each output tile events before
    the loop over k-tiles, its `body`, and events after it; `after` all. `first_k_tiles`: a loop before, which only
    copies."""

    threads: range
    before: tuple[Event, ...] = ()
    tiles: PipelineLoop | None = None
    tile_before: tuple[Event, ...] = ()
    k_tiles: PipelineLoop | None = None
    body: tuple[Event, ...] = ()
    tile_after: tuple[Event, ...] = ()
    after: tuple[Event, ...] = ()
    first_k_tiles: PipelineLoop | None = None

    @property
    def events(self) -> tuple[Event, ...]:
        return (*self.before, *self.first_copies, *self.tile_before, *self.body, *self.tile_after, *self.after)

    @property
    def first_copies(self) -> tuple[Event, ...]:
        """What the loop over the first k-tiles has in its body."""
        return _split(self.first_k_tiles.items, self.threads)[0] if self.first_k_tiles else ()

    def executes(self, *kinds: type) -> bool:
        return any(isinstance(event.node, kinds) for event in self.events)


def roles_of(items: tuple[Item, ...], threads: int) -> tuple[Role, ...]:
    """The role of each 128 threads; the producer warp is the last, with fewer."""
    groups = (range(first, min(first + WARPGROUP, threads)) for first in range(0, threads, WARPGROUP))
    return tuple(_role(items, group) for group in groups)


def _role(items: tuple[Item, ...], group: range) -> Role:
    first: list[PipelineLoop] = []
    before, loop, after = _split(items, group, first)
    if loop is None:
        return Role(group, before)
    if loop.over_k:
        body = _split(loop.items, group)[0]
        return Role(group, before, None, (), loop, body, after, first_k_tiles=first[0] if first else None)
    tile_before, k_tiles, tile_after = _split(loop.items, group)
    if k_tiles is None or not k_tiles.over_k or first:
        raise NotRecognised("a loop over output tiles has no loop over k-tiles in it, or one before it")
    body = _split(k_tiles.items, group)[0]
    return Role(group, before, loop, tile_before, k_tiles, body, tile_after, after)


def _split(
    items: tuple[Item, ...], group: range, first: list[PipelineLoop] | None = None
) -> tuple[tuple[Event, ...], PipelineLoop | None, tuple[Event, ...]]:
    """The group's events before and after its only loop. A loop before that only copies is added to `first`."""
    before: list[Event] = []
    after: list[Event] = []
    loop: PipelineLoop | None = None
    members = frozenset(group)
    for item in items:
        if not item.threads & members:
            continue
        if isinstance(item, Event):
            in_role = replace(item.scope, threads=item.threads & members)
            (after if loop else before).append(Event(item.node, in_role, item.threads))
        elif loop is not None and first == [] and loop.only_copies:
            first.append(loop)
            before, after, loop = [*before, *after], [], item
        elif loop is not None:
            raise NotRecognised("a role has more than one loop over k-tiles or output tiles")
        else:
            loop = item
    return tuple(before), loop, tuple(after)
