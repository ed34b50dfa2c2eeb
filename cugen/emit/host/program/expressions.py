"""Right sides of a spec's statements as C++ on the host: floats in double, reductions as loops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from cugen.emit.host.program.code import Code, Controlled
from cugen.emit.printer.ctypes import c_name, literal
from cugen.emit.printer.values import ValuePrinter
from cugen.plan.intervals import interval, local_symbol
from cugen.plan.memory import IndexLocal
from cugen.plan.names import Names
from cugen.plan.symbols import Range
from cugen.spec.expressions import (
    Cast,
    Const,
    Expr,
    Index,
    IndexValue,
    Local,
    Op,
    Read,
    Reduce,
    Sample,
    ScalarValue,
    Scan,
    Select,
    free_indices,
)
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import BOOL, FLOAT64, INT64, DType

# Templates of functions that the host has no counterpart of, as in templates/functions.
_HELPERS = (
    "absolute",
    "floor_divide",
    "floor_modulo",
    "integer_power",
    "shift_left",
    "shift_right",
    "sign_of",
    "wrapping_add",
    "wrapping_multiply",
    "wrapping_negate",
    "wrapping_subtract",
)
# Functions of <cmath> and <algorithm>, by operator.
_SAME_NAME = """
    sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
    lgamma floor ceil trunc fma atan2 pow abs
"""
_STD = {name: name for name in _SAME_NAME.split()} | {"round": "nearbyint", "maximum": "max", "minimum": "min"}
BOUNDS = ("is_inside", "clamp", "wrap", "reflect", "symmetric")  # functions of templates/program/bounds.cpp.j2
_START = {"sum": 0, "prod": 1, "any": False, "all": True}
_NAMES = {"prod": "product", "max": "largest", "min": "smallest", "any": "found", "all": "holds"}


class NotStated(Exception):
    """An expression that plain loops can't state; the message says why."""


@dataclass(frozen=True, slots=True)
class HostArray:
    """An array of the host program. `text` is its name there, `shape` its extents and their texts; `strides` are texts
    where it isn't dense. `values` are those of integers."""

    text: str
    dtype: DType
    shape: tuple[tuple[int, str], ...]
    strides: tuple[str, ...] = ()
    values: Range | None = None


def as_double(dtype: DType) -> DType:
    """The type in which the host computes."""
    return FLOAT64 if dtype.is_float else dtype


class HostPrinter(ValuePrinter):
    """Values in C++ for the host. `helpers` collects the functions called."""

    @property
    def helpers(self) -> list[tuple[str, str]]:
        return sorted(function for function in self.functions if function[0] in _HELPERS)

    def _float_operator(self, op: Op) -> tuple[str, int]:
        if op.name == "rsqrt":
            return self._operator(Op("div", (Const(1.0, FLOAT64), Op("sqrt", op.args, FLOAT64)), FLOAT64))
        if op.name not in _STD:
            return super()._float_operator(op)
        return f"std::{_STD[op.name]}({', '.join(map(self.print, op.args))})", 0

    def _integer_operator(self, op: Op) -> tuple[str, int]:
        if op.name in ("minimum", "maximum"):
            kind = c_name(self.c_type(op))
            return f"std::{op.name[:3]}<{kind}>({', '.join(map(self.print, op.args))})", 0
        return super()._integer_operator(op)

    def _from_float(self, cast: Cast) -> tuple[str, int]:
        self.functions.setdefault(("saturated", ""))
        return f"saturated<{c_name(cast.to)}>({self.print(cast.arg)})", 0

    def _literal(self, value: int | float | bool, dtype: DType) -> tuple[str, int]:
        text, precedence = super()._literal(value, dtype)
        return _portable(text), precedence


@dataclass
class Scope:
    """Code that is being written: `index` is that of the loop whose body it is. A guarded one belongs to an `if`, for
    which variables are declared outside. `results` are the reductions that it has computed."""

    code: list[Code]
    index: str = ""
    is_guarded: bool = False
    results: list[tuple[Expr, Expr]] = field(default_factory=list)


@dataclass
class Lowering:
    """Turns the expressions of one statement into values without reads and reductions.

    A reduction is a loop before the statement, outside of the loops over indices that it doesn't depend on, but inside
    of the conditions under which it is read. `read_arrays` collects the names of the arrays that are read."""

    arrays: Mapping[str, HostArray]
    params: Mapping[str, int]
    printer: HostPrinter
    ranges: dict[str, Range]
    names: Names
    read_arrays: dict[str, None] = field(default_factory=dict)
    bounds: dict[str, None] = field(default_factory=dict)  # functions that treat subscripts at boundaries
    indices: dict[str, str] = field(default_factory=dict)
    scopes: list[Scope] = field(default_factory=lambda: [Scope([])])

    def index(self, index: Index) -> str:
        """The variable of an index, declared in a loop."""
        name = self.indices[index.name] = self.names.allocate(index.name)
        self.ranges[name] = (0, max(evaluate(index.extent, self.params) - 1, 0))
        self.printer.wide |= {name}
        return name

    def loop(self, index: Index, step: str = "") -> Controlled:
        """The loop over an index, by steps of one if `step` is empty."""
        name = self.index(index)
        following = f"{name} += {step}" if step else f"++{name}"
        return Controlled(f"for (long long {name} = 0; {name} < {self.printer.print(index.extent)}; {following})")

    def text(self, expr: Expr) -> str:
        return self.printer.print(self.value(expr))

    def value(self, expr: Expr) -> Expr:
        """The expression over locals; NotStated where it can't be stated."""
        match expr:
            case Const(value=value, dtype=dtype):
                return Const(value, as_double(dtype))
            case IndexValue(name=name):
                return IndexLocal(self.indices[name], INT64)
            case ScalarValue(name=name, dtype=dtype):
                return ScalarValue(name, as_double(dtype))
            case Op(args=args):
                parts = tuple(self.value(arg) for arg in args)
                return Op(expr.name, parts, as_double(expr.dtype))
            case Cast(arg=arg, to=to):
                part = self.value(arg)
                return part if part.dtype == as_double(to) else Cast(part, as_double(to))
            case Select():
                return self._select(expr)
            case Read():
                return self._read(expr)
            case Reduce():
                return self._reduce(expr)
            case Scan():
                return self._scan(expr)
            case Sample():
                raise NotStated("a texture interpolates with 8 bits of a fraction")
        return expr

    def _select(self, expr: Select) -> Expr:
        condition = self.value(expr.condition)
        branches = []
        for branch, test in ((expr.then, condition), (expr.orelse, Op("not", (condition,), BOOL))):
            inside = Controlled(f"if ({self.printer.print(test)})")
            with self._inside(Scope(inside.body, is_guarded=True)):
                branches.append(self.value(branch))
            if inside.body:
                self.scopes[-1].code.append(inside)
        return Select(condition, branches[0], branches[1], as_double(expr.dtype))

    def _read(self, read: Read) -> Local:
        array = self.arrays[read.array]
        self.read_arrays.setdefault(read.array)
        subscripts = [self.value(subscript) for subscript in read.subscripts]
        conditions = []
        for dividend, divisor in read.exact:
            remainder = Op("mod", (self.value(dividend), Const(divisor, INT64)), INT64)
            conditions.append(f"{self.printer.print(remainder)} == 0")
        outside = read.boundary.mode if read.boundary is not None else ""
        if outside in ("zero", "value"):
            conditions += [f"is_inside({part}, {extent})" for part, extent in self._outside(subscripts, array)]
            self.bounds |= dict.fromkeys(["is_inside"] if conditions else [])
        elif outside:
            subscripts = [self._bounded(outside, s, e) for s, e in zip(subscripts, array.shape, strict=True)]
        text = f"{array.text}[{self.offset(array, subscripts)}]" if array.shape else f"{array.text}[0]"
        if conditions:
            number = read.boundary.value if read.boundary is not None else 0
            outside_text = self.printer.print(Const(number or 0, as_double(array.dtype.compute)))
            text = f"({' && '.join(conditions)} ? {text} : {outside_text})"
        local = Local(text, as_double(array.dtype.compute))
        if array.values is not None:
            self._bound(local, array.values)
        return local

    def _bound(self, local: Local, values: Range) -> None:
        self.ranges[local_symbol(local.name).name] = values

    def _outside(self, subscripts: Sequence[Expr], array: HostArray) -> list[tuple[str, str]]:
        """The subscripts that may be outside, with their extents."""
        return [
            (self.printer.print(subscript), text)
            for subscript, (extent, text) in zip(subscripts, array.shape, strict=True)
            if not self._is_inside(subscript, extent)
        ]

    def _is_inside(self, subscript: Expr, extent: int) -> bool:
        low, high = interval(subscript, self.ranges)
        return low >= 0 and high < extent

    def _bounded(self, mode: str, subscript: Expr, extent: tuple[int, str]) -> Expr:
        if self._is_inside(subscript, extent[0]):
            return subscript
        self.bounds.setdefault(mode)
        local = Local(f"{mode}({self.printer.print(subscript)}, {extent[1]})", INT64)
        self._bound(local, (0, extent[0] - 1))
        return local

    def offset(self, array: HostArray, subscripts: Sequence[Expr]) -> str:
        """The offset of an element: `m * K + k`."""
        if array.strides:
            terms = [
                subscript if stride == "1" else _times(subscript, stride)
                for subscript, stride in zip(subscripts, array.strides, strict=True)
            ]
            total = terms[0]
            for term in terms[1:]:
                total = Op("add", (total, term), INT64)
            return self._print_offset(total)
        total = subscripts[0]
        for subscript, (_, extent) in zip(subscripts[1:], array.shape[1:], strict=True):
            total = Op("add", (_times(total, extent), subscript), INT64)
        return self._print_offset(total)

    def _print_offset(self, total: Expr) -> str:
        """Offsets don't overflow: the elements exist."""
        return UnboundedPrinter(
            self.printer.ranges, self.printer.scalars, self.printer.params, self.printer.wide, self.printer.functions
        ).print(total)

    @contextmanager
    def _inside(self, *scopes: Scope) -> Iterator[None]:
        self.scopes.extend(scopes)
        yield
        del self.scopes[-len(scopes) :]

    @contextmanager
    def _where_it_belongs(self, node: Reduce | Scan) -> Iterator[None]:
        """In the outermost scope where all indices of a reduction have their values."""
        free, innermost = free_indices(node), len(self.scopes) - 1
        while innermost and not self.scopes[innermost].is_guarded and self.scopes[innermost].index not in free:
            innermost -= 1
        inner = self.scopes[innermost + 1 :]
        del self.scopes[innermost + 1 :]
        yield
        self.scopes.extend(inner)

    def _reduce(self, reduce: Reduce) -> Expr:
        for node, known in (found for scope in self.scopes for found in scope.results):
            if node == reduce:
                return known
        with self._where_it_belongs(reduce):
            loops = [self.loop(index) for index in reduce.indices]
            scopes = [Scope(loop.body, index.name) for loop, index in zip(loops, reduce.indices, strict=True)]
            result = self._position(reduce, scopes) if reduce.is_position else self._accumulate(reduce, scopes)
            for outer, inner in pairwise(loops):
                outer.body.append(inner)
            self.scopes[-1].code.append(loops[0])
            self.scopes[-1].results.append((reduce, result))
        return result

    def _scan(self, scan: Scan) -> Expr:
        with self._where_it_belongs(scan):
            outer = self.indices[scan.outer]
            name = self.index(scan.inner)
            first = "0" if not scan.reverse else f"{outer} + 1" if scan.exclusive else outer
            end = f"{'<' if scan.exclusive else '<='} {outer}"
            if scan.reverse:
                end = f"< {self.printer.print(scan.inner.extent)}"
            loop = Controlled(f"for (long long {name} = {first}; {name} {end}; ++{name})")
            result = self._accumulate(scan, [Scope(loop.body, scan.inner.name)])
            self.scopes[-1].code.append(loop)
        return result

    def _declare(self, line: str) -> None:
        """Outside of conditions, so that the statement sees the variable."""
        next(scope for scope in reversed(self.scopes) if not scope.is_guarded).code.append(line)

    def _accumulate(self, node: Reduce | Scan, loops: Sequence[Scope]) -> Expr:
        dtype = as_double(node.dtype)
        result = Local(self.names.allocate(_NAMES.get(node.kind, node.kind)), dtype)
        self._declare(f"{c_name(dtype)} {result.name} = {self._start(node.kind, dtype)};")
        with self._inside(*loops), self._guarded(node.where) as code:
            part = self.text(node.body)
            match node.kind:
                case "sum" | "prod":
                    code.append(f"{result.name} {'+' if node.kind == 'sum' else '*'}= {part};")
                case "any" | "all":
                    code.append(f"{result.name} = {result.name} {'||' if node.kind == 'any' else '&&'} {atom(part)};")
                case kind:
                    code.append(f"{result.name} = std::{kind}<{c_name(dtype)}>({result.name}, {part});")
        return result

    def _position(self, reduce: Reduce, loops: Sequence[Scope]) -> Expr:
        kind = reduce.kind.removeprefix("arg")
        dtype = as_double(reduce.body.dtype)
        position = Local(self.names.allocate("position"), INT64)
        best = self.names.allocate(_NAMES[kind])
        self._declare(f"long long {position.name} = 0;")
        self._declare(f"{c_name(dtype)} {best} = {self._start(kind, dtype)};")
        index = self.indices[reduce.indices[0].name]
        with self._inside(*loops), self._guarded(reduce.where) as code:
            text = self.text(reduce.body)
            better = Controlled(f"if ({text} {'>' if kind == 'max' else '<'} {best})")
            better.body.extend([f"{best} = {text};", f"{position.name} = {index};"])
            code.append(better)
        self._bound(position, self.ranges[index])
        return position

    @contextmanager
    def _guarded(self, where: Expr | None) -> Iterator[list[Code]]:
        """The code that runs where a condition holds."""
        if where is None:
            yield self.scopes[-1].code
            return
        guard = Controlled(f"if ({self.text(where)})")
        self.scopes[-1].code.append(guard)
        with self._inside(Scope(guard.body, is_guarded=True)):
            yield guard.body

    def _start(self, kind: str, dtype: DType) -> str:
        if kind in _START:
            return self.printer.print(Const(_START[kind], dtype))
        if dtype.is_float:
            return "-INFINITY" if kind == "max" else "INFINITY"
        return f"std::numeric_limits<{c_name(dtype)}>::{'lowest' if kind == 'max' else 'max'}()"


class UnboundedPrinter(HostPrinter):
    """Printer of sums and products that don't overflow."""

    def _may_wrap(self, op: Op) -> bool:
        return False


def host_literal(value: int | float | bool, dtype: DType) -> str:
    """A literal of a compute type for any C++ compiler."""
    return _portable(literal(value, dtype))


def _portable(text: str) -> str:
    for single in ("_F", ""):
        text = text.replace(f"CUDART_INF{single}", "INFINITY").replace(f"CUDART_NAN{single}", "NAN")
    return text


def size_printer(names: Mapping[str, str], params: Mapping[str, int]) -> UnboundedPrinter:
    """Printer of extents over params, whose values it knows."""
    ranges = {names[param]: (value, value) for param, value in params.items()}
    return UnboundedPrinter(ranges, {}, names, set(names.values()))


def _times(expr: Expr, factor: str) -> Op:
    return Op("mul", (expr, Local(atom(factor), INT64)), INT64)


def atom(text: str) -> str:
    """The text as an operand of any operator."""
    return text if text.isalnum() or text.isidentifier() else f"({text})"
