"""Property test: random statements of the whole language, run on the CPU device and compared with the reference."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, event, given, reject, settings
from hypothesis import strategies as st

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from cugen.spec.parse.keys import TEXTURE_TYPES
from tests.drawn import examples

FLOATS = ("float32", "float32", "float64", "float16", "bfloat16", "float8_e4m3", "float8_e5m2")
INTEGERS = ("int32", "int32", "int64", "int8", "uint8", "int16", "uint16", "uint32", "uint64")
SIZES = (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33)
BOUNDARIES = ("zero", "clamp", "wrap", "reflect", "symmetric", "{value: 3}", "{value: 0}")
MAX_SHARED_ELEMENTS = 800  # elements of an input that is staged whole
MAX_OUTPUT_ELEMENTS = 20_000  # of an output
TARGETED = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


@dataclass
class Array:
    """A drawn array; `extents` are names of params."""

    name: str
    kind: str  # float, int, bool, or ids for subscripts
    extents: tuple[str, ...]
    bounded: bool = False
    text: str = ""


@dataclass
class Drawing:
    """One spec under construction: `free` maps the indices in scope to their extents."""

    draw: st.DrawFn
    sizes: dict[str, int]
    inputs: list[Array] = field(default_factory=list)
    temporaries: list[Array] = field(default_factory=list)
    free: dict[str, str] = field(default_factory=dict)
    scanned: str = ""
    bound: dict[str, str] = field(default_factory=dict)

    def one_of(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    # Reads

    def subscript(self, array: Array, extent: str) -> str:
        """A subscript in bounds, or any subscript if the array has a boundary."""
        index = self.one_of(*self.free) if self.free else "0"
        bare = [name for name, runs_to in self.free.items() if runs_to == extent]
        if bare and self.chance(65):
            return self.one_of(*bare)
        gathers = [ids for ids in self.inputs if ids.kind == "ids" and ids.extents[0] in self.free.values()]
        if array.bounded:
            shift, factor = self.draw(st.integers(-4, 4)), self.draw(st.integers(1, 3))
            forms = [f"{index} + {shift}" if shift >= 0 else f"{index} - {-shift}", f"{factor} * {index} - {shift + 5}"]
            forms += [f"{extent} - 2 - {index}", f"({index} + 1) // {factor}", "-1", f"({index} - {shift + 5}) / 2"]
            if gathers:
                ids = self.one_of(*(g.name for g in gathers))
                ids_index = next(
                    n for n, e in self.free.items() if e == next(g for g in gathers if g.name == ids).extents[0]
                )
                forms += [f"{ids}[{ids_index}] + {index}", f"2 * {ids}[{ids_index}] - 3"]
            return self.one_of(*forms)
        if bare and self.chance(40):
            return f"{extent} - 1 - {self.one_of(*bare)}"
        return self.one_of(f"({index} * 3 + 1) % {extent}", f"({index} - 7) % {extent}", "0", f"{extent} - 1")

    def read(self, kind: str) -> str | None:
        arrays = [array for array in (*self.inputs, *self.temporaries) if array.kind == kind]
        if not arrays:
            return None
        array = self.draw(st.sampled_from(arrays))
        if not array.extents:
            return array.name
        return f"{array.name}[{', '.join(self.subscript(array, extent) for extent in array.extents)}]"

    # Expressions

    def number(self, depth: int) -> str:
        """A floating-point value, of moderate size unless it is a sum of many."""
        if depth <= 0 or self.chance(15):
            return self.read("float") or self.one_of("0.5", "2", "-1.25", "0.1")
        a = self.number(depth - 1)
        form = self.draw(st.integers(0, 15))
        match form:
            case 0 | 1 | 2:
                return f"({a} {self.one_of('+', '-', '*')} {self.number(depth - 1)})"
            case 3:
                return f"{a} / ({self.number(depth - 1)} ** 2 + 0.5)"
            case 4:
                return f"{self.one_of('maximum', 'minimum')}({a}, {self.number(depth - 1)})"
            case 5:
                name = self.one_of("sin", "tanh", "abs", "sigmoid", "relu", "gelu", "softplus", "atan", "floor", "sign")
                return f"{name}({a})"
            case 6:
                return f"where({self.condition(depth - 1)}, {a}, {self.number(depth - 1)})"
            case 7:
                return f"({a} if {self.condition(depth - 1)} else {self.one_of('0', '1.5', '-inf')})"
            case 8:
                return f"({a} * {self.integer(depth - 1, small=True)})"
            case 9:
                return f"cast({a}, {self.one_of('float16', 'bfloat16', 'float32', 'float64')})"
            case 10:
                return f"exp(-abs({a})) + sqrt(abs({self.number(depth - 1)}))"
            case 11 | 12 | 13:
                return self.reduction(depth - 1)
            case 14 if self.scanned:
                return self.scan(depth - 1)
            case _:
                return f"fma({a}, 0.5, {self.number(depth - 1)})"

    def integer(self, depth: int, *, small: bool = False) -> str:
        """An integer value; a small one is an index, a param or a narrow element."""
        leaves = [*self.free, *self.sizes, "3", "-2"]
        if small or depth <= 0:
            return (not small and self.chance(60) and self.read("int")) or self.one_of(*leaves)
        a, b = self.integer(depth - 1), self.integer(depth - 1)
        match self.draw(st.integers(0, 7)):
            case 0 | 1:
                return f"({a} {self.one_of('+', '-', '*')} {b})"
            case 2:
                return f"({a} {self.one_of('//', '%')} {b})"
            case 3:
                return f"({a} {self.one_of('&', '|', '^', '<<', '>>')} {b})"
            case 4:
                return f"{self.one_of('abs', 'sign', '-', '~')}({a})"
            case 5:
                return f"({a} if {self.condition(depth - 1)} else {b})"
            case 6:
                return self.counted(depth - 1)
            case _:
                return f"{self.one_of('maximum', 'minimum')}({a}, {b})"

    def condition(self, depth: int) -> str:
        index = self.one_of(*self.free) if self.free else "3"
        match self.draw(st.integers(0, 6)):
            case 0 | 1:
                return f"{index} {self.one_of('<', '<=', '>', '>=', '==', '!=')} {self.draw(st.integers(0, 9))}"
            case 2:
                return f"{index} % 3 != 1"
            case 3:
                return self.read("bool") or f"{index} > 1"
            case 4 if depth > 0:
                return f"({self.condition(depth - 1)} {self.one_of('and', 'or')} {self.condition(depth - 1)})"
            case 5:
                return f"not {index} + {self.one_of(*self.free, '1')} > 6"
            case _:
                return f"{self.number(depth - 1)} > {self.one_of('0', '0.25')}"

    def over(self) -> tuple[str, str]:
        """A new bound index, and a condition on its terms."""
        name, extent = f"r{len(self.bound)}", self.one_of(*self.sizes)
        outer = self.one_of(*self.free) if self.free else "2"
        self.free[name] = self.bound[name] = extent
        where = ""
        if self.chance(45):
            forms = [f"{name} <= {outer}", f"{name} > {outer} - 2", f"{name} + {outer} < {extent}", f"{name} % 2 == 0"]
            forms += [f"{name} >= {outer} - 1 and {name} <= {outer} + 2", self.condition(1), f"{outer} > 0"]
            where = f", where={self.one_of(*forms)}"
        return name, where

    def reduction(self, depth: int) -> str:
        name, where = self.over()
        kind = self.one_of("sum", "sum", "max", "min", "mean", "norm", "prod")
        term = self.number(depth) if kind != "prod" else f"(1 + {self.number(min(depth, 1))} / 8)"
        del self.free[name]
        return f"{kind}({term}, {name}{where})"

    def counted(self, depth: int) -> str:
        name, where = self.over()
        kind = self.one_of("sum", "max", "min", "argmax", "argmin", "count")
        if kind == "count":
            text = f"sum({self.condition(depth)}, {name}{where})"
        elif kind.startswith("arg"):
            text = f"{kind}({self.integer(min(depth, 1))}, {name})"
        else:
            text = f"{kind}({self.integer(depth)}, {name}{where})"
        del self.free[name]
        return text

    def scan(self, depth: int) -> str:
        kind = self.one_of("cumsum", "cummax", "cummin")
        scanned, self.scanned = self.scanned, ""
        flags = [flag for flag in ("exclusive=true", "reverse=true") if self.chance(30)]
        if self.chance(25):
            flags.append(f"where={self.condition(0)}")
        text = f"{kind}({', '.join([self.number(depth), scanned, *flags])})"
        self.scanned = scanned
        return text

    def value(self, kind: str, depth: int) -> str:
        return {"float": self.number, "int": self.integer, "bool": self.condition}[kind](depth)

    # Declarations

    def shape(self, max_rank: int) -> tuple[str, ...]:
        return tuple(self.one_of(*self.sizes) for _ in range(self.draw(st.integers(0, max_rank))))

    def dtype(self, kind: str) -> str:
        return {"float": self.one_of(*FLOATS), "int": self.one_of(*INTEGERS), "bool": "bool"}[kind]

    def layout(self, extents: tuple[str, ...]) -> str:
        if len(extents) < 2 or self.chance(70):
            return ""
        return ", " + self.one_of("layout: column", f"pitch: {self.sizes[extents[-1]] + 3}", "pitch: {align: 64}")

    def memory(self, array: Array) -> str:
        elements = 1
        for extent in array.extents:
            elements *= self.sizes[extent]
        spaces = ["", "", "global", "readonly", "texture", "constant"]
        if elements <= MAX_SHARED_ELEMENTS:
            spaces += ["shared", "{space: shared, pad: 1}", "{space: shared, dynamic: true}"]
        spaces += ["register"] * (elements <= 16)
        return self.one_of(*spaces)

    def declare(self, number: int, kind: str, dynamic: frozenset[str]) -> Array:
        array = Array(f"in{number}", kind, self.shape(3), self.chance(60))
        memory = "" if dynamic & set(array.extents) else self.memory(array)
        dtype = self.dtype(kind)
        if memory == "texture" and dtype not in TEXTURE_TYPES:
            memory = "readonly"
        layout = self.layout(array.extents) if memory in ("", "global", "readonly", "texture") else ""
        boundary = f", boundary: {self.one_of(*BOUNDARIES)}" if array.bounded and array.extents else ""
        if kind == "bool" and boundary:
            boundary = ", boundary: zero"
        placement = f", memory: {memory}" if memory else ""
        array.bounded = bool(boundary)
        shape = ", ".join(array.extents)
        array.text = f"  {array.name}: {{shape: [{shape}], dtype: {dtype}{layout}{boundary}{placement}}}"
        return array

    def domain(self, number: int) -> list[str]:
        """The indices of a left side; the first statement may have up to four."""
        names: list[str] = []
        self.free = {}
        points = 1
        for letter in "ijkl"[: self.draw(st.integers(0, 4) if number == 0 else st.integers(1, 2))]:
            extent = self.one_of(*self.sizes)
            points *= self.sizes[extent]
            if points > MAX_OUTPUT_ELEMENTS:
                break
            names.append(f"{letter}{number}")
            self.free[names[-1]] = extent
        return names

    def product(self) -> tuple[list[str], str, str]:
        """Two matrices in any order of their indices, what is declared of the result, its statement and schedule."""
        m, n, k = (self.one_of(*self.sizes) for _ in range(3))
        kind = self.one_of("float", "float", "int")
        left, right = self.one_of("i, k", "k, i"), self.one_of("k, j", "j, k")
        extents = {"i": m, "j": n, "k": k}
        arrays = []
        for name, order in (("left", left), ("right", right)):
            shape = tuple(extents[index] for index in order.split(", "))
            space = self.one_of("shared", "{space: shared, pad: 1}", "{space: shared, dynamic: true}")
            memory = f", memory: {space}" if self.chance(50) else ""
            layout = "" if memory else self.layout(shape)
            arrays.append(f"  {name}: {{shape: [{', '.join(shape)}], dtype: {self.dtype(kind)}{layout}{memory}}}")
        after = self.one_of("", " * 2", " + i * 3", " - j") if kind == "int" else self.one_of("", " / 3", " * i - j")
        statement = f"result[i, j] = sum(left[{left}] * right[{right}], k){after}"
        schedule = ""
        if self.chance(60):
            rows, columns = self.draw(st.sampled_from((1, 2, 4))), self.draw(st.sampled_from((1, 3)))
            block = f"block: {{i: {rows * self.draw(st.sampled_from((4, 8)))}, j: {columns * 16}}}"
            step = self.draw(st.sampled_from((4, 7, 16)))
            schedule = f"  result: {{{block}, thread: {{i: {rows}, j: {columns}}}, step: {{k: {step}}}}}"
        declared = f"  result: {{shape: [{m}, {n}], dtype: {self.dtype(kind)}{self.layout((m, n))}}}"
        return [*arrays, declared], statement, schedule


@st.composite
def specs(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """The text of a spec with a few statements, and the values of its dynamic params."""
    d = Drawing(draw, {name: draw(st.sampled_from(SIZES)) for name in ("A", "B", "C")})
    dynamic = {name: size for name, size in d.sizes.items() if d.chance(20)}
    for number in range(draw(st.integers(2, 4))):
        d.inputs.append(d.declare(number, d.one_of("float", "float", "int", "bool"), frozenset(dynamic)))
    if d.chance(40):
        extent, dtype = d.one_of(*d.sizes), d.one_of("int32", "int64", "uint8", "uint32")
        d.inputs.append(Array("ids", "ids", (extent,), text=f"  ids: {{shape: [{extent}], dtype: {dtype}}}"))
    outputs: list[str] = []
    statements: list[str] = []
    schedules: list[str] = []
    for number in range(draw(st.integers(1, 3))):
        domain = d.domain(number)
        d.scanned = d.one_of(*domain) if domain and d.chance(30) else ""
        kind = d.one_of("float", "float", "int", "bool")
        extents = tuple(d.free.values())
        subscripts = f"[{', '.join(domain)}]" if domain else ""
        if domain and d.chance(30):
            d.bound |= d.free  # the indices of a temporary need declared extents
            statements.append(f"t{number}{subscripts} = {d.number(2)}")
            d.temporaries.append(Array(f"t{number}", "float", extents))
            statements.append(f"out{number}{subscripts} = t{number}{subscripts} * 2 + {d.number(2)}")
            kind = "float"
        else:
            added = "+=" if kind != "bool" and d.chance(20) else "="
            statements.append(f"out{number}{subscripts} {added} {d.value(kind, 3)}")
        shape = ", ".join(extents)
        outputs.append(f"  out{number}: {{shape: [{shape}], dtype: {d.dtype(kind)}{d.layout(extents)}}}")
        if domain and d.chance(40):
            sizes = ", ".join(f"{name}: {draw(st.sampled_from((1, 2, 3, 4, 8)))}" for name in domain[-2:])
            schedules.append(f"  out{number}: {{family: direct, block: {{{sizes}}}}}")
    if d.chance(25):
        declared, statement, schedule = d.product()
        outputs += declared
        statements.append(statement)
        schedules += [schedule] if schedule else []
    text = "\n".join(statements)
    inputs = [array.text for array in d.inputs if re.search(rf"\b{array.name}\b", text)]
    params = [f"{n}: {{range: [1, 64]}}" if n in dynamic else f"{n}: {size}" for n, size in d.sizes.items()]
    lines = ["cugen: 1", "kernel: drawn", f"params: {{{', '.join(params)}}}"]
    bound = [f"{name}: {extent}" for name, extent in d.bound.items() if re.search(rf"\b{name}\b", text)]
    if bound:
        lines.append(f"indices: {{{', '.join(bound)}}}")
    lines += ["arrays:", *inputs, *outputs, "compute: |", *(f"  {line}" for line in statements)]
    if schedules:
        lines += ["schedule:", *schedules]
    return "\n".join(lines) + "\n", dynamic


def agrees(drawn: tuple[str, dict[str, int]]) -> None:
    text, params = drawn
    try:
        (spec,) = load_text(text)
        kernel = generate(spec, analysis=False)
    except SpecError as error:
        event(f"refused: {error.diagnostics[0].code}")
        reject()
    event("run")
    run = verify(spec, kernel.source, kernel.manifest, CpuDevice(), params=params)
    assert run.verification.passed, "\n".join([text, *run.verification.messages, kernel.source])


@settings(TARGETED, max_examples=examples(5))
@given(specs())
def test_drawn_statements_agree_with_the_reference(drawn: tuple[str, dict[str, int]]) -> None:
    agrees(drawn)


@pytest.mark.slow
@settings(TARGETED, max_examples=100)
@given(specs())
def test_many_drawn_statements_agree_with_the_reference(drawn: tuple[str, dict[str, int]]) -> None:
    agrees(drawn)
