"""Nodes of a plan → the pieces of C that templates arrange. Every access is printed here, and counted."""

from __future__ import annotations

from collections.abc import Mapping

from cugen.emit.printer import tables
from cugen.emit.printer.ctypes import c_name, literal, narrowed, widened
from cugen.emit.printer.integers import IntegerPrinter
from cugen.emit.printer.values import ValuePrinter
from cugen.plan.memory import Access, Array, Component, Element, Shuffled, Start, Vector
from cugen.plan.nodes import (
    Accumulate,
    Arrive,
    Assign,
    Await,
    Condition,
    Copy,
    Declare,
    For,
    Guard,
    Index,
    Let,
    Load,
    MultiplyTiles,
    Node,
    Publish,
    Store,
    TakeTicket,
    TeamBarrier,
    Ticket,
)
from cugen.plan.remarks import own_accesses
from cugen.plan.symbols import Integer, Ranges, bounds
from cugen.spec.expressions import Const, Expr, Local
from cugen.spec.types import INT64, DType, Kind

_ATOM = 0  # the precedence of what never needs parentheses


class NodePrinter(ValuePrinter):
    """The filters that the templates of one kernel use. `printed` holds each access that was printed, in order."""

    def __init__(
        self,
        ranges: Ranges,
        scalars: Mapping[str, str],
        params: Mapping[str, str],
        claims: Mapping[int, str] | None = None,
    ) -> None:
        self.integers = IntegerPrinter(ranges, frozenset(params.values()))
        wide = frozenset(s.name for s in ranges if self.integers.is_wide(s))
        super().__init__({s.name: r for s, r in ranges.items()}, scalars, params, wide)
        self.functions = self.integers.functions
        self.printed: list[Access] = []
        self.claims = claims or {}

    def integer(self, expr: Integer) -> str:
        return self.integers.print(expr)

    def integer_type(self, index: Index) -> str:
        if index.is_wide:
            self.integers.long_names.setdefault(index.name)
        return "long long" if index.is_wide else "int"

    def definition(self, index: Index) -> str:
        """`int m = blockIdx.y * 16 + threadIdx.y`."""
        value = index.definition if index.shown is None else index.shown
        return f"{self.integer_type(index)} {index.name} = {self.integers.print(value, wide=index.is_wide)}"

    def start(self, start: Start) -> str:
        """`const float* a_from = &A[m * K + k]`."""
        element = f"&{start.array.symbol}{self.integers.subscripts(Access(start.array, start.subscripts, 'load'))}"
        kind = f"const {c_name(start.array.dtype)}"
        if start.array.flat:
            return f"{kind}* {start.name} = {element}"
        rows = "".join(f"[{self.integer(extent)}]" for extent in start.array.padded_shape[1:])
        return f"{kind} (*{start.name}){rows} = reinterpret_cast<{kind} (*){rows}>({element})"

    def loop(self, node: For) -> str:
        """`for (int k = 0; k < K; ++k)`."""
        loop, name = node.loop, node.loop.index.name
        kind = self.integer_type(loop.index)
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
        step = f"++{name}" if loop.step == 1 else f"{name} += {loop.step}"
        for other in node.counted:
            start += f", {other.index.name} = 0"
            step += f", {other.index.name} = {self.integer(other.then)}"
        return f"for ({kind} {name} = {start}; {name} {stop}; {step})"

    def condition(self, condition: Condition) -> str:
        return self.integers.guard(condition) if isinstance(condition, Guard) else self.print(condition)

    def negated(self, guard: Guard) -> str:
        return self.integers.negated(guard)

    def place(self, access: Access) -> str:
        """`A[m * K + k]`; the one way in which memory is named in the source."""
        self.printed.append(access)
        return self.text(access)

    def text(self, access: Access) -> str:
        symbol, access = access.printed()
        if access.rank is not None:
            symbol = f"cluster.map_shared_rank({symbol}, {self.integer(access.rank)})"
        return f"{symbol}{self.integers.subscripts(access)}"

    def remarks(self, node: Node) -> list[str]:
        """What the comments above a node say of its accesses."""
        found = [(access, self.claims.get(id(access), "")) for access in own_accesses(node)]
        return [f"{self.text(access)}: {claim}" for access, claim in found if claim]

    def element(self, access: Element) -> str:
        return self._stored(access.access)

    def component(self, part: Component) -> str:
        """`x4.at[v]`, as it is stored."""
        return f"{self.vector(part.vector)}.at[{self.integer(part.place)}]"

    def vector(self, vector: Vector) -> str:
        """`x4`, or `x4[u]` of a row of them."""
        places = (place for place in (vector.row, vector.place) if place is not None)
        return vector.name + "".join(f"[{self.integer(place)}]" for place in places)

    def _print(self, expr: Expr) -> tuple[str, int]:
        if isinstance(expr, Component):
            return widened(self.component(expr), expr.vector.element), _ATOM
        if isinstance(expr, Vector):
            return self.vector(expr), _ATOM
        if isinstance(expr, Shuffled):
            return self._shuffled(expr), _ATOM
        return super()._print(expr)

    def _shuffled(self, value: Shuffled) -> str:
        function = {"xor": "__shfl_xor_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "from": "__shfl_sync"}
        segment = "" if value.segment == 32 else f", {value.segment}"
        distance = value.distance if isinstance(value.distance, int) else self.integer(value.distance)
        return f"{function[value.how]}(0xffffffff, {value.name}, {distance}{segment})"

    def let(self, node: Let) -> str:
        if isinstance(node.local, Vector):
            count = "".join(f"[{extent}]" for extent in (node.local.rows, node.local.count) if extent)
            zeros = "" if node.value is None else " = {}"
            return f"{self._vector_type(node.local.element, node.local.width)} {node.local.name}{count}{zeros}"
        kind = c_name(node.local.dtype)
        self._declared(node.local)
        if node.value is None:
            return f"{kind} {node.local.name}"
        constant = "" if node.mutable else "const "
        return f"{constant}{self._local_type(node)} {node.local.name} = {self.print(node.value)}"

    def load(self, node: Load) -> str:
        self._declared(node.local)
        dtype = node.access.array.dtype
        if node.access.width > 1:
            kind = self._vector_type(dtype, node.access.width)
            target = f"const auto {node.local.name}"
            if isinstance(node.local, Vector) and node.local.place is not None:
                target = self.vector(node.local)
            vector = f"reinterpret_cast<const {kind}*>(&{self.place(node.access)})"
            if node.access.streaming:
                self.functions.setdefault(("load_streaming", ""))
                return f"{target} = load_streaming({vector})"
            return f"{target} = *{vector}"
        value = widened(self._stored(node.access), dtype)
        if node.guard is not None and node.otherwise is not None:
            value = f"{self.integers.guard(node.guard)} ? {value} : {self.branch(node.otherwise)}"
        return f"const {c_name(dtype.compute)} {node.local.name} = {value}"

    def _declared(self, local: Local) -> None:
        if local.dtype == INT64:
            self.long_locals.setdefault(local.name)

    def store(self, node: Store) -> str:
        if node.access.width > 1:
            kind = self._vector_type(node.access.array.dtype, node.access.width)
            return f"*reinterpret_cast<{kind}*>(&{self.place(node.access)}) = {self.print(node.value)}"
        dtype = node.access.array.dtype
        if isinstance(node.value, Component) and node.value.vector.element == dtype:
            return f"{self.place(node.access)} = {self.component(node.value)}"
        return f"{self.place(node.access)} = {narrowed(self.print(node.value), dtype)}"

    def accumulate(self, node: Accumulate) -> str:
        return f"{self.place(node.access)} += {self.print(node.value)}"

    def multiply_tiles(self, node: MultiplyTiles) -> str:
        """`multiply_16x8x16(&sum[0][0], &sum[1][0], a[0], b[0])`: each lane hands over rows of what it holds."""
        name = f"multiply_16x8x{node.depth}"
        self.functions.setdefault((name, ""))
        sums = [f"&{self.place(access)}" for access in (node.upper, node.lower)]
        factors = [self.place(access).removesuffix("[0]") for access in (node.left, node.right)]
        return f"{name}({', '.join((*sums, *factors))})"

    def copy(self, node: Copy) -> str:
        """Elements moved without a change; zeros where the guard fails."""
        guard = self.integers.guard(node.guard) if node.guard is not None and node.guard.terms else ""
        if node.asynchronous:
            return self._copied_later(node, guard)
        dtype = node.target.array.dtype
        if node.target.width > 1:
            kind = self._vector_type(dtype, node.target.width)
            source = f"*reinterpret_cast<const {kind}*>(&{self.place(node.source)})"
            target, zero = f"*reinterpret_cast<{kind}*>(&{self.place(node.target)})", f"{kind}{{}}"
        else:
            source, target = self._stored(node.source), self.place(node.target)
            zero = self._zero(node.target.array, Const(0, dtype.compute))
        return f"{target} = {guard} ? {source} : {zero}" if guard else f"{target} = {source}"

    def _copied_later(self, node: Copy, guard: str) -> str:
        """`__pipeline_memcpy_async(&As[k][r], &A[m * K + k], 4)`; the last argument says how much of it is zeros."""
        self.headers.setdefault("cuda_pipeline_primitives.h")
        size = node.target.array.dtype.bytes * node.target.width
        zeros = f", {guard} ? 0 : {size}" if guard else ""
        return f"__pipeline_memcpy_async(&{self.place(node.target)}, &{self.place(node.source)}, {size}{zeros})"

    def take_ticket(self, node: TakeTicket) -> str:
        counter = f"&{self.place(node.counter)}"
        count = f"atomicInc({counter}, gridDim.x - 1)" if node.wraps else f"atomicAdd({counter}, 1)"
        return f"{self.place(node.target)} = {count}"

    def arrive(self, node: Arrive) -> str:
        return f"{self.place(node.target)} = atomicInc(&{self.place(node.counter)}, {node.among - 1})"

    def ticket(self, node: Ticket) -> str:
        return f"const {self.integer_type(node.index)} {node.index.name} = {self.place(node.access)}"

    def team_barrier(self, node: TeamBarrier) -> str:
        if node.is_of_warp:
            return "__syncwarp()"
        return f"__barrier_sync_count({self.integer(node.number + 1)}, {node.threads})"

    def publish(self, node: Publish) -> str:
        return f"atomicExch(&{self.place(node.access)}, {self.print(node.value)})"

    def awaited(self, node: Await) -> str:
        """The condition under which the thread has to ask once more."""
        return f"__ldcv(&{self.place(node.access)}) != {self.print(node.value)}"

    def assign(self, node: Assign) -> str:
        if isinstance(node.local, Vector) and isinstance(node.value, Element):
            kind = self._vector_type(node.local.element, node.local.width)
            place = self.place(node.value.access)
            return f"{self.vector(node.local)} = *reinterpret_cast<const {kind}*>(&{place})"
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
        """`__shared__ float As[16][17]`, or an array of the thread's own."""
        array = node.array
        extents = "".join(f"[{self.integer(extent)}]" for extent in array.padded_shape)
        if array.space == "register":
            constant = "const " if array.values is not None else ""
            first = f" = {self.initializer(array)}" if array.values is not None else " = {}" if node.zeroed else ""
            return f"{constant}{c_name(array.dtype)} {array.symbol}{extents}{first}"
        if array.dynamic:
            return self._carved(array)
        align = f"__align__({array.align}) " if array.align else ""
        return f"__shared__ {align}{c_name(array.dtype)} {array.symbol}{extents}"

    def _carved(self, array: Array) -> str:
        """A tile inside the dynamic shared memory: a pointer to its rows."""
        rows = "".join(f"[{self.integer(extent)}]" for extent in array.padded_shape[1:])
        kind = c_name(array.dtype)
        start = "shared_memory" + (f" + {array.dynamic_offset}" if array.dynamic_offset else "")
        if not array.shape:
            return f"{kind}& {array.symbol} = *reinterpret_cast<{kind}*>({start})"
        target = f"{kind} (*{array.symbol}){rows}" if rows else f"{kind}* {array.symbol}"
        cast = f"{kind} (*){rows}" if rows else f"{kind}*"
        return f"{target} = reinterpret_cast<{cast}>({start})"

    def initializer(self, array: Array) -> str:
        """The baked values of a table, nested as its dimensions."""
        return tables.initializer(array, self.integers.ranges)

    def _vector_type(self, element: DType, width: int) -> str:
        self.functions.setdefault(("vector", ""))
        return f"Vector<{c_name(element)}, {width}>"

    def _stored(self, access: Access) -> str:
        place = self.place(access)
        if access.array.space != "readonly":
            return place
        if access.array.dtype.kind is Kind.BOOL or (access.array.dtype.is_float and access.array.dtype.bits == 8):
            self.functions.setdefault(("load_byte", ""))
            return f"load_byte(&{place})"
        return f"__ldg(&{place})"

    def _zero(self, array: Array, zero: Const) -> str:
        return narrowed(literal(0, zero.dtype), array.dtype)

    def _local_type(self, node: Let) -> str:
        """int64 values that C computes in an int stay one, unless they are assigned to later."""
        if node.local.dtype == INT64 and not node.mutable and node.value is not None and self._is_narrow(node.value):
            return "long long"
        return c_name(node.local.dtype)
