"""Recognises convolutions of 3 x 3 taps and stride 1 in a statement, as it is written or in canonical form.

    y[n, o, i, j] = sum(x[n, c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s)
Taps may run backwards, as in gradients and transposed convolutions: `x[n, c, i - r + 1, j - s + 1]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cugen.spec.expressions import (
    Expr,
    Index,
    IndexValue,
    Op,
    Read,
    Reduce,
    Scan,
    factors_of_product,
    free_indices,
    walk,
)
from cugen.spec.model import Param, Spec, Statement
from cugen.spec.prove.affine import AffineForm, Variable, affine_form
from cugen.spec.types import BOOL, FLOAT32
from cugen.spec.winograd.transforms import TAPS


@dataclass(frozen=True, slots=True)
class Axis:
    """One of the two dimensions along which taps move. Output `index` reads input `index + first + t` at the t-th tap,
    from the lowest input on, and weight `first_weight + weight_step * t`; `of_inputs` and `of_weights` are the
    dimensions of these subscripts."""

    index: str
    tap: str
    of_inputs: int
    of_weights: int
    first: int
    first_weight: int
    weight_step: int


@dataclass(frozen=True, slots=True)
class Convolution:
    """A sum of products of `inputs` and `weights` over two taps and `channels`, which both operands have."""

    reduction: Reduce
    inputs: Read
    weights: Read
    axes: tuple[Axis, Axis]
    channels: tuple[Index, ...]


def convolution_of(statement: Statement, spec: Spec) -> Convolution | str:
    """The convolution of a statement, or why there is none that Winograd's algorithm computes."""
    loops = dict.fromkeys(node for node in walk(statement.value) if isinstance(node, Reduce | Scan))
    reduction = next(iter(loops), None)
    if not isinstance(reduction, Reduce) or reduction.kind != "sum" or len(loops) > 1:
        return f"{statement.target} isn't made of a single sum"
    params = {param.name: param for param in spec.params}
    factors = factors_of_product(reduction.body, reduction.dtype)
    types = {reduction.dtype, *(spec.array(read.array).dtype for read in factors)}
    if not factors or types != {FLOAT32}:
        return "it is for sums in float32 of products of two float32 arrays"
    if reduction.where is not None and not _always_holds(reduction.where, params):
        return "the sum has a condition"
    if any(isinstance(node, Read) and node.array == statement.target for node in walk(statement.value)):
        return f"{statement.target} is computed from its own elements"
    for inputs, weights in (factors, factors[::-1]):
        axes = tuple(_axes(statement, reduction, inputs, weights, params))
        if len(axes) >= 2 and weights.boundary is None and not (inputs.exact or weights.exact):
            return _with_channels(statement, reduction, inputs, weights, axes[-2:])
    return "it is for convolutions of 3 x 3 taps with stride 1"


def _with_channels(
    statement: Statement, reduction: Reduce, inputs: Read, weights: Read, axes: tuple[Axis, ...]
) -> Convolution | str:
    """The convolution along two axes, if all other indices are in the subscripts that it has room for."""
    first, second = axes
    taps, moved = {first.tap, second.tap}, {first.index, second.index}
    other_inputs, other_weights = (
        frozenset[str]().union(*(free_indices(sub) for n, sub in enumerate(read.subscripts) if n not in dimensions))
        for read, dimensions in (
            (inputs, (first.of_inputs, second.of_inputs)),
            (weights, (first.of_weights, second.of_weights)),
        )
    )
    if len(taps | moved) < 4 or (other_inputs | other_weights) & (taps | moved):
        return "taps or positions are in other subscripts, too"
    channels = tuple(index for index in reduction.indices if index.name not in taps)
    if not channels:
        return "there are no channels to sum over"
    if not {index.name for index in channels} <= other_inputs & other_weights:
        return "the sum runs over an index that one of the operands doesn't have"
    if not {index.name for index in statement.indices} <= other_inputs | other_weights | moved:
        return "results are repeated along an index"
    return Convolution(reduction, inputs, weights, (first, second), channels)


def _axes(
    statement: Statement, reduction: Reduce, inputs: Read, weights: Read, params: Mapping[str, Param]
) -> Iterator[Axis]:
    """The dimensions of the inputs along which an output index and a tap move."""
    outputs = {sub.name for sub in statement.subscripts if isinstance(sub, IndexValue)}
    extents = {index.name: affine_form(index.extent, params) for index in reduction.indices}
    of_weights = [_terms(sub, params) for sub in weights.subscripts]
    for dimension, sub in enumerate(inputs.subscripts):
        terms = _terms(sub, params)
        taps = [name for name in terms or () if name in extents and extents[name] == AffineForm((), TAPS)]
        moved = [name for name in terms or () if name in outputs]
        if terms is None or len(terms) != 2 or len(taps) != 1 or len(moved) != 1 or terms[moved[0]] != 1:
            continue
        (tap,), (index,) = taps, moved
        with_tap = [(n, of_weight) for n, of_weight in enumerate(of_weights) if of_weight and tap in of_weight]
        if len(with_tap) != 1 or abs(terms[tap]) != 1:
            continue
        ((tap_dimension, of_weight),) = with_tap
        step = of_weight[tap]
        if len(of_weight) != 1 or abs(step) != 1:
            continue
        constant = affine_form(sub, params).constant
        constant_weight = affine_form(weights.subscripts[tap_dimension], params).constant
        if terms[tap] == 1:
            yield Axis(index, tap, dimension, tap_dimension, constant, constant_weight, step)
        else:  # the t-th tap is TAPS - 1 - t
            last = TAPS - 1
            yield Axis(index, tap, dimension, tap_dimension, constant - last, constant_weight + last * step, -step)


def _terms(sub: Expr, params: Mapping[str, Param]) -> dict[str, int] | None:
    """The coefficients of an affine subscript by index; None for another one, or one that a param moves."""
    terms = affine_form(sub, params).terms
    names = {atom.name: coefficient for atom, coefficient in terms if isinstance(atom, Variable)}
    return names if len(names) == len(terms) and not names.keys() & params.keys() else None


def _always_holds(condition: Expr, params: Mapping[str, Param]) -> bool:
    """Whether a condition is one of equal numbers, as the congruences of a transposed convolution with stride 1."""
    match condition:
        case Op(name="and", args=(left, right), dtype=dtype) if dtype == BOOL:
            return _always_holds(left, params) and _always_holds(right, params)
        case Op(name="eq", args=(left, right)):
            difference = affine_form(left, params) - affine_form(right, params)
            return difference.is_constant and difference.constant == 0
    return False
