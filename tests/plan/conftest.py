"""Fixtures: small specs, their plans, and kernels as lines of text for comparison."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cugen.plan.kernel import Kernel, Plan
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import (
    Accumulate,
    Assign,
    Barrier,
    Comment,
    Copy,
    Declare,
    Define,
    For,
    Guard,
    If,
    Let,
    Load,
    ReturnUnless,
    Store,
)
from cugen.plan.traversal.sections import dissolved
from cugen.schedule.planner import make_plan
from cugen.spec.expressions import Cast, Const, Local, Op, ParamValue, ScalarValue, Select
from cugen.spec.load import load_text
from cugen.spec.model import Spec

MakeSpec = Callable[..., Spec]


@pytest.fixture(scope="session")
def make_spec() -> MakeSpec:
    """Statements over arrays given as `"8, 8; float32; boundary: zero"`; `top` holds more lines of the document.

    The family is `direct`, unless `family` names another; "" leaves the choice to the planner."""

    def make(block: str, *, top: str = "", family: str = "direct", **arrays: str) -> Spec:
        lines = ["cugen: 1", "kernel: tried", *top.splitlines(), "arrays:"]
        for name, text in arrays.items():
            shape, dtype, *more = text.split("; ") if ";" in text else (text, "float32")
            extra = f", {more[0]}" if more else ""
            lines.append(f"  {name}: {{shape: [{shape}], dtype: {dtype}{extra}}}")
        lines += ["compute: |", *(f"  {line.strip()}" for line in block.strip().splitlines())]
        if family and "schedule:" not in top:
            lines.append(f"schedule: {{family: {family}}}")
        (spec,) = load_text("\n".join(lines) + "\n")
        return spec

    return make


@pytest.fixture(scope="session")
def make(make_spec: MakeSpec) -> Callable[..., Plan]:
    """The plan of such a spec."""
    return lambda block, **more: make_plan(make_spec(block, **more))


@pytest.fixture(scope="session")
def body(make: Callable[..., Plan]) -> Callable[..., list[str]]:
    """The body of such a spec's only kernel as text, after the guard that returns from idle threads."""

    def sketched(block: str, **more: str) -> list[str]:
        (kernel,) = make(block, **more).kernels
        names = [section.name for section in kernel.sections]
        return sketch(dissolved(kernel.sections[names.index("coordinates") + 1 :]))

    return sketched


@pytest.fixture(scope="session")
def lines() -> Callable[[Kernel], list[str]]:
    """A whole kernel, sketched."""
    return lambda kernel: sketch(kernel.body)


def sketch(nodes: tuple, indent: str = "") -> list[str]:
    """The nodes as text, one line per node, nested nodes indented; independent of the C printer."""
    printed: list[str] = []
    for node in nodes:
        printed += [indent + line for line in _lines(node)]
    return printed


def _lines(node: object) -> list[str]:
    match node:
        case Define(index=index):
            return [f"{index.name} := {index.definition}"]
        case Let(local=local, value=value):
            return [f"let {local.name} = {_value(value)}" if value is not None else f"let {local.name}"]
        case Load(local=local, access=access, guard=None):
            return [f"load {local.name} = {_element(access)}"]
        case Load(local=local, access=access, guard=guard, otherwise=otherwise):
            return [f"load {local.name} = {_element(access)} if {_guard(guard)} else {_value(otherwise)}"]
        case Store(access=access, value=value):
            return [f"store {_element(access)} = {_value(value)}"]
        case Accumulate(access=access, value=value):
            return [f"{_element(access)} += {_value(value)}"]
        case Copy(target=target, source=source, guard=guard):
            return [f"copy {_element(target)} = {_element(source)}" + (f" if {_guard(guard)}" if guard else "")]
        case Assign(local=local, value=value):
            return [f"{local.name} = {_value(value)}"]
        case For(loop=loop, body=body):
            step = f" by {loop.step}" if loop.step != 1 else ""
            kind = " unrolled" if loop.unroll else " downward" if loop.downward else ""
            return [f"for {loop.index.name} in {loop.start} .. {loop.stop}{step}{kind}", *sketch(body, "  ")]
        case If(condition=condition, then=then, orelse=orelse):
            test = _guard(condition) if isinstance(condition, Guard) else _value(condition)
            orelse_lines = ["else", *sketch(orelse, "  ")] if orelse else []
            return [f"if {test}", *sketch(then, "  "), *orelse_lines]
        case ReturnUnless(guard=guard):
            return [f"return unless {_guard(guard)}"]
        case Barrier():
            return ["barrier"]
        case Declare(array=array):
            return [f"declare {array.space} {array.symbol}{[str(e) for e in array.padded_shape]}".replace("'", "")]
        case Comment(text=text):
            return [f"# {text}"]
    raise TypeError(node)


def _element(access: Access) -> str:
    return f"{access.array.symbol}[{', '.join(map(str, access.subscripts))}]"


def _guard(guard: Guard) -> str:
    return " and ".join(f"{term.left} {term.operator} {term.right}" for term in guard.terms)


def _value(value: object) -> str:
    match value:
        case Element(access=access):
            return _element(access)
        case Local(name=name) | ParamValue(name=name) | ScalarValue(name=name):
            return name
        case Const(value=number):
            return str(number)
        case Cast(arg=arg, to=to):
            return f"{to}({_value(arg)})"
        case Select(condition=condition, then=then, orelse=orelse):
            return f"({_value(condition)} ? {_value(then)} : {_value(orelse)})"
        case Op(name=name, args=args):
            return f"{name}({', '.join(map(_value, args))})"
    raise TypeError(value)
