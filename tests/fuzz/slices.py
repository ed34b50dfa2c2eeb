"""Draws statements that share out the elements of an output, each with an expression of its own: interleaved elements,
parts, planes, and sums over what is there already.

A spec is drawn from its seed alone: `python -m tests.fuzz --of slices --seed S --count 1` repeats it.
"""

from __future__ import annotations

from random import Random

from .drawing import BOUNDARIES, Drawing

_TYPES = ("float32", "float32", "float16", "bfloat16", "float64", "int32", "uint8", "int16")


def draw(seed: int) -> str:
    """The text of the spec of a seed."""
    return _drawing(seed).text()


def sizes(seed: int) -> dict[str, int]:
    """Values for its dynamic params."""
    return _drawing(seed).sizes_at_run_time()


def _drawing(seed: int) -> Drawing:
    d = Drawing(Random(f"slices {seed}"))
    d.is_dynamic = d.chance(20)
    _slices(d)
    return d


def _slices(d: Drawing) -> None:
    rows, columns = d.size(60), d.size(600)
    dtype, count = d.one_of(*_TYPES), d.one_of(2, 2, 3, 4)
    m, n = d.extent("M", rows), d.extent("N", columns)
    d.indices |= {"i": m, "j": n}
    shape, parts = d.one_of(
        ([m, f"{count} * {n}"], [f"i, {count} * j + {part}" for part in range(count)]),
        ([m, f"{count} * {n}"], [f"i, j + {part} * {n}" for part in range(count)]),
        ([m, f"{count} * {n}"], [f"i, {count} * {n} - 1 - j - {part} * {n}" for part in range(count)]),
        ([f"{count} * {m}", n], [f"{count} * i + {part}, j" for part in range(count)]),
        ([f"{count} * {m}", n], [f"i + {part} * {m}, j" for part in range(count)]),
        ([str(count), m, n], [f"{part}, i, j" for part in range(count)]),
        ([m, n, str(count)], [f"i, j, {part}" for part in range(count)]),
        ([m, n, str(count)], [f"i, {n} - 1 - j, {part}" for part in range(count)]),
        ([n, m, str(count)], [f"j, i, {part}" for part in range(count)]),
        ([n, str(count), m], [f"j, {part}, i" for part in range(count)]),
        ([f"{count} * {m} * {n}"], [f"{count} * ({n} * i + j) + {part}" for part in range(count)]),
    )
    boundary = d.one_of(*BOUNDARIES)
    d.array("x", [m, n], dtype, boundary=boundary)
    d.array("y", shape, dtype, is_output=True)
    names = ["x", "b"]
    for name in d.random.sample(("t", "u"), d.between(0, 2)):
        scan = " + cumsum(x[i, j], j)" if d.chance(10) else ""
        d.statements.append(f"{name}[i, j] = {_value(d, names)}{scan}")
        names.append(name)
    adds = d.one_of(0, 50, 100)
    for part in d.random.sample(parts, count):
        overwritten = f"y[{part}]" if d.chance(25) else ""
        d.statements.append(f"y[{part}] {'+=' if d.chance(adds) else '='} {_value(d, names, overwritten)}")
    for name in names[2:]:
        if not any(f"{name}[" in line.split("=", 1)[1] for line in d.statements):
            d.statements[-1] += f" + {name}[i, j]"
    if d.chance(30):
        d.array("z", [m, n], dtype, is_output=True)
        d.statements.append(f"z[i, j] = {_value(d, names)} + y[{d.one_of(*parts)}]")
    if any("b[j]" in line for line in d.statements):
        d.array("b", [n], dtype)


def _value(d: Drawing, names: list[str], overwritten: str = "") -> str:
    """An expression of elements, and of the one that is overwritten."""
    terms = ["x[i, j]"]
    for _ in range(d.between(0, 2)):
        reads = ["x[i, j]", "x[i, j - 1]", "x[i + 1, j + 2]", "b[j]", "x[i, 0]", "2"]
        reads += [f"{name}[i, j]" for name in names[2:]]
        terms.append(d.one_of(*reads))
    if d.chance(12):
        terms.append(d.one_of("max(x[i, k], k)", "sum(x[k, j], k)", "max(abs(x[i, k]), k)"))
    if overwritten:
        terms.append(overwritten)
    if d.chance(25):
        terms[0] = f"where({d.one_of('i % 2 == 0', 'j > 3', 'x[i, j] > 0')}, {terms[0]}, {d.one_of('1', 'b[j]')})"
    text = terms[0]
    for term in terms[1:]:
        text = f"{text} {d.one_of('+', '-')} {term}"
    return text
