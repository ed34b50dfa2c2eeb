"""Computes the phases of a transposed convolution as convolutions, of which the output's elements are gathered.

    y[b, i, k] = sum(x[b, i // 2 - r, c] * w[i % 2 + 2 * r, c, k], r, c)                    x: [B, H, C], w: [4, C, K]
becomes
    y_weights[s, k, r, c] = w[s + 2 * r, c, k]
    y_phases[b, h, s, k] = sum(x[b, h - r, c] * y_weights[s, k, r, c], r, c)
    y[b, i, k] = y_phases[b, i // 2, i % 2, k]
Phases that have as many taps are one convolution, whose other features they are. It has no term that the transposed
convolution doesn't have, but for outputs at the edges, and reads windows that move by one element: an implicit GEMM.
What is computed of a sum, such as a bias and an activation, is computed of the phases where it depends on neither the
position nor the phase: they are stored in the output's type then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from cugen.plan.request import Single, Steps
from cugen.plan.traversal.substitution import substitute
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.temporaries import Temporary, steps_of, temporary
from cugen.rewrite.transposed.phases import Convolution, Dimension, Phases, convolution_of
from cugen.spec.expressions import (
    Boundary,
    Const,
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    Select,
    factors_of_product,
    free_indices,
    walk,
)
from cugen.spec.model import Array, Schedule
from cugen.spec.rewriting import replaced
from cugen.spec.types import BOOL, INT64, DType

_MIN_TERMS = 1 << 24  # below, the launches cost more than they save (heuristic)
_MAX_LAUNCHES = 8  # of convolutions (heuristic)
_NARROW_BYTES = 2  # elements of which a copy of one is no asynchronous one

_PITCH_BYTES = 128  # that the planes of positions begin at multiples of

_ZERO = Const(0, INT64)


def with_stored_phases(single: Single) -> Steps | None:
    """The steps that store inputs with the channels last, weights by phases, and the phases, and the last one, which
    gathers these; None where the statement is no transposed convolution of known sizes with steps, or a short one."""
    statement, context = single.statement, single.context
    loops = {node: None for node in walk(statement.value) if isinstance(node, Reduce | Scan)}
    reduction = next(iter(loops), None)
    if single.schedule != Schedule() or len(loops) != 1:
        return None
    if not isinstance(reduction, Reduce) or reduction.kind != "sum":
        return None
    reads = factors_of_product(reduction.body, reduction.dtype)
    if len(reads) != 2 or any(read.exact or read.array == statement.target for read in reads):
        return None
    inputs, weights = reads if _is_divided(reads[0]) else reads[::-1]
    if not _is_divided(inputs) or weights.boundary is not None:
        return None
    if inputs.boundary is not None and inputs.boundary.mode != "zero":
        return None
    terms = prod(map(context.max_extent, (*statement.indices, *reduction.indices)))
    if terms < _MIN_TERMS or not all(isinstance(sub, IndexValue) for sub in statement.subscripts):
        return None
    convolution = convolution_of(reduction, inputs, weights, statement.indices, context)
    if convolution is None or not 0 < convolution.count <= _MAX_LAUNCHES:
        return None
    taps = {dimension.tap for dimension in convolution.dimensions}
    channels = tuple(index for index in reduction.indices if index.name not in taps)
    if len(channels) != 1 or not all(channels[0].name in free_indices(read) for read in reads):
        return None
    return _Rewriting(single, reduction, inputs, weights, channels[0], convolution).steps()


def _is_divided(read: Read) -> bool:
    """Whether a subscript has a quotient, as those of the inputs of a transposed convolution."""
    return any(isinstance(node, Op) and node.name == "floordiv" for sub in read.subscripts for node in walk(sub))


@dataclass(frozen=True, slots=True)
class _Phase:
    """The convolution of adjacent phases, with the copy of their weights, and its element for an output."""

    weights: Temporary
    convolution: Temporary
    element: Expr


class _Rewriting:
    """The steps of one statement."""

    def __init__(
        self,
        single: Single,
        reduction: Reduce,
        inputs: Read,
        weights: Read,
        channel: Index,
        convolution: Convolution,
    ) -> None:
        self._single, self._reduction, self._channel = single, reduction, channel
        self._inputs, self._weights = inputs, weights
        spec, statement = single.context.spec, single.statement
        self._taken = taken_names(spec, (*statement.indices, *reduction.indices))
        self._stores_results, convolution = _with_results(single, reduction, weights, convolution)
        self._dimensions, self._conditions = convolution.dimensions, convolution.conditions
        *_, last = self._dimensions
        self._positions = tuple(
            Index(fresh(f"{d.index}_in", self._taken), Const(d.positions + (d is last and d.positions % 2), INT64))
            for d in self._dimensions
        )  # planes of pairs: a vector has two at least

    def steps(self) -> Steps:
        """The copies, the convolutions, and the statement that gathers their elements."""
        inputs, copies = self._inputs, list[Temporary]()
        if (order := self._channels_last()) is not None:
            copies.append(self._copy_of_inputs(order))
            subscripts = tuple(inputs.subscripts[d] for d in order)
            inputs = replace(inputs, array=copies[0].array.name, subscripts=subscripts)
        groups = tuple(product(*(dimension.groups for dimension in self._dimensions)))
        phases = {chosen: self._phase(chosen, inputs) for chosen in groups}
        element = self._gathered((), {chosen: phase.element for chosen, phase in phases.items()})
        for condition in reversed(self._conditions):
            element = Select(condition, element, self._nothing, element.dtype)
        statement = self._single.statement
        value = element if self._stores_results else replaced(statement.value, _by(self._reduction, element))
        copies += (phase.weights for phase in phases.values())
        convolutions = (phase.convolution for phase in phases.values())
        return replace(steps_of((*copies, *convolutions), replace(statement, value=value)), opens_last=True)

    @property
    def _nothing(self) -> Expr:
        """What an element is of a sum without terms."""
        zero = Const(0, self._reduction.dtype)
        return replaced(self._single.statement.value, _by(self._reduction, zero)) if self._stores_results else zero

    def _channels_last(self) -> tuple[int, ...] | None:
        """The dimensions of a copy of the inputs with the channels last; None where they are as good as they are: wide
        elements are copied one by one as fast."""
        array = self._single.context.arrays[self._inputs.array]
        channel = self._inputs.subscripts.index(IndexValue(self._channel.name))
        if array.strides[channel] == 1 or array.dtype.bytes > _NARROW_BYTES:
            return None
        return (*(d for d in range(len(array.shape)) if d != channel), channel)

    def _copy_of_inputs(self, order: tuple[int, ...]) -> Temporary:
        array = self._single.context.spec.array(self._inputs.array)
        names = [fresh(f"{array.name}_{d}", self._taken) for d in range(len(array.shape))]
        value = Read(array.name, tuple(map(IndexValue, names)), self._inputs.dtype)
        indices = tuple(Index(names[d], array.shape[d]) for d in order)
        name, what = fresh(f"{array.name}_last", self._taken), f"{array.name}, channels last"
        copy = temporary(name, indices, value, what, self._single.statement, is_stored=True)
        return replace(copy, array=replace(copy.array, dtype=array.dtype))

    def _phase(self, groups: tuple[Phases, ...], inputs: Read) -> _Phase:
        """The convolution of phases that have as many taps in each dimension."""
        statement, pairs = self._single.statement, list(zip(self._dimensions, groups, strict=True))
        name = "_".join((statement.target, *(str(phases.first) for phases in groups)))
        numbers = {
            d.index: Index(fresh(f"{d.index}_phase", self._taken), Const(phases.count, INT64))
            for d, phases in pairs
            if phases.count > 1
        }
        taps = {d.tap: Index(d.tap, Const(phases.taps, INT64)) for d, phases in pairs if d.tap and phases.taps > 1}
        weights = self._copy_of_weights(name, groups, numbers, taps)
        of_inputs = dict(enumerate(self._inputs.subscripts))
        for (d, _), position in zip(pairs, self._positions, strict=True):
            of_inputs[d.of_inputs] = _sum(d.lowest, (1, IndexValue(position.name)), (d.reach, _tap(d, taps)))
        by_subscript = dict(zip(self._inputs.subscripts, of_inputs.values(), strict=True))
        read = replace(
            inputs,
            subscripts=tuple(by_subscript[sub] for sub in inputs.subscripts),
            boundary=inputs.boundary or Boundary("zero"),
        )
        factors: dict[Expr, Expr] = {self._inputs: read, self._weights: weights.read}
        body = replaced(self._reduction.body, factors.get)
        total = replace(self._reduction, body=body, indices=(*taps.values(), self._channel), where=None)
        value = replaced(statement.value, _by(self._reduction, total)) if self._stores_results else total
        what = f"phases of: {statement.text}"
        indices = self._ordered(tuple(numbers.values()))
        stored = temporary(fresh(f"{name}_phases", self._taken), indices, value, what, statement, is_stored=True)
        dtype = _output_type(self._single) if self._stores_results else total.dtype
        stored = replace(stored, array=self._pitched(replace(stored.array, dtype=dtype)))
        gathered: dict[str, Expr] = {
            position.name: d.position for d, position in zip(self._dimensions, self._positions, strict=True)
        }
        for d, phases in pairs:
            if phases.count > 1:
                gathered[numbers[d.index].name] = _sum(-phases.first, (1, d.phase))
        return _Phase(weights, stored, substitute(stored.read, gathered))

    def _copy_of_weights(
        self, name: str, groups: tuple[Phases, ...], numbers: Mapping[str, Index], taps: Mapping[str, Index]
    ) -> Temporary:
        """The weights of phases, contracted dimensions last."""
        read, statement = self._weights, self._single.statement
        subscripts = list(read.subscripts)
        for d, phases in zip(self._dimensions, groups, strict=True):
            number: Expr = IndexValue(numbers[d.index].name) if d.index in numbers else _ZERO
            subscripts[d.of_weights] = _sum(phases.first, (1, number), (d.step, _tap(d, taps)))
        outputs = tuple(index for index in statement.indices if IndexValue(index.name) in read.subscripts)
        indices = (*numbers.values(), *outputs, *taps.values(), self._channel)
        value, what = replace(read, subscripts=tuple(subscripts)), f"weights of phases of: {statement.text}"
        copy = temporary(fresh(f"{name}_weights", self._taken), indices, value, what, statement, is_stored=True)
        return replace(copy, array=replace(copy.array, dtype=self._single.context.spec.array(read.array).dtype))

    def _ordered(self, numbers: tuple[Index, ...]) -> tuple[Index, ...]:
        """The indices of phases: the positions last where the output is contiguous along one, else the features."""
        statement, context = self._single.statement, self._single.context
        pairs = zip(statement.subscripts, context.arrays[statement.target].strides, strict=True)
        contiguous = next((sub for sub, stride in pairs if stride == 1), None)
        moving = {dimension.index for dimension in self._dimensions}
        others = tuple(index for index in statement.indices if index.name not in moving)
        features = tuple(i for i in others if IndexValue(i.name) not in self._inputs.subscripts)
        batch = tuple(index for index in others if index not in features)
        if contiguous is not None and free_indices(contiguous) & moving:
            return (*batch, *numbers, *features, *self._positions)
        return (*batch, *self._positions, *numbers, *features)

    def _pitched(self, array: Array) -> Array:
        """An array of phases with aligned planes of positions, of which tiles are stored in vectors."""
        rank = len(self._positions)
        if array.shape[-rank:] != tuple(position.extent for position in self._positions):
            return array
        plane = prod(map(self._single.context.max_extent, self._positions))
        multiple = _PITCH_BYTES // array.dtype.bytes
        strides = list(array.strides)
        stride: Expr = Const(-(-plane // multiple) * multiple, INT64)
        for dimension in reversed(range(len(array.shape) - rank)):
            strides[dimension] = stride
            stride = Op("mul", (array.shape[dimension], stride), INT64)
        return replace(array, strides=tuple(strides))

    def _gathered(self, chosen: tuple[Phases, ...], elements: Mapping[tuple[Phases, ...], Expr]) -> Expr:
        """The element of an output's phase, of those of all combinations; `chosen` are the phases of the first
        dimensions."""
        if len(chosen) == len(self._dimensions):
            return elements[chosen]
        dimension = self._dimensions[len(chosen)]
        *before, last = dimension.groups
        element = self._gathered((*chosen, last), elements)
        if last.first + last.count < dimension.phase_count:
            element = _chosen(dimension.phase, last.first + last.count, element, self._nothing)
        for phases in reversed(before):
            this = self._gathered((*chosen, phases), elements)
            element = _chosen(dimension.phase, phases.first + phases.count, this, element)
        return element


def _with_results(
    single: Single, reduction: Reduce, weights: Read, convolution: Convolution
) -> tuple[bool, Convolution]:
    """Whether phases are stored as results of the statement, and the groups of phases that are convolutions then: what
    a feature has besides its sum, such as a bias, isn't that of features of other phases."""
    outside = free_indices(replaced(single.statement.value, _by(reduction, _ZERO)))
    if single.statement.accumulate or not _output_type(single).is_float:  # rounded once, after it is added
        return False, convolution
    if outside & {d.index for d in convolution.dimensions}:
        return False, convolution
    if not outside & free_indices(weights):
        return True, convolution
    split = convolution.split()
    return (True, split) if split.count <= _MAX_LAUNCHES else (False, convolution)


def _output_type(single: Single) -> DType:
    return single.context.spec.array(single.statement.target).dtype


def _by(old: Expr, new: Expr) -> Callable[[Expr], Expr | None]:
    """A rule that replaces one expression."""
    return lambda part: new if part == old else None


def _chosen(phase: Expr, stop: int, below: Expr, above: Expr) -> Expr:
    """A value below a phase, and one from it on."""
    return Select(Op("lt", (phase, Const(stop, INT64)), BOOL), below, above, below.dtype)


def _tap(dimension: Dimension, taps: Mapping[str, Index]) -> Expr:
    return IndexValue(dimension.tap) if dimension.tap in taps else _ZERO


def _sum(constant: int, *terms: tuple[int, Expr]) -> Expr:
    """The sum of a constant and of multiples."""
    total: Expr | None = None
    for factor, term in terms:
        if term == _ZERO:
            continue
        scaled = term if abs(factor) == 1 else Op("mul", (Const(abs(factor), INT64), term), INT64)
        if total is None:
            total = scaled if factor > 0 else Op("neg", (scaled,), INT64)
        else:
            total = Op("add" if factor > 0 else "sub", (total, scaled), INT64)
    if total is None:
        return Const(constant, INT64)
    if constant:
        total = Op("add" if constant > 0 else "sub", (total, Const(abs(constant), INT64)), INT64)
    return total
