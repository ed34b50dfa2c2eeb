"""What a `map` kernel computes: statements in their canonical form, and how wide their accesses may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.pieces.elementwise import IN_MEMORY, certain_reads
from cugen.pieces.vector_body import is_guarded
from cugen.pieces.vectors import WIDEST, Place, Width, widest_at
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.rewrite.dense_indices import canonical, walking_order
from cugen.spec import expressions as spec
from cugen.spec.expressions import Read, free_indices
from cugen.spec.model import Statement

_WORD = 4  # bytes, the least that an access should store


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed over which indices, the one that walks memory contiguously first; `most` is how many neighbours
    along it one access may move."""

    request: Request  # its statements over as few indices as memory needs
    arrays: Mapping[str, Array]
    order: tuple[spec.Index, ...]
    most: Width

    @property
    def along(self) -> str:
        return self.order[0].name

    @property
    def statements(self) -> tuple[Statement, ...]:
        return self.request.group.statements

    @property
    def full_width(self) -> int:
        """Neighbours that one access moves where nothing but the types says how many."""
        return WIDEST // max(self.arrays[array].dtype.bytes for array, _ in self.places())

    def places(self) -> list[Place]:
        """What is written, and the reads that are as large; smaller ones stay in a cache, or in registers."""
        reads = certain_reads(self.request, self.arrays)
        found = [(read.array, read.subscripts) for read in reads if self.is_large(read)]
        return [*found, *((s.target, s.subscripts) for s in self.statements if self.is_stored(s))]

    def is_large(self, read: Read) -> bool:
        """Whether each element of the output sees another of the array's."""
        names = {index.name for index in self.order}
        return self.arrays[read.array].space in IN_MEMORY and names <= free_indices(read)

    def is_stored(self, statement: Statement) -> bool:
        role = self.request.context.spec.array(statement.target).role
        return role != "temporary" or statement.target in self.request.stored

    def asked_width(self) -> list[tuple[int, str]]:
        """The elements of an access that the schedule asks for, each with its key."""
        found = []
        vector = dict(self.request.schedule.tunables).get("vector")
        if isinstance(vector, int):
            found.append((vector, "schedule.vector"))
        if self.along in (own := dict(self.request.schedule.thread)):
            found.append((own[self.along], f"schedule.thread.{self.along}"))
        return found

    def asked_vectors(self) -> int | None:
        asked = dict(self.request.schedule.tunables).get("vectors")
        return asked if isinstance(asked, int) else None


def recognise(request: Request) -> Work:
    """The work in its canonical form, and how wide its accesses may be."""
    form = canonical(request)
    request = replace(request, group=replace(request.group, statements=form.statements))
    work = Work(request, form.arrays, walking_order(request, form), Width(WIDEST, ""))
    arrays, context = work.arrays, request.context
    widths = [widest_at(arrays[array], subs, work.along, context) for array, subs in work.places()]
    most = min(widths, key=lambda width: width.count)
    bounded = [
        read.array
        for read in request.reads()
        if work.is_large(read) and (read.boundary or read.exact) and not is_guarded(read, work.along)
    ]
    if bounded:
        most = Width(1, f"what lies beyond {bounded[0]} is looked up element by element")
    stored = [
        widest_at(arrays[s.target], s.subscripts, work.along, context) for s in work.statements if work.is_stored(s)
    ]
    bytes_ = max(arrays[s.target].dtype.bytes for s in work.statements if work.is_stored(s))
    least = min(*(width.count for width in stored), max(_WORD // bytes_, 1))
    return replace(
        work, most=most if most.count >= least else Width(least, f"{most.reason}; {least} are stored at once")
    )
