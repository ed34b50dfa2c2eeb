"""States of the stages of a multistage pipeline, while a block executes its loop over k-tiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cugen.plan.symbols import Integer


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage of a tile. `group`: how many groups have been committed since that of its pending copy, -1 for one not
    committed; None without. `complete`: copied, but other threads don't see it before a barrier. `is_read`: since the
    last barrier. `k_tile`: what it contains, from the current k-tile on."""

    group: int | None = None
    complete: bool = False
    is_read: bool = False
    k_tile: int | None = None

    def awaited(self, pending: int) -> Stage:
        """After a wait that leaves so many groups pending."""
        is_complete = self.group is not None and self.group >= pending
        return replace(self, group=None, complete=True) if is_complete else self


@dataclass(frozen=True, slots=True)
class State:
    """`stages` of all tiles. `commits`: groups committed, from the number of the current k-tile on. In the loop over
    k-tiles, `k_tile` is the current one's number modulo the period, `left` how many follow it, and `synchronised`
    whether there was a barrier in it."""

    stages: tuple[Stage, ...]
    commits: int = 0
    k_tile: int | None = None
    left: int = 0
    synchronised: bool = False

    def committed(self, period: int) -> State:
        """After a commit; groups are counted up to the period."""
        stages = (s if s.group is None else replace(s, group=min(s.group + 1, period)) for s in self.stages)
        return replace(self, stages=tuple(stages), commits=self.commits + 1)

    def awaited(self, pending: int) -> State:
        """After a wait that leaves so many groups pending."""
        return replace(self, stages=tuple(stage.awaited(pending) for stage in self.stages))

    def met(self) -> State:
        """After a barrier of all threads."""
        stages = (replace(stage, complete=False, is_read=False) for stage in self.stages)
        return replace(self, stages=tuple(stages), synchronised=True)

    def ended(self) -> State:
        """After the loop over k-tiles, where k-tiles are numbered from 0 again."""
        return State(tuple(replace(stage, k_tile=None) for stage in self.stages))


@dataclass(frozen=True, slots=True)
class KLoop:
    """The loop over k-tiles round a node: its `stop` and `step` in elements; at most `max_trips`."""

    stop: Integer
    step: int
    max_trips: int
