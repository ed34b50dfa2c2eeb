"""What a `map` kernel computes: statements in canonical form, and the widest vectors that alignment allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.pieces.elementwise import IN_MEMORY, certain_reads
from cugen.pieces.vector_body import is_guarded
from cugen.pieces.vectors import MAX_ACCESS_BYTES, ElementRef, Width, narrowest, widest_at
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.rewrite.dense_indices import canonical, iteration_order
from cugen.spec.expressions import Index, Read, free_indices

MIN_STORE_BYTES = 4  # of one thread; narrower stores waste the store path (heuristic)


@dataclass(frozen=True, slots=True)
class Work:
    """Canonical statements over `order`, the contiguous index first; `max_width` is the widest vector along it."""

    request: Request  # its statements over as few indices as memory needs
    arrays: Mapping[str, Array]
    order: tuple[Index, ...]
    max_width: Width

    @property
    def along(self) -> str:
        return self.order[0].name

    @property
    def full_width(self) -> int:
        """Elements of the widest access, by their type alone."""
        return MAX_ACCESS_BYTES // max(self.arrays[array].dtype.bytes for array, _ in self.streamed())

    def streamed(self) -> list[ElementRef]:
        """The stored elements, and the reads as large as the output; smaller inputs stay in a cache or in registers."""
        reads = certain_reads(self.request, self.arrays)
        loads = [(read.array, read.subscripts) for read in reads if self.is_streamed(read)]
        return [*loads, *((s.target, s.subscripts) for s in self.request.stored_statements())]

    def is_streamed(self, read: Read) -> bool:
        """Whether each element of the output reads a different element of the array."""
        names = {index.name for index in self.order}
        return self.arrays[read.array].space in IN_MEMORY and names <= free_indices(read)

    def requested_widths(self) -> list[tuple[int, str]]:
        """The vector widths that the schedule requests, each with its key."""
        widths = []
        vector = dict(self.request.schedule.tunables).get("vector")
        if isinstance(vector, int):
            widths.append((vector, "schedule.vector"))
        if self.along in (thread := dict(self.request.schedule.thread)):
            widths.append((thread[self.along], f"schedule.thread.{self.along}"))
        return widths

    def requested_vectors(self) -> int | None:
        vectors = dict(self.request.schedule.tunables).get("vectors")
        return vectors if isinstance(vectors, int) else None


def recognise(request: Request) -> Work:
    """The work of a request that consists of statements without loops."""
    form = canonical(request)
    request = request.with_statements(form.statements)
    work = Work(request, form.arrays, iteration_order(request, form), Width(MAX_ACCESS_BYTES, ""))
    arrays, context = work.arrays, request.context
    widths = [widest_at(arrays[array], subs, work.along, context) for array, subs in work.streamed()]
    max_width = narrowest(widths)
    bounded = [
        read.array
        for read in request.reads()
        if work.is_streamed(read) and (read.boundary or read.exact) and not is_guarded(read, work.along)
    ]
    if bounded:
        max_width = Width(1, f"the boundary of {bounded[0]} is resolved per element")
    stored_statements = request.stored_statements()
    stored = [widest_at(arrays[s.target], s.subscripts, work.along, context) for s in stored_statements]
    bytes_ = max(arrays[s.target].dtype.bytes for s in stored_statements)
    store_width = min(*(width.count for width in stored), max(MIN_STORE_BYTES // bytes_, 1))
    if max_width.count < store_width:
        max_width = Width(store_width, f"{max_width.reason}; stores take {store_width} at once")
    return replace(work, max_width=max_width)
