"""Changes of an array's declaration that move fewer sectors of global memory: each is tried before it is advised."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cugen.analysis.limits.fixes import Planner, State, state_of
from cugen.analysis.limits.layouts import (
    MAX_TRIED_ARRAYS,
    comparable_sizes,
    layout_changes,
    moves_fewer_sectors,
    state_with,
)
from cugen.spec.model import Array, Spec

ADJACENT = "adjacent threads have to access consecutive elements"


class Advisor:
    """Advice for the arrays of one spec. `plan`: the launches of a spec; `params`: values of dynamic params."""

    def __init__(self, spec: Spec, plan: Planner, params: Mapping[str, int]) -> None:
        self._spec, self._plan, self._sizes = spec, plan, comparable_sizes([spec], params)
        self._before: State | None = None
        self._texts: dict[str, str] = {}

    def advise(self, array: str) -> str:
        """The changes of an array's declaration with which all launches move fewer sectors, the best first."""
        if array not in self._texts:
            self._texts[array] = self._advice(array) if len(self._texts) < MAX_TRIED_ARRAYS else ADJACENT
        return self._texts[array]

    def _advice(self, name: str) -> str:
        array = next((a for a in self._spec.arrays if a.name == name and not a.is_temporary), None)
        if array is None:
            return ADJACENT
        before = self._before = self._before or state_of([self._spec], self._plan, self._sizes)
        tried, helpful = [], []
        for text, changed in _changes(array, self._spec):
            tried.append(f"`{text}`")
            after = state_with([changed], name, before, self._plan, self._sizes)
            if after is not None and moves_fewer_sectors(after, before):
                helpful.append((after.sectors, text))
        if not tried:
            return ADJACENT
        if not helpful:
            return f"{ADJACENT}; tried for `{name}` without effect: {', '.join(tried)}"
        moved = [f"`{text}`, with which all accesses move {sectors:,}" for sectors, text in sorted(helpful)]
        sizes = ", ".join(f"{name} = {size}" for name, size in self._sizes.items())
        given = f" at {sizes}" if sizes else ""
        return f"all accesses move {before.sectors:,} sectors{given}; write for `{name}` {'; or '.join(moved)}"


def _changes(array: Array, spec: Spec) -> Iterator[tuple[str, Array]]:
    """Other declarations of an array, with what they change in the spec."""
    yield from layout_changes(array, spec)
    if array.role in ("input", "baked") and array.memory.space != "shared" and not array.is_filtered:
        yield "memory: shared", replace(array, memory=replace(array.memory, space="shared"))
