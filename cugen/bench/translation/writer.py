"""Translation of one statement to a library's text."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from cugen.bench.translation.affine import Affine, affine
from cugen.bench.translation.dialects import SIGNS, Dialect, NoPeer, number
from cugen.bench.translation.recognised import Softmax, softmax
from cugen.bench.translation.sliding import window
from cugen.bench.translation.terms import Number, Stored, Term, fold, promoted, slice_text
from cugen.bench.translation.windows import windows_of
from cugen.spec.expressions import (
    Boundary,
    Cast,
    Const,
    Expr,
    IndexValue,
    Op,
    ParamValue,
    Read,
    Reduce,
    Sample,
    ScalarValue,
    Scan,
    Select,
    bound_indices,
    walk,
)
from cugen.spec.model import Spec, Statement
from cugen.spec.prove.integers import evaluate as integer
from cugen.spec.types import BOOL, INT64, DType

_MAX_EXPANSION = 4  # size of intermediate arrays ÷ largest argument (heuristic)
_IDENTITIES: Mapping[str, Number] = {"sum": 0, "prod": 1, "any": False, "all": True}

Widths = list[tuple[int, int]]


@dataclass
class File:
    """State shared by statements. `pads`: maximum padding of each array and boundary."""

    spec: Spec
    params: Mapping[str, int]
    scalars: Mapping[str, Number]
    dialect: Dialect
    device: str
    names: Mapping[str, str]
    stored: dict[str, Stored]
    pads: dict[tuple[str, str], Widths]
    lines: list[str] = field(default_factory=list)
    padded: dict[tuple[str, str], str] = field(default_factory=dict)
    reductions: dict[tuple[Reduce, tuple[int, ...]], Term] = field(default_factory=dict)

    @functools.cached_property
    def uses(self) -> Counter[Expr]:
        """Number of occurrences of each expression, without leaves and reads."""
        nodes = (node for statement in self.spec.statements for node in walk(statement.value))
        return Counter(node for node in nodes if not isinstance(node, Const | IndexValue | Read))

    def assign(self, text: str, name: str = "") -> str:
        """Adds an assignment and returns its name."""
        if not name:
            numbered = (f"t{n}" for n in itertools.count(len(self.lines)))
            name = next(n for n in numbered if n not in self.names.values())
        self.lines.append(f"{name} = {text}")
        return name


class Writer:
    """Writer of one statement. Raises NoPeer, with the reason, if the library has no usual way to express it."""

    def __init__(self, file: File, statement: Statement) -> None:
        self.file = file
        self.say = file.dialect
        self._statement = statement
        self._known: dict[Expr, Term] = {}
        indices = (*statement.indices, *bound_indices(statement.value))
        self.extents = {index.name: integer(index.extent, file.params) for index in indices}
        self._positions = {name: position for position, name in enumerate(self.extents)}
        sizes = [math.prod(integer(extent, file.params) for extent in array.shape) for array in file.spec.arrays]
        self._max_elements = _MAX_EXPANSION * max(sizes, default=0)
        if 0 in self.extents.values():
            raise NoPeer("nothing to compute")

    def write(self) -> None:
        """Adds the lines of the statement to the file, and stores its result."""
        statement, file = self._statement, self.file
        array = file.spec.array(statement.target)
        shape = tuple(integer(extent, file.params) for extent in array.shape)
        axes = self._written_axes(shape)
        if statement.target in file.stored and not statement.accumulate:
            raise NoPeer("several statements write one array")
        value = statement.value
        if statement.accumulate:
            value = Op("add", (Read(statement.target, statement.subscripts, value.dtype), value), value.dtype)
        term = self.term(value)
        if term.is_literal:
            raise NoPeer("an array of one constant")
        term = self._spread(term, tuple(name for name in axes if name is not None))
        if not array.is_temporary:
            term = self._owned(term)
        text = term.text
        if None in axes:
            text = f"{term.atom}[{', '.join('None' if name is None else ':' for name in axes)}]"
        file.stored[statement.target] = Stored(file.assign(text, file.names[statement.target]), shape, term.dtype)
        if statement.accumulate:
            file.reductions.clear()
        file.padded = {key: name for key, name in file.padded.items() if key[0] != statement.target}

    def _written_axes(self, shape: Sequence[int]) -> list[str | None]:
        """Index of each dimension of the target; None for unit dimensions."""
        axes: list[str | None] = []
        for subscript, extent in zip(self._statement.subscripts, shape, strict=True):
            match subscript:
                case IndexValue(name=name) if self.extents[name] == extent and name not in axes:
                    axes.append(name)
                case Const() if extent == 1:
                    axes.append(None)
                case _:
                    raise NoPeer("a statement writes a part of an array")
        return axes

    def _owned(self, term: Term) -> Term:
        """The term converted to an output: with the output's type, dense, not a view."""
        array = self.file.spec.array(self._statement.target)
        if term.dtype != array.dtype:
            term = Term(self.say.cast(term.atom, array.dtype), term.axes, array.dtype, is_permuted=term.is_permuted)
        if term.is_view:
            return Term(self.say.copy(term.atom), term.axes, term.dtype)
        return Term(self.say.dense(term.atom), term.axes, term.dtype) if term.is_permuted else term

    def term(self, expr: Expr) -> Term:
        """Term of an expression; common subexpressions are assigned to names."""
        if expr not in self._known:
            is_shared = self.file.uses[expr] > 1
            if is_shared and isinstance(expr, Reduce):
                self._known[expr] = self._reused(expr)
            else:
                term = self._made(expr)
                is_whole = expr in (self._statement.value, getattr(self._statement.value, "arg", None))
                is_inner = isinstance(expr, Reduce | Scan) and not is_whole
                self._known[expr] = self._named(term) if is_shared or is_inner else term
        return self._known[expr]

    def _reused(self, node: Reduce) -> Term:
        """Reduction shared by several statements, such as a mean, assigned to a name."""
        names = dict.fromkeys(leaf.name for leaf in walk(node) if isinstance(leaf, IndexValue))
        key = (node, tuple(self.extents[name] for name in names))
        if key not in self.file.reductions:
            self.file.reductions[key] = self._named(self._made(node))
        return self.file.reductions[key]

    def _named(self, term: Term) -> Term:
        if term.is_literal or term.text.isidentifier():
            return term
        return replace(term, text=self.file.assign(term.text), is_atom=True)

    def _made(self, expr: Expr) -> Term:
        if (match := softmax(expr)) is not None:
            return self._softmax(match)
        match expr:
            case Const(value=value, dtype=dtype):
                return _literal(value, dtype)
            case ParamValue(name=name):
                return _literal(self.file.params[name], INT64)
            case ScalarValue(name=name, dtype=dtype):
                return _literal(self.file.scalars[name], dtype)
            case IndexValue(name=name):
                return Term(self.say.arange(self.extents[name], self.file.device), (name,), INT64)
            case Read():
                return self.read(expr)
            case Sample():
                raise NoPeer("a texture that is read between its elements")
            case Cast(arg=arg, to=to):
                inner = self.term(arg)
                if inner.literal is not None:
                    return _literal(float(inner.literal) if to.is_float else int(inner.literal), to)
                return inner if inner.dtype == to else Term(self.say.cast(inner.atom, to), inner.axes, to)
            case Op(name=name, args=args, dtype=dtype):
                return self.operator(name, [self.term(arg) for arg in args], is_bool=dtype == BOOL)
            case Select(condition=condition, then=then, orelse=orelse):
                parts = [self.term(part) for part in (condition, then, orelse)]
                if parts[0].is_literal:
                    return parts[1] if parts[0].literal else parts[2]
                axes = self._joined(parts)
                texts = [self._aligned(part, axes, alone=True) for part in parts]
                return Term(self.say.where(*texts), axes, promoted(parts[1:]))
            case Reduce():
                return self.reduce(expr)
            case Scan():
                return self._scan(expr)
        raise NoPeer(f"a {type(expr).__name__}")

    def _softmax(self, match: Softmax) -> Term:
        body = self.term(match.body)
        axis = body.axes.index(match.over)
        if text := self.say.softmax(body.text, axis, log=match.log):
            return Term(text, body.axes, body.dtype)
        outer_axes = tuple(name for name in body.axes if name != match.over)
        rank = len(body.axes)
        maximum = Term(self.say.reduce("max", body.text, [axis], body.dtype, rank), outer_axes, body.dtype)
        shifted = self._named(self.operator("sub", [body, maximum], is_bool=False))
        powers = self._named(self.operator("exp", [shifted], is_bool=False))
        total = Term(
            self.say.reduce("sum", powers.text, [axis], body.dtype.compute, rank), outer_axes, body.dtype.compute
        )
        if match.log:
            return self.operator("sub", [shifted, self.operator("log", [total], is_bool=False)], is_bool=False)
        return self.operator("div", [powers, total], is_bool=False)

    def operator(self, name: str, operands: Sequence[Term], *, is_bool: bool) -> Term:
        """Term of an operator or function."""
        values = [operand.literal for operand in operands if operand.literal is not None]
        if len(values) == len(operands):
            return _literal(fold(name, values), operands[0].dtype)
        axes = self._joined(operands)
        is_call = name not in SIGNS
        texts = [self._aligned(operand, axes, alone=is_call) for operand in operands]
        text = self.say.operator(name, texts, [operand.is_literal for operand in operands])
        is_atom = is_call and not text.startswith("1 / ")
        return Term(text, axes, BOOL if is_bool else promoted(operands), is_atom=is_atom)

    def _joined(self, terms: Sequence[Term]) -> tuple[str, ...]:
        """Axes of an elementwise result: in the order of the operand with most axes, if it has all of them."""
        longest = max(terms, key=lambda term: len(term.axes)).axes
        names = dict.fromkeys(name for term in terms for name in term.axes)
        axes = longest if set(names) == set(longest) else tuple(sorted(names, key=self._positions.__getitem__))
        if math.prod(self.extents[name] for name in axes) > self._max_elements:
            raise NoPeer("it would take an intermediate array far larger than its arguments")
        return axes

    def _aligned(self, term: Term, axes: tuple[str, ...], *, alone: bool = False) -> str:
        """Text of the term, broadcast to `axes`; in parentheses if necessary, unless `alone`."""
        term = self.permuted(term, tuple(name for name in axes if name in term.axes))
        missing = [None if name not in term.axes else name for name in axes]
        while missing and missing[0] is None:
            del missing[0]
        if None not in missing:
            return term.text if alone else term.atom
        return f"{term.atom}[{', '.join('None' if name is None else ':' for name in missing)}]"

    def permuted(self, term: Term, axes: tuple[str, ...]) -> Term:
        """The term permuted to `axes`."""
        if axes == term.axes:
            return term
        text = self.say.permute(term.atom, [term.axes.index(name) for name in axes])
        return replace(term, text=text, axes=axes, is_atom=True, is_permuted=not term.is_permuted)

    def _spread(self, term: Term, axes: tuple[str, ...]) -> Term:
        """The term expanded to `axes`, in this order."""
        if set(term.axes) == set(axes):
            return self.permuted(term, axes)
        index = ", ".join(":" if name in term.axes else "None" for name in axes)
        ordered = self.permuted(term, tuple(name for name in axes if name in term.axes))
        text = self.say.expand(f"{ordered.atom}[{index}]", [self.extents[name] for name in axes])
        return replace(ordered, text=text, axes=axes, is_atom=True, is_view=True)

    # Reads

    def read(self, read: Read) -> Term:
        """Term of a read: a slice of its array."""
        if read.exact:
            raise NoPeer("a subscript with an exact division")
        stored = self.file.stored[read.array]
        forms = [self._form(subscript) for subscript in read.subscripts]
        name, offsets, sizes = self.base(read.array, read.boundary, [form.range(self.extents) for form in forms])
        axes: list[str] = []
        parts: list[str] = []
        flipped: list[int] = []
        for form, offset, size in zip(forms, offsets, sizes, strict=True):
            if not form.steps:
                parts.append(str(form.constant + offset))
                continue
            (index, step) = next(iter(form.steps.items()))
            if index in axes:
                raise NoPeer("a diagonal")
            low, high = (end + offset for end in form.range(self.extents))
            parts.append(slice_text(low, high + 1, abs(step), size))
            flipped += [len(axes)] * (step < 0)
            axes.append(index)
        while parts and parts[-1] == ":":
            parts.pop()
        text = f"{name}[{', '.join(parts)}]" if parts else name
        for axis in flipped:
            text = self.say.flip(text, axis)
        is_copied = bool(flipped) and not self.say.flips_by_views
        return Term(text, tuple(axes), stored.dtype, is_view=not is_copied)

    def _form(self, subscript: Expr) -> Affine:
        form = affine(subscript, self.file.params)
        if form is None:
            raise NoPeer("a gather, or a subscript with `//` or `%`")
        if len(form.steps) > 1:
            raise NoPeer("a subscript of several indices")
        return form

    def base(
        self, array: str, boundary: Boundary | None, ranges: Sequence[tuple[int, int]]
    ) -> tuple[str, Sequence[int], Sequence[int]]:
        """The array, padded if reads exceed it; the offsets of its first element, and its padded shape."""
        stored, file = self.file.stored[array], self.file
        mode, value = (boundary.mode, boundary.value or 0) if boundary else ("zero", 0)
        key = (array, f"{mode} {value}")
        reach = [(max(0, -low), max(0, high + 1 - n)) for (low, high), n in zip(ranges, stored.shape, strict=True)]
        if not any(map(any, reach)):
            return stored.name, [0] * len(reach), stored.shape
        known = file.pads.setdefault(key, [(0, 0)] * len(reach))
        known[:] = [(max(a, c), max(b, d)) for (a, b), (c, d) in zip(known, reach, strict=True)]
        if key not in file.padded:
            file.padded[key] = file.assign(self.say.pad(stored.name, known, mode, value))
        shape = [low + n + high for (low, high), n in zip(known, stored.shape, strict=True)]
        return file.padded[key], [low for low, _ in known], shape

    # Reductions and scans

    def reduce(self, node: Reduce) -> Term:
        """Term of a reduction: over a window, as a matrix multiplication, or over dimensions."""
        if taps := windows_of(node, self.file.params):
            return window(self, node, taps)
        if (product := self._contraction(node)) is not None:
            return product
        body = self.term(node.body)
        if node.where is not None:
            body = self.masked(body, self.term(node.where), node.kind)
        names = [index.name for index in node.indices]
        if not set(names) <= set(body.axes) or (node.where is not None and node.is_position):
            raise NoPeer(f"{node.kind} with a condition, or over an index that its terms don't have")
        return self._over(node.kind, body, names, node)

    def _over(self, kind: str, body: Term, names: Sequence[str], node: Reduce) -> Term:
        where = sorted(body.axes.index(name) for name in names)
        dtype = node.dtype if kind in ("sum", "prod") else {"any": BOOL, "all": BOOL}.get(kind, body.dtype)
        if node.is_position:
            dtype = INT64
        text = self.say.reduce(kind, body.text, where, node.dtype, len(body.axes))
        return Term(text, tuple(name for name in body.axes if name not in names), dtype)

    def masked(self, body: Term, condition: Term, kind: str) -> Term:
        """Operand of a conditional reduction, with the neutral element where the condition fails."""
        identity = _IDENTITIES.get(kind)
        if identity is None:
            if not body.dtype.is_float:
                raise NoPeer(f"{kind} of integers with a condition")
            identity = -math.inf if kind.endswith("max") else math.inf
        axes = self._joined([condition, body])
        chosen, terms = (self._aligned(part, axes, alone=True) for part in (condition, body))
        return Term(self.say.where(chosen, terms, number(identity)), axes, body.dtype)

    def _contraction(self, node: Reduce) -> Term | None:
        """Matrix multiplication for a contraction of operands with different axes; None for other reductions."""
        if node.kind != "sum" or node.where is not None:
            return None
        factors = [self.term(factor) for factor in _factors(node.body)]
        arrays = [factor for factor in factors if not factor.is_literal]
        names = {index.name for index in node.indices}
        sets = {frozenset(factor.axes) for factor in arrays}
        is_dot = len(arrays) == 2 and sets == {frozenset(names)} and len(names) == 1
        if len(arrays) < len(factors) or len(arrays) < 2 or not (len(sets) > 1 or is_dot):
            return None
        dtype = promoted(arrays)
        self.say.dtype(dtype)  # NoPeer where the library has no such type
        texts = [f.text if f.dtype == dtype else self.say.cast(f.atom, dtype) for f in arrays]
        out = dict.fromkeys(name for factor in arrays for name in factor.axes if name not in names)
        axes = tuple(sorted(out, key=self._positions.__getitem__))
        return Term(self.say.contraction([f.axes for f in arrays], axes, texts), axes, dtype)

    def _scan(self, node: Scan) -> Term:
        body = self.term(node.body)
        if node.where is not None:
            body = self.masked(body, self.term(node.where), node.kind)
        if node.inner.name not in body.axes:
            raise NoPeer("a scan over an index that its terms don't have")
        axis = body.axes.index(node.inner.name)
        text = self.say.flip(body.text, axis) if node.reverse else body.text
        text = self.say.scan(node.kind, text, axis, node.dtype)
        if node.exclusive:
            widths = [(1, 0) if position == axis else (0, 0) for position in range(len(body.axes))]
            kept = ", ".join([":"] * axis + [":-1"])
            filler = _IDENTITIES.get(node.kind, -math.inf if node.kind == "max" else math.inf)
            text = self.say.pad(f"{text}[{kept}]", widths, "value", filler)
        if node.reverse:
            text = self.say.flip(text, axis)
        axes = tuple(node.outer if name == node.inner.name else name for name in body.axes)
        dtype = node.dtype if node.kind in ("sum", "prod") else body.dtype
        return Term(text, axes, dtype, is_view=node.reverse and self.say.flips_by_views)


def _literal(value: Number, dtype: DType) -> Term:
    return Term(number(value), (), dtype, literal=value, is_atom=not value < 0)


def _factors(expr: Expr) -> list[Expr]:
    match expr:
        case Op(name="mul", args=(left, right)):
            return [*_factors(left), *_factors(right)]
    return [expr]
