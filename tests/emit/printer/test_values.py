"""Values in C: random typed trees, compiled in one program, against the reference's operators."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from cugen.emit.environment import environment
from cugen.emit.printer.ctypes import c_name
from cugen.emit.printer.functions import function_text
from cugen.emit.printer.values import ValuePrinter
from cugen.plan.memory import IndexLocal
from cugen.reference.integers import integer_operator
from cugen.reference.storage import cast, numpy_dtype
from cugen.spec.expressions import Cast, Const, Local, Op, ParamValue, Select
from cugen.spec.types import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT64

INTEGERS = tuple(t for t in DTYPES.values() if t.is_integer)
FLOATS = (FLOAT32, FLOAT64)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
# int64 values that C holds in an int, or in a long long where the range says so
INDICES = {"i": (0, 999), "j": (-3, 2**31 - 1), "big": (0, 2**40), "N": (1, 5000)}
WIDE = {"big"}


class Trees:
    """Random trees of the kind that plans hold: operands have their operator's type."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def tree(self, dtype, depth):
        if depth == 0 or self.random.random() < 0.15:
            return self.leaf(dtype)
        pick = self.random.random()
        if pick < 0.12:
            return Select(self.tree(BOOL, depth - 1), self.tree(dtype, depth - 1), self.tree(dtype, depth - 1), dtype)
        if pick < 0.3:
            return self.cast(dtype, depth)
        return self.operation(dtype, depth)

    def leaf(self, dtype):
        choose = self.random.choice
        if self.random.random() < 0.4:
            return Const(self.number(dtype), dtype)
        if dtype == INT64 and self.random.random() < 0.7:
            name = choose(tuple(INDICES))
            return ParamValue(name) if name == "N" else IndexLocal(name, INT64)
        return Local(f"{dtype.name}_{choose('ab')}", dtype)

    def number(self, dtype):
        choose = self.random.choice
        if dtype is BOOL:
            return choose((True, False))
        if dtype.is_float:
            value = choose((0.0, 1.0, -1.0, 0.5, 2.0, 1e10, -3.75, 1e-3, math.inf, -math.inf, math.nan, 16777217.0))
            return float(np.float32(value)) if dtype is FLOAT32 else value
        small = choose((0, 1, 2, 3, 7, 31, 33, 64, dtype.highest, dtype.lowest, dtype.highest - 1, -1, -2, -8))
        return max(small, dtype.lowest)

    def cast(self, dtype, depth):
        if dtype is FLOAT32 and self.random.random() < 0.2:
            return Cast(self.tree(FLOAT32, depth - 1), FLOAT16)
        sources = [t for t in (*INTEGERS, *FLOATS, BOOL) if t != dtype]
        source = self.random.choice(sources)
        return Cast(self.tree(source, depth - 1), dtype)

    def operation(self, dtype, depth):
        choose = self.random.choice

        def inner(of=dtype):
            return self.tree(of, depth - 1)

        if dtype is BOOL:
            name = choose((*COMPARISONS, *COMPARISONS, "and", "or", "not", "bitand", "bitor", "bitxor", "invert"))
            if name in COMPARISONS:
                of = choose((*INTEGERS, *FLOATS))
                return Op(name, (inner(of), inner(of)), BOOL)
            return Op(name, (inner(),) if name in ("not", "invert") else (inner(), inner()), BOOL)
        if dtype.is_float:
            names = ("add", "sub", "mul", "div", "neg", "abs", "sign", "maximum", "minimum", "floordiv", "fma")
            name = choose((*names, "floor", "ceil", "trunc", "round", "sqrt"))
            count = {"fma": 3}.get(name, 2 if name in (*names[:4], *names[7:10]) else 1)
            return Op(name, tuple(inner() for _ in range(count)), dtype)
        binary = ("add", "sub", "mul", "floordiv", "mod", "minimum", "maximum", "pow", "shl", "shr")
        name = choose((*binary, "add", "sub", "bitand", "bitor", "bitxor", "neg", "invert", "abs", "sign", "round"))
        unary = name in ("neg", "invert", "abs", "sign", "round")
        return Op(name, tuple(inner() for _ in range(1 if unary else 2)), dtype)


def meaning(expr, env):
    """The value as a NumPy scalar of its own type."""
    match expr:
        case Const(value=value, dtype=dtype):
            return numpy_dtype(dtype).type(value)
        case Local(name=name) | ParamValue(name=name):
            return env[name]
        case Cast(arg=arg, to=to):
            inner = np.asarray(meaning(arg, env))
            if inner.dtype == np.float32:
                inner = inner.astype(np.float64)
            return numpy_dtype(to.compute).type(cast(inner, to))
        case Select():
            return meaning(expr.then if meaning(expr.condition, env) else expr.orelse, env)
        case Op(name=name, args=args, dtype=dtype):
            result = _operator(name, [meaning(arg, env) for arg in args], args[0].dtype)
            return numpy_dtype(dtype).type(result)
    raise TypeError(expr)


def _operator(name, args, of):
    compared = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal}
    compared |= {"gt": np.greater, "ge": np.greater_equal}
    if name in compared:
        return compared[name](*args)
    if of is BOOL:
        logic = {"and": np.logical_and, "bitand": np.logical_and, "or": np.logical_or, "bitor": np.logical_or}
        logic |= {"bitxor": np.logical_xor, "not": np.logical_not, "invert": np.logical_not}
        return logic[name](*args)
    if not of.is_float:
        return integer_operator(name, [np.asarray(a) for a in args])
    real = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "neg": np.negative}
    real |= {"abs": np.abs, "sign": np.sign, "maximum": np.maximum, "minimum": np.minimum, "floor": np.floor}
    real |= {"ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sqrt": np.sqrt}
    if name == "floordiv":
        return np.floor(np.divide(*args))
    if name == "fma":
        return _fused(args, of)
    return real[name](*args)


def _fused(args, of):
    """Rounded once: exact in rationals where all is finite, else what the two steps give."""
    a, b, c = (float(arg) for arg in args)
    if not all(map(math.isfinite, (a, b, c))):
        return np.float64(a) * np.float64(b) + np.float64(c)
    from fractions import Fraction

    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    if of is FLOAT64:
        return np.float64(math.inf if exact > 0 else -math.inf) if abs(exact) >= 2**1024 else float(exact)
    return _to_single(exact)


def _to_single(exact):
    """The float32 nearest to a fraction, ties to even."""
    near = np.float32(float(exact)) if abs(exact) < 2**200 else np.float32(math.inf if exact > 0 else -math.inf)
    if not np.isfinite(near):
        return near
    from fractions import Fraction

    candidates = [np.nextafter(near, np.float32(-np.inf)), near, np.nextafter(near, np.float32(np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.uint32)) & 1))


def new_printer():
    return ValuePrinter(dict(INDICES), {}, {"N": "N"}, set(WIDE))


def parameters():
    """What every function of the program takes, and how its type is spelled."""
    kinds = {f"{t.name}_{x}": t for t in (*INTEGERS, *FLOATS, BOOL) for x in "ab"}
    spelled = {name: c_name(dtype) for name, dtype in kinds.items()}
    return kinds, spelled | {name: "long long" if name in WIDE else "int" for name in INDICES}


def environment_of(chooser):
    kinds, _ = parameters()
    trees = Trees(chooser.random())
    env = {name: numpy_dtype(dtype).type(trees.number(dtype)) for name, dtype in kinds.items()}
    return env | {
        name: np.int64(chooser.choice((low, high, chooser.randint(low, high)))) for name, (low, high) in INDICES.items()
    }


BITS = """
#include <cstdio>
#include <cstring>
template <typename T> static void show(T value) {
    unsigned long long bits = 0;
    if (value != value) bits = 1ull << 60 | 1;
    else std::memcpy(&bits, &value, sizeof value);
    std::printf("%llx\\n", bits);
}
"""


def bits_of(value):
    value = np.asarray(value)
    if value.dtype.kind == "f" and np.isnan(value):
        return 1 << 60 | 1
    return int.from_bytes(value.tobytes(), "little")


def literal_of(value):
    value = np.asarray(value)
    if value.dtype.kind != "f":
        return f"{int(value)}{'ULL' if value.dtype.kind == 'u' else 'LL'}" if int(value) != -(2**63) else "(1LL << 63)"
    if np.isnan(value):
        return '__builtin_nan("")'
    if np.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf()"
    return float(value).hex()


def test_a_choice_of_truth_values_is_a_conjunction_or_a_disjunction():
    a, b, c = (Local(name, BOOL) for name in "abc")
    either, both = Select(a, Const(True, BOOL), b, BOOL), Select(b, c, Const(False, BOOL), BOOL)
    assert [new_printer().print(expr) for expr in (either, both)] == ["a || b", "b && c"]
    assert new_printer().print(Select(a, Const(True, BOOL), both, BOOL)) == "a || (b && c)"


def test_the_least_int_is_an_int_in_c():
    """`-2147483648` is a `long`, for which `max` beside an int is ambiguous."""
    greater = Op("maximum", (Const(-(2**31), INT64), Const(7, INT64)), INT64)
    assert new_printer().print(greater) == "max((-2147483647 - 1), 7)"


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", [1, 2])
def test_random_trees_have_the_references_values(batch, seed):
    chooser, trees = random.Random(seed), Trees(seed)
    kinds, spelled = parameters()
    signature = ", ".join(f"{kind} {name}" for name, kind in spelled.items())
    printer = new_printer()
    functions, calls, expected, texts = [], [], [], []
    environments = [environment_of(chooser) for _ in range(3)]
    for number in range(260):
        expr = trees.tree(chooser.choice((*INTEGERS, *FLOATS, BOOL)), chooser.choice((1, 2, 3, 4)))
        text = printer.print(expr)
        texts.append(text)
        functions.append(f"static {c_name(expr.dtype)} f{number}({signature}) {{ return {text}; }}")
        for env_number, env in enumerate(environments):
            calls.append(f"show(f{number}(ENV{env_number}));")
            with np.errstate(all="ignore"):
                expected.append((number, env_number, bits_of(meaning(expr, env))))
    macros = [
        f"#define ENV{env_number} " + ", ".join(literal_of(env[name]) for name in spelled)
        for env_number, env in enumerate(environments)
    ]
    env = environment()
    helpers = [function_text(env, name, kind) for name, kind in sorted(printer.functions)]
    headers = [f"#include <{header}>" for header in sorted(printer.headers)]
    source = "\n".join([*headers, BITS, *macros, *helpers, *functions, "int main() {", *calls, "}"])
    output = batch(source, "-Werror=parentheses")
    assert len(output) == len(expected), output[-3:]
    for line, (number, env_number, bits) in zip(output, expected, strict=True):
        assert int(line, 16) == bits, f"{texts[number]} in environment {env_number}"
    assert kinds
