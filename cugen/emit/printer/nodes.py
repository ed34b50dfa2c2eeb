"""Printer of a plan's nodes to C statements. Records every access it prints."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import sympy

from cugen.emit.printer import tables
from cugen.emit.printer.ctypes import c_name, fetched, literal, narrowed, stored, widened
from cugen.emit.printer.integers import IntegerPrinter
from cugen.emit.printer.values import ValuePrinter
from cugen.plan.memory import FETCHED_TYPES, FUNNEL_SHIFT, Access, Array, Component, Element, Shuffled, Start, Vector
from cugen.plan.nodes import (
    Accumulate,
    AcquireSpinWait,
    Assign,
    AtomicAdd,
    Condition,
    ConvertFragment,
    Copy,
    CountArrival,
    Declare,
    FetchBlockId,
    For,
    Guard,
    Index,
    Let,
    Load,
    LoadBlockId,
    LoadMatrix,
    Mma,
    NamedBarrier,
    Node,
    ReleaseFlag,
    Store,
    StoreMatrix,
)
from cugen.plan.remarks import own_accesses
from cugen.plan.symbols import BitXor, Integer, Ranges, bounds, integer
from cugen.spec.expressions import Const, Expr, Op, Select
from cugen.spec.types import DType, Kind

_ATOM = 0  # precedence of expressions that never need parentheses


class NodePrinter(ValuePrinter):
    """Filters of the templates of one kernel. `printed` holds the accesses in the order of printing, `texts` their
    texts by serial number. A target without the `cache_functions` of CUDA, as `__ldcs`, has those of PTX."""

    def __init__(
        self,
        ranges: Ranges,
        scalars: Mapping[str, str],
        params: Mapping[str, str],
        claims: Mapping[int, str] | None = None,
        constants: Collection[str] = (),
        *,
        fast_math: bool = False,
        cache_functions: bool = True,
    ) -> None:
        self.integers = IntegerPrinter(dict(ranges), frozenset(params.values()), frozenset(constants))
        wide = {s.name for s in ranges if self.integers.is_wide(s)}
        super().__init__({s.name: r for s, r in ranges.items()}, scalars, params, wide, fast_math=fast_math)
        self.functions = self.integers.functions
        self.printed: list[Access] = []
        self.dynamic_tiles: list[Array] = []  # as declared so far
        self.texts: dict[int, str] = {}
        self.claims = claims or {}
        self.cache_functions = cache_functions

    def integer(self, expr: Integer) -> str:
        return self.integers.print(expr)

    def declared_type(self, index: Index) -> str:
        """The type of an index that is declared here. One of its name in a scope before may have had another."""
        self.integers.ranges[index.symbol] = self.ranges[index.name] = index.range
        for names in (self.integers.long_names, self.wide):
            names.add(index.name) if index.is_wide else names.discard(index.name)
        return "long long" if index.is_wide else "int"

    def definition(self, index: Index) -> str:
        """`int m = blockIdx.y * 16 + threadIdx.y`."""
        value = index.definition if index.shown is None else index.shown
        return f"{self.declared_type(index)} {index.name} = {self.integers.definition(value, wide=index.is_wide)}"

    def start(self, start: Start) -> str:
        """`const float* a_from = &A[m * K + k]`."""
        element = f"&{start.array.symbol}{self.integers.subscripts(Access(start.array, start.subscripts, 'load'))}"
        kind = f"const {c_name(start.array.dtype)}"
        if start.array.flat:
            return f"{kind}* {start.name} = {element}"
        rows = "".join(f"[{self.integer(extent)}]" for extent in self._extents(start.array)[1:])
        return f"{kind} (*{start.name}){rows} = reinterpret_cast<{kind} (*){rows}>({element})"

    def loop(self, node: For) -> str:
        """`for (int k = 0; k < K; ++k)`."""
        loop, name = node.loop, node.loop.index.name
        kind = self.declared_type(loop.index)
        if loop.halves:
            return f"for ({kind} {name} = {loop.halves}; {name} > 0; {name} /= 2)"
        if loop.doubles:
            trips = bounds(loop.stop - loop.start, self.integers.ranges)[1]
            return f"for ({kind} {name} = {loop.doubles}; {name} < {loop.doubles << trips}; {name} *= 2)"
        if loop.downward:
            first, last = self.integer(loop.stop - 1), self.integer(loop.start)
            return f"for ({kind} {name} = {first}; {name} >= {last}; --{name})"
        start, stop = self.integer(loop.start), f"< {self.integer(loop.stop)}"
        if loop.stop.is_Add and loop.stop.args[0] == 1:
            stop = f"<= {self.integer(loop.stop - 1)}"
        step = f"++{name}" if loop.step == 1 else f"{name} += {self.integer(integer(loop.step))}"
        for counter in node.counted:
            counted = counter.index
            first = counted.definition.xreplace({loop.index.symbol: loop.start})
            start += f", {counted.name} = {self.integer(first)}"
            step += f", {self._next(counted.name, counted.symbol, counter.then)}"
        return f"for ({kind} {name} = {start}; {name} {stop}; {step})"

    def _next(self, name: str, counter: Integer, then: Integer | None) -> str:
        """The assignment of a counter's next value."""
        assert then is not None
        if then == counter + 1:
            return f"++{name}"
        if isinstance(then, BitXor) and counter in then.args:
            (changed,) = (arg for arg in then.args if arg != counter)
            return f"{name} ^= {self.integer(changed)}"
        return f"{name} = {self.integer(then)}"

    def condition(self, condition: Condition) -> str:
        if not isinstance(condition, Guard):
            return self.print(condition)
        if condition.elected_of is None:
            return self.integers.guard(condition)
        self.functions.setdefault(("elect_one", ""))
        return " && ".join((*map(self.integers.comparison, condition.elected_of), "elect_one()"))

    def negated(self, guard: Guard) -> str:
        return self.integers.negated(guard)

    def lvalue(self, access: Access, shown: Access | None = None) -> str:
        """`A[m * K + k]`; every access in the source is printed here. `shown` is an element to print in its place."""
        self.printed.append(access)
        self.texts[access.serial] = self.text(access)
        return self.texts[access.serial] if shown is None else self.text(shown)

    def text(self, access: Access) -> str:
        symbol, access = access.printed()
        if access.array.space == "texture":
            kind = FETCHED_TYPES[access.array.dtype.name]
            if (texture := access.array.texture_2d) is not None:
                return texture.fetch(kind, symbol, *self.integers.coordinates(access))
            return f"tex1Dfetch<{kind}>({symbol}, {self.integers.flat(access)})"
        if access.array.space == "tensor":
            return f"{symbol}({', '.join(map(self.integer, reversed(access.subscripts)))})"
        if access.rank is not None:
            symbol = f"cluster.map_shared_rank({symbol}, {self.integer(access.rank)})"
        return f"{symbol}{self.integers.subscripts(access)}"

    def remarks(self, node: Node) -> list[str]:
        """Comments above a node with the analysis of its accesses."""
        claims = [(access, self.claims.get(access.serial, "")) for access in own_accesses(node)]
        return list(dict.fromkeys(f"{self._label(access)}: {claim}" for access, claim in claims if claim))

    def _label(self, access: Access) -> str:
        """What a remark calls an access; of a texture without the call, which is in the next line."""
        if access.array.space != "texture":
            return self.text(access)
        symbol, access = access.printed()
        return symbol if access.array.texture_2d is not None else f"{symbol} at {self.integers.flat(access)}"

    def element(self, access: Element) -> str:
        return self._widened(access.access)

    def component(self, part: Component) -> str:
        """`x4.data[v]`, in the storage type."""
        return f"{self.vector(part.vector)}.data[{self.integer(part.index)}]"

    def vector(self, vector: Vector) -> str:
        """`x4`, or `x4[u]` of an array of vectors."""
        indices = (index for index in (vector.row, vector.index) if index is not None)
        return vector.name + "".join(f"[{self.integer(index)}]" for index in indices)

    def _print(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Component):
            return widened(self.component(expr), expr.vector.element), _ATOM
        if isinstance(expr, Select) and isinstance(expr.then, Element) and _is_stored(expr.orelse, expr.then.access):
            return self._chosen(self.branch(expr.condition), expr.then.access, expr.orelse), _ATOM
        if isinstance(expr, Vector):
            return self.vector(expr), _ATOM
        if isinstance(expr, Shuffled):
            return self._shuffled(expr), _ATOM
        if isinstance(expr, Op) and expr.name == FUNNEL_SHIFT:
            self.functions.setdefault((FUNNEL_SHIFT, ""))
            return f"{FUNNEL_SHIFT}({', '.join(map(self.print, expr.args))})", _ATOM
        return super()._print(expr)

    def _shuffled(self, value: Shuffled) -> str:
        function = {"xor": "__shfl_xor_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "from": "__shfl_sync"}
        segment = "" if value.segment == 32 else f", {value.segment}"
        distance = value.distance if isinstance(value.distance, int) else self.integer(value.distance)
        return f"{function[value.how]}(0xffffffff, {value.name}, {distance}{segment})"

    def let(self, node: Let) -> str:
        if isinstance(node.local, Vector) and node.value is not None and not isinstance(node.value, Const):
            return f"const auto {node.local.name} = {self.print(node.value)}"
        if isinstance(node.local, Vector):
            count = "".join(
                f"[{self.integer(integer(extent))}]" for extent in (node.local.rows, node.local.count) if extent
            )
            zeros = "" if node.value is None else " = {}"
            return f"{self._vector_type(node.local.element, node.local.width)} {node.local.name}{count}{zeros}"
        kind = c_name(node.local.dtype)
        if node.value is None:
            return f"{kind} {node.local.name}"
        constant = "" if node.mutable else "const "
        return f"{constant}{kind} {node.local.name} = {self.print(node.value)}"

    def load(self, node: Load) -> str:
        dtype = node.access.array.dtype
        if node.access.width > 1:
            target = f"const auto {node.local.name}"
            if isinstance(node.local, Vector) and node.local.index is not None:
                target = self.vector(node.local)
            return f"{target} = {self._vector_or_zeros(node.access, node.guard)}"
        if node.guard is not None and node.otherwise is not None and not node.bounds_checked:
            value = self._chosen(self.integers.guard(node.guard), node.access, node.otherwise)
        else:
            value = self._widened(node.access)
        return f"const {c_name(dtype.compute)} {node.local.name} = {value}"

    def store(self, node: Store) -> str:
        if node.access.width > 1:
            return self._vector_store(node.access, self.print(node.value))
        dtype = node.access.array.dtype
        if isinstance(node.value, Component) and node.value.vector.element == dtype:
            return self._element_store(node.access, self.component(node.value))
        return self._element_store(node.access, narrowed(self.print(node.value), dtype))

    def accumulate(self, node: Accumulate) -> str:
        return f"{self.lvalue(node.access)} += {self.print(node.value)}"

    def atomic_add(self, node: AtomicAdd) -> str:
        return f"atomicAdd(&{self.lvalue(node.access)}, {self.print(node.value)})"

    def load_matrix(self, node: LoadMatrix) -> str:
        """`ldmatrix_x4(&a_frag[0][0], &As[row][k])`: a lane's words, and the row whose address it gives."""
        self.functions.setdefault((node.name, ""))
        return f"{node.name}(&{self.lvalue(node.target)}, &{self.lvalue(node.source)})"

    def store_matrix(self, node: StoreMatrix) -> str:
        """`stmatrix_x4(&c_tile[row][n], c_frag)`: the row whose address a lane gives, and its words."""
        self.functions.setdefault((node.name, ""))
        return f"{node.name}(&{self.lvalue(node.target)}, {node.words.name})"

    def convert_fragment(self, node: ConvertFragment) -> str:
        """`bfloat16_parts(a_frag[0][i], a_parts)`: arrays in registers, or rows of them."""
        self.functions.setdefault((node.function, ""))
        return f"{node.function}({self._registers(node.source)}, {self._registers(node.target)})"

    def _registers(self, access: Access) -> str:
        """The array, or the row of one, whose registers an access has."""
        text, width = self.lvalue(access), access.width
        for extent in reversed(access.array.shape):
            if width > 1:
                text, width = text.removesuffix("[0]"), width // int(extent)
        return text

    def mma(self, node: Mma) -> str:
        """`mma_m16n8k16(&acc[0][0], &acc[1][0], a[0], b[0])`: a lane's accumulators and fragments."""
        name = node.instruction.name
        self.functions.setdefault((name, ""))
        accumulators = [f"&{self.lvalue(access)}" for access in (node.acc_upper, node.acc_lower)]
        fragments = [self.lvalue(access).removesuffix("[0]") for access in (node.a, node.b)]
        return f"{name}({', '.join((*accumulators, *fragments))})"

    def copy(self, node: Copy) -> str:
        """Copy of elements in their storage type; zero-filled where the guard fails."""
        guard = self.integers.guard(node.guard) if node.guard is not None and node.guard.terms else ""
        if node.asynchronous:
            return self._asynchronous_copy(node, guard)
        dtype = node.target.array.dtype
        if node.target.width > 1:
            return self._vector_store(node.target, self._vector_or_zeros(node.source, node.guard))
        source, zero = self._stored(node.source), self._zero(node.target.array, Const(0, dtype.compute))
        return self._element_store(node.target, f"{guard} ? {source} : {zero}" if guard else source)

    def _vector_or_zeros(self, access: Access, guard: Guard | None) -> str:
        """A vector load; zeros where the guard fails."""
        vector = self._vector_load(access)
        if guard is None or not guard.terms:
            return vector
        return f"{self.integers.guard(guard)} ? {vector} : {self._vector_type(access.array.dtype, access.width)}{{}}"

    def _asynchronous_copy(self, node: Copy, guard: str) -> str:
        """`__pipeline_memcpy_async(&As[k][r], &A[m * K + k], 4)`; the last argument is the number of bytes
        to zero-fill."""
        self.headers.setdefault("cuda_pipeline_primitives.h")
        size = node.target.array.dtype.bytes * node.target.width
        zeros = f", {guard} ? 0 : {size}" if guard else ""
        return f"__pipeline_memcpy_async(&{self.lvalue(node.target)}, &{self.lvalue(node.source)}, {size}{zeros})"

    def fetch_block_id(self, node: FetchBlockId) -> str:
        counter = f"&{self.lvalue(node.counter)}"
        count = f"atomicInc({counter}, gridDim.x - 1)" if node.wraps else f"atomicAdd({counter}, 1)"
        return f"{self.lvalue(node.target)} = {count}"

    def count_arrival(self, node: CountArrival) -> str:
        last = self.integer(node.arrivals - 1)
        return f"{self.lvalue(node.target)} = atomicInc(&{self.lvalue(node.counter)}, {last})"

    def load_block_id(self, node: LoadBlockId) -> str:
        return f"const {self.declared_type(node.index)} {node.index.name} = {self.lvalue(node.access)}"

    def named_barrier(self, node: NamedBarrier) -> str:
        if node.is_of_warp:
            return "__syncwarp()"
        return f"__barrier_sync_count({self.integer(node.number + 1)}, {node.threads})"

    def release_flag(self, node: ReleaseFlag) -> str:
        return f"atomicExch(&{self.lvalue(node.access)}, {self.print(node.value)})"

    def spin_wait(self, node: AcquireSpinWait) -> str:
        """The condition of the spin loop: the flag differs from the awaited value."""
        return f"__ldcv(&{self.lvalue(node.access)}) != {self.print(node.value)}"

    def assign(self, node: Assign) -> str:
        if isinstance(node.local, Vector) and isinstance(node.value, Element):
            return f"{self.vector(node.local)} = {self._vector_load(node.value.access)}"
        if isinstance(node.local, Vector):
            return f"{self.vector(node.local)} = {self.print(node.value)}"
        if isinstance(node.local, Component):
            element = node.local.vector.element
            if isinstance(node.value, Component) and node.value.vector.element == element:
                return f"{self.component(node.local)} = {self.component(node.value)}"
            if isinstance(node.value, Element) and node.value.access.array.dtype == element:
                return f"{self.component(node.local)} = {self._stored(node.value.access)}"
            if element == node.value.dtype and element.bits >= 32:
                return self.assignment(self.component(node.local), node.value, node.local)
            return f"{self.component(node.local)} = {narrowed(self.print(node.value), element)}"
        return self.assignment(node.local.name, node.value)

    def declare(self, node: Declare) -> str:
        """`__shared__ float As[16][17]`, or an array in registers."""
        array = node.array
        extents = "".join(f"[{self.integer(extent)}]" for extent in self._extents(array))
        if array.space == "register":
            constant = "const " if array.values is not None else ""
            zeros = " = {}" if node.zeroed else ""
            initializer = f" = {self.initializer(array)}" if array.values is not None else zeros
            return f"{constant}{c_name(array.dtype)} {array.symbol}{extents}{initializer}"
        if array.dynamic:
            return self._dynamic_tile(array)
        align = f"__align__({array.align}) " if array.align else ""
        return f"__shared__ {align}{c_name(array.dtype)} {array.symbol}{extents}"

    def _dynamic_tile(self, array: Array) -> str:
        """A tile in dynamic shared memory: a pointer to its rows, from the end of a tile that is declared before it, or
        so many bytes from the start of the memory."""
        kind, rows = self._rows(array)
        pointer = f"{kind} (*){rows}" if rows else f"{kind}*"
        offset = self.integer(integer(array.dynamic_offset))
        start = "shared_memory" + (f" + {offset}" if array.dynamic_offset else "")
        is_typed = False
        for tile in self.dynamic_tiles:
            if int(tile.dynamic_offset) + sympy.Mul(*tile.padded_shape) * tile.dtype.bytes == int(array.dynamic_offset):
                start = f"{tile.symbol} + {self.integer(self._extents(tile)[0])}"
                is_typed = self._rows(tile) == (kind, rows)
        if not array.shape:
            return f"{kind}& {array.symbol} = *reinterpret_cast<{kind}*>({start})"
        self.dynamic_tiles.append(array)
        target = f"{kind} (*{array.symbol}){rows}" if rows else f"{kind}* {array.symbol}"
        return f"{target} = {start if is_typed else f'reinterpret_cast<{pointer}>({start})'}"

    def _rows(self, array: Array) -> tuple[str, str]:
        """The element type of a tile, and the extents of its rows."""
        return c_name(array.dtype), "".join(f"[{self.integer(extent)}]" for extent in self._extents(array)[1:])

    def _extents(self, array: Array) -> tuple[Integer, ...]:
        """The padded extents of a tile, by name where they have one."""
        if array.printed_shape:
            ranges = self.integers.ranges
            values = [bounds(extent, ranges) for extent in array.printed_shape]
            assert values == [bounds(extent, ranges) for extent in array.padded_shape], array.symbol
        return array.printed_shape or array.padded_shape

    def initializer(self, array: Array) -> str:
        """Initialiser of a constant table."""
        return tables.initializer(array, self.integers.ranges)

    def _vector_type(self, element: DType, width: int) -> str:
        self.functions.setdefault(("vector", ""))
        return f"Vector<{c_name(element)}, {width}>"

    def _vector_load(self, access: Access) -> str:
        """`load<4>(&A[m * K + k])`."""
        name = "load_streaming" if access.streaming else "load"
        if access.cache_operator:
            name = self._cached("load", access)
        return f"{self._vector_function('load_readonly' if access.array.loads_readonly else name, access)})"

    def _vector_store(self, access: Access, value: str) -> str:
        """`store<4>(&C[m * N + n], c4)`."""
        name = self._cached("store", access) if access.cache_operator else "store"
        return f"{self._vector_function(name, access)}, {value})"

    def _cached(self, name: str, access: Access) -> str:
        """`load_cs`, or `load_cs_ptx`."""
        return f"{name}_{access.cache_operator}{'' if self.cache_functions else '_ptx'}"

    def _element_store(self, access: Access, value: str) -> str:
        """`C[m * N + n] = value`, or `__stcs(&C[m * N + n], value)`; the value is in the storage type."""
        if not access.cache_operator:
            return f"{self.lvalue(access)} = {value}"
        if _is_byte(access.array.dtype) or not self.cache_functions:
            vector = f"{self._vector_type(access.array.dtype, 1)}{{{value}}}"
            return self._vector_store(access, vector)
        return f"__st{access.cache_operator}(&{self.lvalue(access)}, {value})"

    def _vector_function(self, name: str, access: Access) -> str:
        self._vector_type(access.array.dtype, access.width)
        self.functions.setdefault((name, ""))
        return f"{name}<{access.width}>(&{self.lvalue(access)}"

    def _widened(self, access: Access) -> str:
        """A loaded element in its compute type."""
        if access.array.space == "texture":
            return fetched(self.lvalue(access), access.array.dtype)
        return widened(self._stored(access), access.array.dtype)

    def _chosen(self, condition: str, access: Access, otherwise: Expr) -> str:
        """An element where a condition holds, in its compute type. It is converted after the choice where the other
        value has its type: a conversion under the condition would wait for each load."""
        dtype = access.array.dtype
        if isinstance(otherwise, Const) and _is_stored(otherwise, access):
            constant = narrowed(literal(otherwise.value, otherwise.dtype), dtype)
            return widened(f"{condition} ? {self._stored(access)} : {constant}", dtype)
        return f"{condition} ? {self._widened(access)} : {self.branch(otherwise)}"

    def _stored(self, access: Access) -> str:
        """A loaded element in its storage type."""
        is_byte = _is_byte(access.array.dtype)
        if access.cache_operator and (is_byte or not self.cache_functions):
            return f"{self._vector_load(access)}.data[0]"
        text = self.lvalue(access)
        if access.array.space == "texture":
            return stored(text, access.array.dtype)
        if access.cache_operator:
            return f"__ld{access.cache_operator}(&{text})"
        if not access.array.loads_readonly:
            return text
        if is_byte:
            self.functions.setdefault(("load_byte", ""))
            return f"load_byte(&{text})"
        return f"__ldg(&{text})"

    def _zero(self, array: Array, zero: Const) -> str:
        return narrowed(literal(0, zero.dtype), array.dtype)


def _is_stored(value: Expr, access: Access) -> bool:
    """Whether a value is a constant that the type of an element has, which is converted when it is loaded: 0, or an
    infinity of 16 bits."""
    dtype = access.array.dtype
    if not isinstance(value, Const) or value.dtype != dtype.compute or access.array.space == "texture":
        return False
    is_converted = dtype.is_float and dtype.compute != dtype
    return is_converted and (value.value == 0 or (dtype.bits == 16 and math.isinf(value.value)))


def _is_byte(dtype: DType) -> bool:
    """Whether it is a type of 8 bits for which the functions of cached loads and stores have no overload."""
    return dtype.kind is Kind.BOOL or (dtype.is_float and dtype.bits == 8)
