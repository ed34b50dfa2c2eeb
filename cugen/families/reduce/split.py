"""Few results of long reductions in two launches: parts that fill the device, then the parts of each result.

Both steps are statements of the language: the first reduces stretches of one index, cut into parts of equal length,
the second the parts. The association is fixed by the sizes alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.families.reduce.accumulate import all_of
from cugen.families.reduce.config import count, shape_of
from cugen.families.reduce.recognition import Reduction, recognise
from cugen.families.reduce.rows import RowShape
from cugen.families.reduce.short_rows import ShortShape
from cugen.plan.lowering.reductions import ACCUMULATORS
from cugen.plan.request import Group, Refusal, Request, Single, Steps
from cugen.plan.substitution import substitute
from cugen.rewrite.align_reductions import collected, rebuilt
from cugen.rewrite.fuse_dimensions import digits, product
from cugen.spec.expressions import Const, Expr, Index, IndexValue, Op, Read, Reduce, walk
from cugen.spec.model import Array, Statement
from cugen.spec.prove.affine import text_of
from cugen.spec.types import BOOL, INT64

_MULTIPROCESSORS = 132  # of a large device
_ENOUGH = 2 * _MULTIPROCESSORS  # results that keep it busy, each by a block
_ENOUGH_COLUMNS = 200  # blocks of up to 1024 threads along columns
_WAVES = 4  # of blocks: what is left of the last one costs little
_BYTES = 3 << 17  # that one block reads in about the time of another launch
_PART_BYTES = 1 << 14  # the least that a part is worth
_GRANULE = 4096  # elements of which a part along a row has a multiple, so that no thread is left out


def split(single: Single) -> Steps | None:
    """The steps in place of a statement whose results are too few to fill the device."""
    schedule = single.schedule
    if schedule.block or schedule.thread or schedule.step or dict(schedule.tunables).get("parts") == 1:
        return None
    request = Request("", Group((single.statement,)), single.context, schedule, single.target)
    found = recognise(request)
    if isinstance(found, Refusal):
        return None
    wanted = _wanted(found)
    return None if wanted < 2 else _Splitter(found, wanted).steps()


def _wanted(found: Reduction) -> int:
    """Parts of each result; 1 where the results fill the device, or where there is too little to do."""
    asked = dict(found.request.schedule.tunables).get("parts")
    if asked is not None:
        return int(asked)
    shape = shape_of(found)
    if isinstance(shape, ShortShape):
        return 1
    results = count(found, found.kept)
    longest = max(count(found, stage.indices) for stage in found.stages)
    size = max(found.arrays[read.array].dtype.bytes for stage in found.stages for read in stage.reads)
    if isinstance(shape, RowShape):
        blocks, enough = -(-results // shape.teams), _ENOUGH
        wanted, parts = _WAVES * _resident(512) // max(blocks, 1), longest * size // _PART_BYTES
    else:
        blocks, enough = -(-results // (shape.threads * shape.width)), _ENOUGH_COLUMNS
        wide = -(-results // (max(shape.threads, 32) * shape.width))
        wanted, parts = _WAVES * _resident(shape.threads * shape.across) // max(wide, 1), longest // 64
    if blocks >= enough or results * longest * size // max(min(blocks, _MULTIPROCESSORS), 1) < _BYTES:
        return 1
    return max(min(wanted, parts), 1)


def _resident(threads: int) -> int:
    """Blocks of so many threads that run at once."""
    return _MULTIPROCESSORS * (2048 // threads)


@dataclass(frozen=True, slots=True)
class _Cut:
    """One index cut into parts: `element` counts within part `number`, whose elements begin at `number * chunk`.

    `places` are those along the indices that the cut one stands for; `inside` says that there is such an element."""

    number: Index
    element: Index
    places: Mapping[str, Expr]
    inside: Expr | None


class _Splitter:
    """The steps of one statement, made reduction by reduction."""

    def __init__(self, found: Reduction, wanted: int) -> None:
        self.found, self.wanted = found, wanted
        (self.statement,) = found.unified
        self.taken = {array.name for array in found.request.context.spec.arrays}
        self.taken |= {index.name for stage in found.stages for index in stage.indices}
        self.taken |= {index.name for index in (*self.statement.indices, *found.kept)}
        self.part = self._name("part")
        self.steps_before: list[Statement] = []
        self.tuned: list[str] = []
        self.temporaries: list[Array] = []

    def steps(self) -> Steps:
        statement, value = self.statement, self.statement.value
        while remaining := collected((replace(statement, value=value),)):
            self.results = {reduction: self._in_parts(reduction) for reduction in remaining[0]}
            if len(remaining) == 1:
                break
            # What later terms need is stored: their parts all read it.
            kept = {reduction: self._stored(result, reduction) for reduction, result in self.results.items()}
            value = self._with(value, kept)
        last = replace(statement, value=self._with(value, self.results))
        others = (array.name for array in self.temporaries if array.name not in self.tuned)
        return Steps((*self.steps_before, last), tuple(self.temporaries), tuple(others), tuple(self.tuned))

    def _with(self, value: Expr, results: Mapping[Reduce, Expr]) -> Expr:
        return rebuilt(value, lambda node: results.get(node) if isinstance(node, Reduce) else None)

    def _in_parts(self, reduction: Reduce) -> Expr:
        """The reduction of parts that stands for the whole one, after the step that computes the parts."""
        cut = self._cut(reduction)
        body = substitute(reduction.body, cut.places)
        where = None if reduction.where is None else substitute(reduction.where, cut.places)
        rest = tuple(index for index in reduction.indices if index.name not in cut.places)
        conditions = [condition for condition in (cut.inside, where) if condition is not None]
        part = replace(reduction, body=body, where=all_of(conditions), indices=(*rest, cut.element))
        places = (cut.number, *self.statement.indices)
        if reduction.kind not in ("argmax", "argmin"):
            stored = self._part(part, places, "parts", self._text(reduction, cut))
            return replace(reduction, body=stored, where=None, indices=(cut.number,))
        # The part that has the best element, then where in it that is.
        kind = reduction.kind.removeprefix("arg")
        best = replace(part, kind=kind, dtype=reduction.body.dtype)
        place = self._part(part, places, "places", self._text(reduction, cut))
        value = self._part(best, places, "parts", self._text(replace(reduction, kind=kind), cut))
        is_one: Expr | None = None
        if reduction.where is not None:
            is_one = Op("ge", (place, Const(0, INT64)), BOOL)
        winner = replace(reduction, body=value, where=is_one, indices=(cut.number,))
        chosen = self._stored(winner, reduction, "part")
        there = replace(place, subscripts=(chosen, *place.subscripts[1:]))
        return Op("add", (Op("mul", (chosen, cut.element.extent), INT64), there), INT64)

    def _cut(self, reduction: Reduce) -> _Cut:
        found = self.found
        names = {index.name for index in reduction.indices}
        fitting = [stage for stage in found.stages if self._names(stage.indices) <= names]
        stage = max(fitting, key=lambda stage: len(self._names(stage.indices)))
        long = [index for index in stage.indices if found.most(index) >= 2 * self.wanted]
        index = long[0] if long else max(stage.indices, key=found.most)
        origins = found.origins.get(index.name, (index,))
        total = product(tuple(origin.extent for origin in origins))
        granule = _GRANULE if index == stage.fastest and not found.along else 1
        chunk, parts, is_even = self._chunk(index, total, granule)
        number = IndexValue(self.part)
        place = Op("add", (Op("mul", (number, chunk), INT64), IndexValue(index.name)), INT64)
        inside = None if is_even else Op("lt", (place, total), BOOL)
        places = digits(place, tuple(origin.extent for origin in origins))
        return _Cut(
            Index(self.part, Const(parts, INT64)),
            Index(index.name, chunk),
            {origin.name: digit for origin, digit in zip(origins, places, strict=True)},
            inside,
        )

    def _names(self, indices: tuple[Index, ...]) -> set[str]:
        return {origin.name for index in indices for origin in self.found.origins.get(index.name, (index,))}

    def _chunk(self, index: Index, total: Expr, granule: int) -> tuple[Expr, int, bool]:
        """Elements of a part, how many parts there are, and whether they are all full."""
        count = self.found.request.context.static(self.found.extent(index))
        if count is not None:
            least = -(-count // self.wanted)
            while granule > 1 and least < 16 * granule:
                granule //= 2
            chunk = -(-least // granule) * granule
            return Const(chunk, INT64), -(-count // chunk), count % chunk == 0
        step = self.wanted * granule
        filled = Op("add", (total, Const(step - 1, INT64)), INT64)
        chunk_of = Op("floordiv", (filled, Const(step, INT64)), INT64)
        scaled = chunk_of if granule == 1 else Op("mul", (chunk_of, Const(granule, INT64)), INT64)
        return scaled, self.wanted, False

    def _part(self, reduction: Reduce, places: tuple[Index, ...], wish: str, text: str) -> Read:
        stored = self._step(reduction, places, wish, text)
        self.tuned.append(stored.array)
        return stored

    def _step(self, reduction: Reduce, places: tuple[Index, ...], wish: str, text: str) -> Read:
        """The statement that stores a reduction, and how it is read."""
        word = ACCUMULATORS[reduction.kind] if self._is_one_of_several() and wish == "parts" else ""
        name = self._name("_".join(filter(None, (self.statement.target, word, wish))))
        shape = tuple(index.extent for index in places)
        strides = tuple(product(shape[dimension + 1 :]) for dimension in range(len(shape)))
        self.temporaries.append(Array(name, shape, reduction.dtype, "temporary", strides, is_temporary=True))
        subscripts = tuple(IndexValue(index.name) for index in places)
        subscripted = f"[{', '.join(index.name for index in places)}]" if places else ""
        self.steps_before.append(
            Statement(
                name, subscripts, places, reduction, text=f"{name}{subscripted} = {text}", span=self.statement.span
            )
        )
        return Read(name, subscripts, reduction.dtype)

    def _stored(self, result: Expr, reduction: Reduce, wish: str = "") -> Read:
        assert isinstance(result, Reduce)
        word = wish or ACCUMULATORS[reduction.kind]
        return self._step(result, self.statement.indices, word, f"{result.kind} of the parts")

    def _is_one_of_several(self) -> bool:
        return sum(isinstance(node, Reduce) for node in walk(self.statement.value)) > 1

    def _text(self, reduction: Reduce, cut: _Cut) -> str:
        chunk = text_of(cut.element.extent)
        own = f"{cut.number.name} * {chunk} + {cut.element.name}"
        return f"{reduction.kind} over {cut.element.name} < {chunk} at {own}, of: {self.statement.text}"

    def _name(self, wish: str) -> str:
        while wish in self.taken:
            wish += "_"
        self.taken.add(wish)
        return wish
