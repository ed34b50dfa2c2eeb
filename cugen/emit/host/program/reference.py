"""A spec's statements as functions of the host program, with which it checks what the kernel wrote."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from cugen.emit.describe import harmless
from cugen.emit.host.program.code import Code, Controlled, text_of
from cugen.emit.host.program.expressions import HostArray, HostPrinter, Lowering, NotStated, Scope, atom, size_printer
from cugen.emit.host.program.names import HostNames
from cugen.emit.host.program.tolerance import tolerances
from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.values import INTRINSICS
from cugen.plan.names import Names
from cugen.plan.symbols import Range
from cugen.spec.expressions import (
    Const,
    Expr,
    IndexValue,
    Local,
    Op,
    Read,
    Reduce,
    Scan,
    bound_indices,
    free_indices,
    walk,
)
from cugen.spec.floats.rounding import rounded
from cugen.spec.model import Array, Spec, Statement
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import FLOAT32, FLOAT64, INT64, DType

MAX_STEPS = 10**9  # of the innermost loops: about a second; beyond it some rows are checked
MAX_TABLE = 256  # numbers of a baked array
STEP = "checked_row_step"
_INDICES = ("i", "j", "k", "l", "m", "n", "p", "q")


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the program; `lines` are those of its body."""

    comment: str
    name: str
    parameter_list: str
    argument_list: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """An array to be compared, `name` in the spec: `lines` are the loops that add its elements to a `Comparison`."""

    name: str
    text: str
    type: str
    vector: str
    function: str
    tolerance: str
    allowance: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """A baked array of the program."""

    name: str
    type: str
    numbers: str


@dataclass(frozen=True, slots=True)
class Reference:
    """`refusal` says why the program has no check, where it has none; `step` is from one checked row to the next.

    `vectors` are declarations of the arrays that the statements read and make. `helpers` are functions from
    templates/functions with their C types, `bounds` those for subscripts outside of arrays. `has_narrow`: elements of
    fewer than 32 bits are converted; `has_floats`: some are compared; `saturates`: some become integers."""

    refusal: str = ""
    step: int = 1
    vectors: tuple[str, ...] = ()
    statements: tuple[Function, ...] = ()
    outputs: tuple[Output, ...] = ()
    helpers: tuple[tuple[str, str], ...] = ()
    bounds: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    has_narrow: bool = False
    has_floats: bool = False
    saturates: bool = False

    @property
    def uses_limits(self) -> bool:
        """Whether the functions name limits of types."""
        lines = [line for function in self.statements for line in function.lines]
        return self.saturates or any("numeric_limits" in line for line in lines)


@dataclass
class _Writer:
    """`arrays` are those of the program; `functions`, `bounds` and `read` collect what the statements use."""

    spec: Spec
    host: HostNames
    params: Mapping[str, int]
    drawn: Mapping[str, Range]
    arrays: dict[str, HostArray] = field(default_factory=dict)
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    bounds: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)

    def printer(self, ranges: dict[str, Range]) -> HostPrinter:
        ranges.update({self.host.params[name]: (value, value) for name, value in self.params.items()})
        wide = set(self.host.params.values())
        scalars = {s.name: _plain(self.host.scalars[s.name], s.dtype) for s in self.spec.scalars}
        return HostPrinter(ranges, scalars, self.host.params, wide, self.functions)

    def lowering(self) -> Lowering:
        ranges: dict[str, Range] = {}
        names = Names(self.host.names)
        return Lowering(self.arrays, self.params, self.printer(ranges), ranges, names, self.read, self.bounds)


def make_reference(spec: Spec, host: HostNames, params: Mapping[str, int], drawn: Mapping[str, Range]) -> Reference:
    """`params` are the values of all params, `drawn` the ranges of the random integers in inputs."""
    try:
        step = _step(spec, params)
        allowed = tolerances(spec, params)
        if unstable := [s.target for s in spec.statements if _chooses_by_computed_floats(s.value)]:
            raise NotStated(f"positions in {unstable[0]} depend on how floats are rounded")
        if fast := [s.target for s in spec.statements if _takes_intrinsics(s, spec)]:
            raise NotStated(f"{fast[0]} takes intrinsics, whose errors depend on their operands")
        return _made(spec, _Writer(spec, host, params, drawn), step, allowed)
    except NotStated as why:
        return Reference(str(why))


def _made(spec: Spec, writer: _Writer, step: int, allowed: Mapping[str, float]) -> Reference:
    printer = size_printer(writer.host.params, writer.params)
    for array in spec.arrays:
        name = writer.host.arrays[array.name]
        shape = tuple((evaluate(extent, writer.params), printer.print(extent)) for extent in array.shape)
        strides = tuple(printer.print(stride) for stride in array.strides)
        dtype = FLOAT64 if array.dtype.is_float else array.dtype
        is_dense = [evaluate(s, writer.params) for s in array.strides] == _dense([extent for extent, _ in shape])
        values = writer.drawn.get(array.name) if array.role == "input" else None
        writer.arrays[array.name] = HostArray(name, dtype, shape, () if is_dense else strides, values)
    written = list(dict.fromkeys(statement.target for statement in spec.statements))
    final = _final(spec)
    functions: list[Function] = []
    for statement in spec.statements:
        writer.read.clear()
        functions.append(_function(statement, writer, step if statement.target in final else 1))
    tables = [a for a in spec.arrays if a.values is not None]
    outputs = [a for a in spec.arrays if a.role in ("output", "inout")]
    narrow = [a for a in spec.arrays if a.role in ("input", "inout") and a.dtype.compute != a.dtype]
    return Reference(
        step=step,
        vectors=tuple(_declaration(array, writer, set(written)) for array in spec.arrays if array.values is None),
        statements=tuple(functions),
        outputs=tuple(
            _output(array.name, writer, step if array.name in final else 1, allowed[array.name]) for array in outputs
        ),
        helpers=tuple(writer.printer({}).helpers),
        bounds=tuple(writer.bounds),
        tables=tuple(Table(writer.host.arrays[t.name], _element(t.dtype), _table(t, writer)) for t in tables),
        has_narrow=bool(narrow),
        has_floats=any(array.dtype.is_float for array in outputs),
        saturates=("saturated", "") in writer.functions,
    )


def _function(statement: Statement, writer: _Writer, step: int) -> Function:
    lowering = writer.lowering()
    target = writer.arrays[statement.target]
    rows = statement.subscripts[0] if step > 1 else None
    loops = []
    for index in statement.indices:
        is_row = isinstance(rows, IndexValue) and rows.name == index.name
        loops.append(lowering.loop(index, STEP if is_row else ""))
        lowering.scopes.append(Scope(loops[-1].body, index.name))
    value = lowering.text(statement.value)
    subscripts = [lowering.value(subscript) for subscript in statement.subscripts]
    element = f"{target.text}[{lowering.offset(target, subscripts) if subscripts else '0'}]"
    code = [*lowering.scopes[0].code, *_nested(loops, [f"{element} {'+' if statement.accumulate else ''}= {value};"])]
    read = [name for name in writer.read if writer.spec.array(name).values is None and name != statement.target]
    names = [writer.host.arrays[name] for name in read]
    kinds = [_vector(writer.spec.array(name).dtype) for name in read]
    parameters = [f"const {kind}& {name}" for kind, name in zip(kinds, names, strict=True)]
    target_kind = _vector(writer.spec.array(statement.target).dtype)
    return Function(
        harmless(" ".join(statement.text.split())),
        writer.host.names.allocate(f"compute_{target.text}"),
        ", ".join([*parameters, f"{target_kind}& {target.text}"]),
        ", ".join([*names, target.text]),
        tuple(text_of(code)),
    )


def _nested(loops: Sequence[Controlled], body: list[Code]) -> list[Code]:
    code = body
    for loop in reversed(loops):
        loop.body.extend(code)
        code = [loop]
    return code


def _output(name: str, writer: _Writer, step: int, allowed: float) -> Output:
    array, declared = writer.arrays[name], writer.spec.array(name)
    lowering = writer.lowering()
    names = [lowering.names.allocate(_INDICES[dimension]) for dimension in range(len(array.shape))]
    nexts = [f"++{index}" for index in names]
    if step > 1:
        nexts[0] = f"{names[0]} += {STEP}"
    loops = [
        Controlled(f"for (long long {index} = 0; {index} < {extent}; {following})")
        for index, (_, extent), following in zip(names, array.shape, nexts, strict=True)
    ]
    offset = lowering.offset(array, [Local(index, INT64) for index in names]) if names else "0"
    actual = _plain(f"actual[{offset}]", declared.dtype)
    body: list[Code] = [f"comparison.add({actual}, {array.text}[{offset}]);"]
    return Output(
        name,
        array.text,
        c_name(declared.dtype),
        _vector(declared.dtype),
        writer.host.names.allocate(f"compare_{array.text}"),
        f"{allowed:.2g} * largest_magnitude({array.text})" if declared.dtype.is_float else f"{allowed:.2g}",
        _allowance(declared.dtype, allowed),
        tuple(text_of(_nested(loops, body))),
    )


def _plain(text: str, dtype: DType) -> str:
    """An element or a scalar as a number that converts to double."""
    return f"float({text})" if dtype.compute != dtype else text


def _allowance(dtype: DType, allowed: float) -> str:
    if dtype.is_float:
        return "Floats may differ by roundings, relative to the largest of them."
    return "A float near an integer may be rounded to either side." if allowed else "Integers are exact."


def _declaration(array: Array, writer: _Writer, written: set[str]) -> str:
    """The vector of an array: a copy of what the program drew, or elements to be computed."""
    name, elements = writer.host.arrays[array.name], writer.host.elements[array.name]
    if array.role not in ("input", "inout"):
        extents = [atom(text) for _, text in writer.arrays[array.name].shape]
        elements = elements if array.role != "temporary" else " * ".join(extents) or "1"
        return f"{_vector(array.dtype)} {name}({elements});"
    constant = "" if array.name in written else "const "
    if array.dtype.compute != array.dtype:
        return f"{constant}{_vector(array.dtype)} {name} = doubles(given.{name}, {elements});"
    return f"{constant}{_vector(array.dtype)} {name}(given.{name}, given.{name} + {elements});"


def _table(array: Array, writer: _Writer) -> str:
    if array.values is None or len(array.values.data) > MAX_TABLE:
        raise NotStated(f"the table {array.name} has more than {MAX_TABLE} numbers")
    printer = writer.printer({})
    dtype = FLOAT64 if array.dtype.is_float else array.dtype
    return ", ".join(printer.print(Const(rounded(value, array.dtype), dtype)) for value in array.values.data)


def _element(dtype: DType) -> str:
    return "double" if dtype.is_float else c_name(dtype)


def _vector(dtype: DType) -> str:
    return f"std::vector<{_element(dtype)}>"


def _dense(extents: Sequence[int]) -> list[int]:
    return [prod(extents[dimension + 1 :]) for dimension in range(len(extents))]


def _reads(statement: Statement) -> list[Read]:
    expressions = (statement.value, *statement.subscripts)
    return [node for expr in expressions for node in walk(expr) if isinstance(node, Read)]


def _final(spec: Spec) -> set[str]:
    """The arrays that no statement reads, whose elements can be computed one by one."""
    return {s.target for s in spec.statements} - {read.array for s in spec.statements for read in _reads(s)}


def _step(spec: Spec, params: Mapping[str, int]) -> int:
    """The distance of the rows that are checked; NotStated where even some take too long."""
    final = _final(spec)
    fixed = sampled = 0
    for statement in spec.statements:
        steps = _iterations(statement, params)
        if statement.target in final and statement.subscripts and isinstance(statement.subscripts[0], IndexValue):
            sampled += steps
        else:
            fixed += steps
    if fixed > MAX_STEPS:
        raise NotStated(f"it would take {fixed:.1g} steps on the host")
    return max(1, -(-sampled // MAX_STEPS))


def _iterations(statement: Statement, params: Mapping[str, int]) -> int:
    """Iterations of all loops of a statement, in which reductions are outside of loops that they don't depend on."""
    indices = (*statement.indices, *bound_indices(statement.value))
    extents = {index.name: evaluate(index.extent, params) for index in indices}
    count = prod(extents[index.name] for index in statement.indices)
    for node in walk(statement.value):
        if isinstance(node, Reduce | Scan):
            bound = [index.name for index in node.indices] if isinstance(node, Reduce) else [node.inner.name]
            count += prod(extents[name] for name in (*free_indices(node), *bound))
    return count


def _chooses_by_computed_floats(expr: Expr) -> bool:
    """Whether a position, or a value that jumps, depends on floats that were rounded."""
    return any(isinstance(node, Reduce) and node.is_position and _is_rounded(node.body) for node in walk(expr))


def _is_rounded(expr: Expr) -> bool:
    return any(isinstance(node, Op | Reduce | Scan) and node.dtype.is_float for node in walk(expr))


def _takes_intrinsics(statement: Statement, spec: Spec) -> bool:
    """Whether `fast_math` replaces functions; a division is off by no more than is allowed."""
    return any(schedule.options.fast_math for _, schedule in spec.schedules) and any(
        isinstance(node, Op) and node.name in INTRINSICS and node.name != "div" and node.args[0].dtype == FLOAT32
        for node in walk(statement.value)
    )
