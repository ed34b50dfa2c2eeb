"""Value expressions → C, with the language's meaning of operators and conversions where C's differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.emit.ctypes import c_name, header_of, literal, narrowed, widened
from cugen.plan.intervals import fits, interval, unwrapped
from cugen.plan.ir import Element
from cugen.plan.symbols import Range
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, ParamValue, ScalarValue, Select
from cugen.spec.types import INT32, INT64, UINT16, UINT32, DType, Kind

# Precedence of C's operators: the lower binds tighter.
_ATOM, _UNARY, _PRODUCT, _SUM, _SHIFT, _RELATION, _EQUALITY, _AND, _XOR, _OR, _BOTH, _EITHER, _CHOICE = range(13)

_INFIX = {
    "add": ("+", _SUM),
    "sub": ("-", _SUM),
    "mul": ("*", _PRODUCT),
    "div": ("/", _PRODUCT),
    "lt": ("<", _RELATION),
    "le": ("<=", _RELATION),
    "gt": (">", _RELATION),
    "ge": (">=", _RELATION),
    "eq": ("==", _EQUALITY),
    "ne": ("!=", _EQUALITY),
    "bitand": ("&", _AND),
    "bitxor": ("^", _XOR),
    "bitor": ("|", _OR),
    "and": ("&&", _BOTH),
    "or": ("||", _EITHER),
}
# C reads these pairs by precedence, people don't: -Wparentheses wants the inner one in parentheses.
_CONFUSING = {("||", "&&"), ("&", "=="), ("|", "&"), ("^", "&"), ("|", "^")}
_MATH = {"round": "rint", "abs": "fabs"}
_WRAPPING = {"add": "wrapping_add", "sub": "wrapping_subtract", "mul": "wrapping_multiply", "neg": "wrapping_negate"}
# Functions that C++ doesn't have with the language's meaning; templates/functions/ holds one file for each.
_INTEGER_HELPERS = {
    "floordiv": "floor_divide",
    "mod": "floor_modulo",
    "pow": "integer_power",
    "shl": "shift_left",
    "shr": "shift_right",
    "sign": "sign_of",
    "abs": "absolute",
}
_FLOAT_HELPERS = {
    "floordiv": "floor_divide",
    "mod": "floor_modulo",
    "sign": "sign_of",
    "maximum": "maximum",
    "minimum": "minimum",
}
_FROM_FLOAT = {"int32": "int", "uint32": "uint"}


@dataclass
class ValuePrinter:
    """Prints for one kernel. `ranges` holds the values of indices, params and bounded locals by their names in C;
    `functions` collects the helpers that the text calls, with their element types; `element` prints a memory access."""

    ranges: Mapping[str, Range]
    scalars: Mapping[str, str]
    params: Mapping[str, str]
    wide: frozenset[str]  # indices and params that are 64 bits wide
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    headers: dict[str, None] = field(default_factory=dict)
    long_locals: dict[str, None] = field(default_factory=dict)  # declared as 64 bits wide, whatever their range

    def print(self, expr: Expr) -> str:
        return self._print(expr)[0]

    def branch(self, expr: Expr) -> str:
        """The text as it stands in `condition ? text : text`."""
        return self._below(expr, _CHOICE)

    def assignment(self, target: str, value: Expr) -> str:
        """`target = value`, or `target += rest` where the value begins with the target."""
        if isinstance(value, Op) and value.name in ("add", "mul"):
            grows = value.args[0] == Local(target, value.dtype)
            wraps_itself = value.dtype.kind is Kind.UINT and value.dtype.bits >= 32
            if grows and (wraps_itself or not self._may_wrap(value)):
                return f"{target} {_INFIX[value.name][0]}= {self.print(value.args[1])}"
        return f"{target} = {self.print(value)}"

    def element(self, access: Element) -> str:
        """Replaced by the source printer, which knows how subscripts are printed."""
        raise TypeError(f"no memory can be read here: {access.name}")

    def _print(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Const(value=value, dtype=dtype):
                return self._literal(value, dtype)
            case Element():
                return widened(self.element(expr), expr.access.array.dtype), _ATOM
            case Local(name=name):
                return name, _ATOM
            case ParamValue(name=name):
                return self.params[name], _ATOM
            case ScalarValue(name=name):
                return self.scalars[name], _ATOM
            case Cast():
                return self._cast(expr)
            case Select():
                condition = self._below(expr.condition, _CHOICE)
                return f"{condition} ? {self.branch(expr.then)} : {self.branch(expr.orelse)}", _CHOICE
            case Op():
                return self._operator(expr)
        raise TypeError(f"not a value of a plan: {expr!r}")

    def _literal(self, value: int | float | bool, dtype: DType) -> tuple[str, int]:
        if dtype == INT64 and fits((int(value), int(value)), INT32):
            text = str(int(value))
        else:
            text = literal(value, dtype)
        if "CUDART" in text:
            self.headers.setdefault("math_constants.h")
        return text, _UNARY if text.startswith("-") else _ATOM

    def _below(self, expr: Expr, limit: int) -> str:
        """The text of an operand, in parentheses where it binds no tighter than `limit`."""
        text, precedence = self._print(expr)
        return text if precedence < limit else f"({text})"

    def _operator(self, op: Op) -> tuple[str, int]:
        if op.name in ("not", "invert") and op.args[0].dtype.kind is Kind.BOOL:
            return f"!{self._below(op.args[0], _PRODUCT)}", _UNARY
        operand = op.args[0].dtype
        if operand.is_float:
            return self._float_operator(op)
        if op.name in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or"):
            return self._infix(op)
        if op.name in ("bitand", "bitor", "bitxor"):
            text, precedence = self._infix(op)
            return (text, precedence) if op.dtype.kind is not Kind.BOOL else (f"bool({text})", _ATOM)
        return self._integer_operator(op)

    def _float_operator(self, op: Op) -> tuple[str, int]:
        suffix = "f" if op.args[0].dtype.bits == 32 else ""
        if op.name == "neg":
            return f"-{self._below(op.args[0], _UNARY)}", _UNARY
        if op.name in _INFIX:
            return self._infix(op)
        arguments = ", ".join(self.print(arg) for arg in op.args)
        if op.name in _FLOAT_HELPERS:
            return self._helper(_FLOAT_HELPERS[op.name], op.dtype, arguments)
        return f"{_MATH.get(op.name, op.name)}{suffix}({arguments})", _ATOM

    def _integer_operator(self, op: Op) -> tuple[str, int]:
        dtype = op.dtype
        if op.name in ("floor", "ceil", "round", "trunc") or (op.name == "abs" and dtype.kind is Kind.UINT):
            return self._print(op.args[0])
        if op.name == "invert":
            text = f"~{self._below(op.args[0], _PRODUCT)}"
            return self._truncated(text, _UNARY, dtype) if dtype.bits < 32 else (text, _UNARY)
        if op.name in _WRAPPING:
            return self._arithmetic(op)
        if op.name in ("floordiv", "mod") and self._divides_as_c_does(op):
            symbol = "/" if op.name == "floordiv" else "%"
            left, right = self._below(op.args[0], _SUM), self._below(op.args[1], _PRODUCT)
            return f"{left} {symbol} {right}", _PRODUCT
        if op.name in ("minimum", "maximum"):
            function = "min" if op.name == "minimum" else "max"
            same = self._same_width(op)
            text = ", ".join(self._widened_to(arg, same) for arg in op.args)
            return f"{function}({text})", _ATOM
        arguments = ", ".join(self._widened_to(arg, dtype) for arg in op.args)
        return self._helper(_INTEGER_HELPERS[op.name], dtype, arguments)

    def _arithmetic(self, op: Op) -> tuple[str, int]:
        dtype = op.dtype
        if self._may_wrap(op) and dtype.kind is Kind.INT and dtype.bits >= 32:
            arguments = ", ".join(self._widened_to(arg, dtype) for arg in op.args)
            return self._helper(_WRAPPING[op.name], dtype, arguments)
        if self._is_wider_than_operands(op):
            first, *rest = op.args
            text = f"(long long){self._below(first, _PRODUCT)}"
            if op.name == "neg":
                return f"-{text}", _UNARY
            symbol, precedence = _INFIX[op.name]
            return f"{text} {symbol} {self._below(rest[0], precedence)}", precedence
        if op.name == "neg":
            text, precedence = f"-{self._below(op.args[0], _UNARY)}", _UNARY
        elif op.name == "mul" and dtype == UINT16 and not fits(unwrapped(op, self.ranges), INT32):
            # C multiplies in an int, which two numbers of 16 bits without a sign overflow.
            text = f"(unsigned int){self._below(op.args[0], _PRODUCT)} * {self._below(op.args[1], _PRODUCT)}"
            precedence = _PRODUCT
        else:
            text, precedence = self._infix(op)
        if dtype.bits < 32 and (self._may_wrap(op) or dtype.kind is Kind.UINT):
            return self._truncated(text, precedence, dtype)
        return text, precedence

    def _infix(self, op: Op) -> tuple[str, int]:
        symbol, precedence = _INFIX[op.name]
        first, second = self._converted_by_c(op)
        left_text, left = self._print(first)
        right_text, right = self._print(second)
        commutes = op.name in ("and", "or", "bitand", "bitor", "bitxor")
        if left > precedence or self._confuses(symbol, first, left, precedence):
            left_text = f"({left_text})"
        if (
            right > precedence
            or (right == precedence and not commutes)
            or self._confuses(symbol, second, right, precedence)
        ):
            right_text = f"({right_text})"
        return f"{left_text} {symbol} {right_text}", precedence

    def _converted_by_c(self, op: Op) -> tuple[Expr, Expr]:
        """The operands without a conversion to the other one's float type, which C makes by itself."""
        left, right = op.args
        if isinstance(left, Cast) != isinstance(right, Cast):
            if isinstance(left, Cast) and left.to == right.dtype and left.to.is_float:
                left = left.arg
            elif isinstance(right, Cast) and right.to == left.dtype and right.to.is_float:
                right = right.arg
        return left, right

    def _confuses(self, symbol: str, operand: Expr, inner: int, outer: int) -> bool:
        if not isinstance(operand, Op) or operand.name not in _INFIX or inner > outer:
            return False
        return (symbol, _INFIX[operand.name][0]) in _CONFUSING

    def _may_wrap(self, op: Op) -> bool:
        return op.dtype.is_integer and not fits(unwrapped(op, self.ranges), op.dtype)

    def _is_narrow(self, expr: Expr) -> bool:
        """Whether C computes this int64 in an `int`: indices, params and small literals."""
        match expr:
            case Const(value=value):
                return fits((int(value), int(value)), INT32)
            case Local(name=name):
                return name in self.ranges and name not in self.wide and name not in self.long_locals
            case ParamValue(name=name):
                return self.params[name] not in self.wide
            case Op(name="add" | "sub" | "mul" | "neg"):
                return all(map(self._is_narrow, expr.args)) and fits(unwrapped(expr, self.ranges), INT32)
            case Op(name="floordiv" | "mod"):
                return all(map(self._is_narrow, expr.args)) and self._divides_as_c_does(expr)
            case Cast(arg=arg, to=to):
                return to == INT64 and arg.dtype.is_integer and arg.dtype.bits <= 32 and arg.dtype.name != "uint32"
        return False

    def _is_wider_than_operands(self, op: Op) -> bool:
        return op.dtype == INT64 and all(map(self._is_narrow, op.args)) and not self._is_narrow(op)

    def _divides_as_c_does(self, op: Op) -> bool:
        """C rounds toward zero and faults on zero: the same only where nothing is negative and the divisor positive."""
        return interval(op.args[0], self.ranges)[0] >= 0 and interval(op.args[1], self.ranges)[0] > 0

    def _same_width(self, op: Op) -> DType:
        return INT32 if op.dtype == INT64 and all(map(self._is_narrow, op.args)) else op.dtype

    def _widened_to(self, expr: Expr, dtype: DType) -> str:
        """An argument of a call, where C picks the overload by type."""
        if isinstance(expr, Cast) and expr.to == dtype == INT32 and expr.arg.dtype.bits < 32:
            return f"(int){self._below(expr.arg, _PRODUCT)}"
        if dtype == INT64 and self._is_narrow(expr):
            if isinstance(expr, Const):
                return f"{expr.value}LL"
            return f"(long long){self._below(expr, _PRODUCT)}"
        if dtype.bits < 32:
            return f"({c_name(dtype)}){self._below(expr, _PRODUCT)}" if isinstance(expr, Const) else self.print(expr)
        return self.print(expr)

    def _truncated(self, text: str, precedence: int, dtype: DType) -> tuple[str, int]:
        return f"({c_name(dtype)})({text})" if precedence > _ATOM else f"({c_name(dtype)}){text}", _UNARY

    def _helper(self, name: str, dtype: DType, arguments: str) -> tuple[str, int]:
        self.functions.setdefault((name, c_name(dtype)))
        return f"{name}({arguments})", _ATOM

    def _cast(self, cast: Cast) -> tuple[str, int]:
        source, to = cast.arg.dtype, cast.to
        if (header := header_of(to)) is not None:
            self.headers.setdefault(header)
        if to.compute != to:
            return widened(narrowed(self.print(cast.arg), to), to), _ATOM
        if source == to:
            return self._print(cast.arg)
        if isinstance(cast.arg, Const) and not source.is_float:
            return self._literal(cast.arg.value if not to.is_float else float(cast.arg.value), to)
        if source.is_float and to.is_integer:
            return self._from_float(cast)
        if to == INT64 and self._is_narrow(cast):
            return self._print(cast.arg)
        if to == INT32 and ((source == INT64 and self._is_narrow(cast.arg)) or source.bits < 32):
            return self._print(cast.arg)  # C computes in an int anyway
        if to.kind is Kind.BOOL:
            return f"{self._below(cast.arg, _EQUALITY)} != 0", _EQUALITY
        return f"({c_name(to)}){self._below(cast.arg, _PRODUCT)}", _UNARY

    def _from_float(self, cast: Cast) -> tuple[str, int]:
        """CUDA's conversions truncate and saturate; C's cast is undefined outside the type's range. A NaN gives 0, but
        for conversions from or to 64 bits."""
        source, to = cast.arg.dtype, cast.to
        wide = to if to.bits >= 32 else UINT32 if to.kind is Kind.UINT else INT32
        if source.bits == 64 or wide.bits == 64:
            text, _ = self._helper(f"to_{wide.name}", source, self.print(cast.arg))
        else:
            text = f"__float2{_FROM_FLOAT[wide.name]}_rz({self.print(cast.arg)})"
        return (text, _ATOM) if wide == to else (f"({c_name(to)}){text}", _UNARY)
