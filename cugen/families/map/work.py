"""What a `map` kernel computes: statements in canonical form, and the widest vectors that alignment allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.pieces.elementwise import IN_MEMORY, certain_reads
from cugen.pieces.structures.recognition import Structure, loaded_structures, stored_structures
from cugen.pieces.structures.runs import Run, fewest_sectors, run_of
from cugen.pieces.vector_body import is_guarded, whole_vectors
from cugen.pieces.vectors import MAX_ACCESS_BYTES, ElementRef, Width, narrowest, runs_backwards, widest_at
from cugen.plan.memory import Array
from cugen.plan.request import Request
from cugen.rewrite.dense_indices import canonical, iteration_order
from cugen.rewrite.fuse_dimensions import FusedStatements
from cugen.spec.expressions import Expr, Index, IndexValue, Op, Read, children
from cugen.spec.model import Param
from cugen.spec.prove.affine import Variable, affine_form

MIN_STORE_BYTES = 4  # of one thread; narrower stores waste the store path (heuristic)


@dataclass(frozen=True, slots=True)
class Work:
    """Canonical statements over `order`, the contiguous index first; `max_width` is the widest vector along it.

    `loaded` and `stored` are structures that vectors may move. Elements of statements that
    are partial (`is_partial`) are stored one by one."""

    request: Request  # its statements over as few indices as memory needs
    arrays: Mapping[str, Array]
    order: tuple[Index, ...]
    max_width: Width
    loaded: tuple[Structure, ...] = ()
    stored: tuple[Structure, ...] = ()
    is_partial: bool = False

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

    def limited(self) -> list[Read]:
        """The streamed reads that may be outside of their array."""
        return [read for read in self.request.reads() if self.is_streamed(read) and (read.boundary or read.exact)]

    def is_streamed(self, read: Read) -> bool:
        """Whether each element of the output reads a different element of the array."""
        names = {index.name for index in self.order}
        params = {param.name: param for param in self.request.context.spec.params}
        return self.arrays[read.array].space in IN_MEMORY and names <= _moving_indices(read, params)

    def runs(self, structures: tuple[Structure, ...], width: int) -> tuple[Run, ...]:
        """The structures of `width` elements that vectors can move."""
        runs = (run_of(structure, self.along, width, self.request.context) for structure in structures)
        return tuple(filter(None, runs))

    def bytes_per_access(self, width: int) -> int:
        """Bytes of the largest access to a streamed array, or of a thread's consecutive structures."""
        runs = (*self.runs(self.loaded, width), *self.runs(self.stored, width))
        plain = (self.arrays[array].dtype.bytes * width for array, _ in self.streamed())
        return max(*plain, *(run.bytes for run in runs), 0)

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


def work_of(request: Request, form: FusedStatements | None = None) -> Work:
    """The work of a request that consists of statements without loops, over its indices as they are, or of a `form` of
    them."""
    form = form or canonical(request)
    request = request.with_statements(form.statements)
    order = iteration_order(request, form)
    if any(statement.is_partial for statement in request.group.statements):
        width = Width(1, "results at the edges are stored one by one")
        return Work(request, form.arrays, order, width, is_partial=True)
    loaded = loaded_structures(request, form.arrays, order[0])
    stored = stored_structures(request, form.arrays, order[0])
    work = Work(request, form.arrays, order, Width(MAX_ACCESS_BYTES, ""), loaded, stored)
    arrays, context = work.arrays, request.context
    in_structures = {reference for structure in (*loaded, *stored) for reference in structure.fields}
    streamed = [reference for reference in work.streamed() if reference not in in_structures]
    max_width = narrowest([work.max_width, *(_widest(work, reference) for reference in streamed)])
    limited = work.limited()
    bounded = [read.array for read in limited if not is_guarded(read, work.along)]
    for read in limited:
        vectors = whole_vectors(read, work.along, arrays[read.array], context)
        max_width = max_width.dividing(vectors, f"the extent of {read.array} is a multiple of {{count}} elements only")
    if bounded:
        max_width = Width(1, f"the boundary of {bounded[0]} is resolved per element")
    stored_elements = [
        (arrays[s.target], s.subscripts)
        for s in request.stored_statements()
        if (s.target, s.subscripts) not in in_structures
    ]
    if stored_elements:
        widths = [widest_at(array, subscripts, work.along, context) for array, subscripts in stored_elements]
        bytes_ = max(array.dtype.bytes for array, _ in stored_elements)
        store_width = min(*(width.count for width in widths), max(MIN_STORE_BYTES // bytes_, 1))
        if max_width.count < store_width:
            max_width = Width(store_width, f"{max_width.reason}; stores take {store_width} at once")
    return replace(work, max_width=_width_of_structures(work, max_width))


def _moving_indices(expr: Expr, params: Mapping[str, Param]) -> frozenset[str]:
    """The indices that an expression reads at each of their values, as far as can be told: `k // 32`, as of a scale of
    32 elements, is the same for many."""
    if isinstance(expr, IndexValue):
        return frozenset((expr.name,))
    if isinstance(expr, Op) and expr.name == "floordiv":
        dividend, divisor = (affine_form(arg, params) for arg in expr.args)
        if divisor.is_constant and all(isinstance(atom, Variable) for atom, _ in dividend.terms):
            steps = ((atom.name, step) for atom, step in dividend.terms if isinstance(atom, Variable))
            return frozenset(name for name, step in steps if abs(step) >= divisor.constant)
    return frozenset[str]().union(*(_moving_indices(part, params) for part in children(expr)))


def _widest(work: Work, reference: ElementRef) -> Width:
    """The widest vector of an access; a read may run backwards."""
    context, along = work.request.context, work.along
    backwards = runs_backwards(work.arrays, reference, along, context)
    return widest_at(work.arrays[reference[0]], reference[1], along, context, backwards=backwards)


def _width_of_structures(work: Work, max_width: Width) -> Width:
    """The width, up to a maximum, with which accesses to structures move the fewest sectors: the widest of those."""
    structures = (*work.loaded, *work.stored)
    if not structures:
        return max_width
    widths = [1 << power for power in reversed(range(max_width.count.bit_length()))]
    # Elements of a structure that vectors can't store are stored one by one.
    storable = [width for width in widths if width == 1 or len(work.runs(work.stored, width)) == len(work.stored)]
    width = fewest_sectors(structures, work.along, storable, work.request.context)
    names = ", ".join(dict.fromkeys(structure.array.name for structure in structures))
    if width == max_width.count and max_width.reason:
        return max_width
    count = f"{width} elements" if width > 1 else "one element"
    return Width(width, f"with {count} per thread, structures of {names} take the fewest sectors")
