"""Printer of value expressions to C, with the semantics of specs where C's operators and conversions differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cugen.emit.printer.ctypes import c_name, header_of, literal, narrowed, widened
from cugen.plan.intervals import fits, interval, unwrapped
from cugen.plan.memory import Element, IndexLocal
from cugen.plan.symbols import Range
from cugen.spec.expressions import Cast, Const, Expr, Local, Op, ParamValue, ScalarValue, Select
from cugen.spec.types import BOOL, INT32, INT64, UINT16, UINT32, DType, Kind

# C operator precedence; lower binds tighter.
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
_MATH = {"round": "rint", "abs": "fabs"}
_WRAPPING = {"add": "wrapping_add", "sub": "wrapping_subtract", "mul": "wrapping_multiply", "neg": "wrapping_negate"}
# Functions without a C++ counterpart of the same semantics: one template in templates/functions/ each.
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
    "divided_by": "divided_by",  # a plan's: division through a shared reciprocal
}
# Intrinsics of float32 that `fast_math` takes. A power isn't among them: `__powf` has no negative bases.
INTRINSICS = {
    "exp": "__expf",
    "log": "__logf",
    "log2": "__log2f",
    "log10": "__log10f",
    "sin": "__sinf",
    "cos": "__cosf",
    "tan": "__tanf",
    "div": "__fdividef",
}
_TO_TF32 = "to_tf32"  # a plan's: a float32, or its bits, rounded to tf32
_FROM_FLOAT = {"int32": "int", "uint32": "uint"}


@dataclass
class ValuePrinter:
    """Printer of one kernel. `ranges` are those of visible indices, params and bounded locals by C name.

    `functions` collects the helpers called, with their element types."""

    ranges: dict[str, Range]
    scalars: Mapping[str, str]
    params: Mapping[str, str]
    wide: set[str]  # visible indices and params that are 64 bits wide
    functions: dict[tuple[str, str], None] = field(default_factory=dict)
    headers: dict[str, None] = field(default_factory=dict)
    fast_math: bool = False

    def print(self, expr: Expr) -> str:
        return self._print(expr)[0]

    def branch(self, expr: Expr) -> str:
        """Text of the condition or of a branch of a conditional expression."""
        return self._below(expr, _CHOICE)

    def assignment(self, target: str, value: Expr, local: Local | None = None) -> str:
        """`target = value`, or `target += operand` for a value `target + operand`, also of `-` and `*`.

        `local` is the target, by default the one of its name."""
        if isinstance(value, Op) and value.name in ("add", "sub", "mul"):
            grows = value.args[0] == (local or Local(target, value.dtype))
            wraps_itself = value.dtype.kind is Kind.UINT and value.dtype.bits >= 32
            if grows and (wraps_itself or not self._may_wrap(value)):
                return f"{target} {_INFIX[value.name][0]}= {self.print(value.args[1])}"
        return f"{target} = {self.print(value)}"

    def element(self, access: Element) -> str:
        """Text of a memory access, in its compute type; overridden by the node printer."""
        raise TypeError(f"a memory access in an expression without memory: {access.name}")

    def _print(self, expr: Expr) -> tuple[str, int]:
        match expr:
            case Const(value=value, dtype=dtype):
                return self._literal(value, dtype)
            case Element():
                return self.element(expr), _ATOM
            case Local(name=name):
                return name, _ATOM
            case ParamValue(name=name):
                return self.params[name], _ATOM
            case ScalarValue(name=name):
                return self._checked(self.scalars[name])
            case Cast():
                return self._cast(expr)
            case Select(condition=condition, then=Const(value=True, dtype=dtype)) if dtype == BOOL:
                return self._infix(Op("or", (condition, expr.orelse), BOOL))
            case Select(condition=condition, orelse=Const(value=False, dtype=dtype)) if dtype == BOOL:
                return self._infix(Op("and", (condition, expr.then), BOOL))
            case Select():
                test = self._below(expr.condition, _CHOICE)
                return f"{test} ? {self.branch(expr.then)} : {self.branch(expr.orelse)}", _CHOICE
            case Op():
                return self._operator(expr)
        raise TypeError(f"not a value of a plan: {expr!r}")

    def _literal(self, value: int | float | bool, dtype: DType) -> tuple[str, int]:
        is_narrow = dtype == INT64 and fits((int(value), int(value)), INT32)
        return self._checked(literal(value, INT32 if is_narrow else dtype))

    def _checked(self, text: str) -> tuple[str, int]:
        """A name or literal; collects the header it needs."""
        if "CUDART" in text:
            self.headers.setdefault("math_constants.h")
        return text, _UNARY if text.startswith("-") else _ATOM

    def _below(self, expr: Expr, limit: int) -> str:
        """Text of an operand, in parentheses unless it binds tighter than `limit`."""
        text, precedence = self._print(expr)
        return text if precedence < limit else f"({text})"

    def _operator(self, op: Op) -> tuple[str, int]:
        if op.name in ("not", "invert") and op.args[0].dtype.kind is Kind.BOOL:
            return f"!{self._below(op.args[0], _PRODUCT)}", _UNARY
        operand = op.args[0].dtype
        if op.name == _TO_TF32:
            self.functions.setdefault((_TO_TF32, ""))
            return f"{_TO_TF32}({self.print(op.args[0])})", _ATOM
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
        is_fast = self.fast_math and bool(suffix) and op.name in INTRINSICS
        if op.name in _INFIX and not is_fast:
            return self._infix(op)
        arguments = ", ".join(self.print(arg) for arg in op.args)
        if is_fast:
            return f"{INTRINSICS[op.name]}({arguments})", _ATOM
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
            # Smaller types are promoted to int.
            common = self.c_type(op)
            promoted = common == INT32
            text = ", ".join(self.print(arg) if promoted else self._argument(arg, common) for arg in op.args)
            return f"{function}({text})", _ATOM
        arguments = ", ".join(self._argument(arg, dtype) for arg in op.args)
        return self._helper(_INTEGER_HELPERS[op.name], dtype, arguments)

    def _arithmetic(self, op: Op) -> tuple[str, int]:
        dtype = op.dtype
        if self._may_wrap(op) and dtype.kind is Kind.INT and dtype.bits >= 32:
            arguments = ", ".join(self._argument(arg, dtype) for arg in op.args)
            return self._helper(_WRAPPING[op.name], dtype, arguments)
        if self._is_wider_than_operands(op):
            text = f"(long long){self._below(op.args[0], _PRODUCT)}"
            if op.name == "neg":
                return f"-{text}", _UNARY
            symbol, precedence = _INFIX[op.name]
            return f"{text} {symbol} {self._below(op.args[1], precedence)}", precedence
        if op.name == "neg":
            text, precedence = f"-{self._below(op.args[0], _UNARY)}", _UNARY
        elif op.name == "mul" and dtype == UINT16 and not fits(unwrapped(op, self.ranges), INT32):
            # Promoted to int, in which the product of two uint16 can overflow.
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
        if left > precedence or _confuses(left, precedence):
            left_text = f"({left_text})"
        if right > precedence or (right == precedence and not commutes) or _confuses(right, precedence):
            right_text = f"({right_text})"
        return f"{left_text} {symbol} {right_text}", precedence

    def _converted_by_c(self, op: Op) -> tuple[Expr, Expr]:
        """Operands without casts to the float type of the other operand, which are implicit in C."""
        left, right = op.args
        if isinstance(left, Cast) != isinstance(right, Cast):
            if isinstance(left, Cast) and _widens_to(left, right.dtype):
                left = left.arg
            elif isinstance(right, Cast) and _widens_to(right, left.dtype):
                right = right.arg
        return left, right

    def _may_wrap(self, op: Op) -> bool:
        return op.dtype.is_integer and not fits(unwrapped(op, self.ranges), op.dtype)

    def c_type(self, expr: Expr) -> DType:
        """Type in which C evaluates the text of an integer or bool: int for int64 values that fit."""
        match expr:
            case Const(value=value, dtype=dtype) if dtype.kind is not Kind.BOOL:
                return INT32 if dtype.bits < 32 or (dtype == INT64 and fits((int(value), int(value)), INT32)) else dtype
            case IndexLocal(name=name):
                return INT32 if name in self.ranges and name not in self.wide else INT64
            case ParamValue(name=name):
                return INT64 if self.params[name] in self.wide else INT32
            case Select(then=then, orelse=orelse):
                a, b = self.c_type(then), self.c_type(orelse)
                return a if a == b else _common(a, b)
            case Cast(arg=arg, to=to) if self._needs_no_cast(expr):
                return (
                    self.c_type(Const(_converted(int(arg.value), to), to))
                    if isinstance(arg, Const)
                    else self.c_type(arg)
                )
            case Op(dtype=dtype, args=args) if dtype.is_integer:
                return self._type_of_operator(expr, [self.c_type(arg) for arg in args])
        return expr.dtype

    def _type_of_operator(self, op: Op, operands: list[DType]) -> DType:
        match op.name:
            case "floor" | "ceil" | "round" | "trunc":
                return operands[0]
            case "abs" if op.dtype.kind is Kind.UINT:
                return operands[0]
            case "invert" if op.dtype.bits >= 32:
                return _common(operands[0], INT32)
            case "bitand" | "bitor" | "bitxor":
                return _common(*operands)
            case "floordiv" | "mod" if self._divides_as_c_does(op):
                return _common(*operands)
            case "minimum" | "maximum":
                return _common(*operands)
            case "add" | "sub" | "mul" | "neg" if op.dtype == INT64:
                narrow = all(operand.bits <= 32 for operand in operands) and fits(unwrapped(op, self.ranges), INT32)
                return INT32 if narrow else INT64
            case "add" | "sub" | "mul" | "neg" if op.dtype.kind is Kind.INT and not self._may_wrap(op):
                return INT32
        return op.dtype

    def _is_narrow(self, expr: Expr) -> bool:
        """Whether C evaluates this int64 in an `int`."""
        return self.c_type(expr).bits <= 32

    def _needs_no_cast(self, cast: Cast) -> bool:
        """Whether the C type of the operand of an integer conversion makes the cast redundant."""
        source, to = cast.arg.dtype, cast.to
        if source == to or (isinstance(cast.arg, Const) and not source.is_float and not to.is_float):
            return True
        if source.is_float or to not in (INT32, INT64):
            return False
        # Signed types up to 32 bits are promoted to int and widened implicitly.
        actual = self.c_type(cast.arg)
        return actual != UINT32 and actual.bits <= 32 and (to == INT64 or source.bits < 32 or source == INT64)

    def _is_wider_than_operands(self, op: Op) -> bool:
        return op.dtype == INT64 and all(map(self._is_narrow, op.args)) and not self._is_narrow(op)

    def _divides_as_c_does(self, op: Op) -> bool:
        """Whether C's truncating division equals floor division: nonnegative dividend, positive divisor."""
        return interval(op.args[0], self.ranges)[0] >= 0 and interval(op.args[1], self.ranges)[0] > 0

    def _argument(self, expr: Expr, dtype: DType) -> str:
        """An argument of an overloaded function."""
        if self.c_type(expr) == dtype:
            return self.print(expr)
        if isinstance(expr, Const) and dtype.bits >= 32:
            return literal(expr.value, dtype)
        return f"({c_name(dtype)}){self._below(expr, _PRODUCT)}"

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
        if isinstance(cast.arg, Const) and not source.is_float and not (to.is_float and abs(cast.arg.value) > 2**53):
            return self._literal(_converted(int(cast.arg.value), to), to)
        if source == to or self._needs_no_cast(cast):
            return self._print(cast.arg)
        if source.is_float and to.is_integer:
            return self._from_float(cast)
        if to.kind is Kind.BOOL:
            return f"{self._below(cast.arg, _EQUALITY)} != 0", _EQUALITY
        return f"({c_name(to)}){self._below(cast.arg, _PRODUCT)}", _UNARY

    def _from_float(self, cast: Cast) -> tuple[str, int]:
        """Truncating, saturating conversion by a CUDA intrinsic; C's cast is undefined outside the type's range. The
        intrinsics convert NaN to 0, except from or to 64 bits, which need a helper."""
        source, to = cast.arg.dtype, cast.to
        wide = to if to.bits >= 32 else UINT32 if to.kind is Kind.UINT else INT32
        if source.bits == 64 or wide.bits == 64:
            text, _ = self._helper(f"to_{wide.name}", source, self.print(cast.arg))
        else:
            text = f"__float2{_FROM_FLOAT[wide.name]}_rz({self.print(cast.arg)})"
        return (text, _ATOM) if wide == to else (f"({c_name(to)}){text}", _UNARY)


def _confuses(inner: int, outer: int) -> bool:
    """Whether -Wparentheses warns about the nested operator."""
    if outer in (_AND, _XOR, _OR):
        return _PRODUCT <= inner != outer
    if outer in (_RELATION, _EQUALITY):
        return inner in (_RELATION, _EQUALITY)
    return (outer, inner) == (_EITHER, _BOTH)


def _common(a: DType, b: DType) -> DType:
    """C's usual arithmetic conversions of two integer operands."""
    wider = a if a.bits > b.bits else b
    if wider.bits < 32:
        return INT32
    if a.bits == b.bits:
        return a if a.kind is Kind.UINT else b
    return wider


def _widens_to(cast: Cast, dtype: DType) -> bool:
    """Whether the cast is implicit in an operation with the float type `dtype`."""
    source = cast.arg.dtype
    return cast.to == dtype and dtype.is_float and not (source.is_float and source.bits > dtype.bits)


def _converted(value: int, to: DType) -> int | float | bool:
    """An integer constant converted to another type."""
    if to.is_float:
        return float(value)
    if to.kind is Kind.BOOL:
        return value != 0
    value &= (1 << to.bits) - 1
    return value - (1 << to.bits) if value > to.highest else value
