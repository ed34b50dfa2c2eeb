"""What a drawn spec computes: the operators of the language, each at random sizes and in one of its spellings."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from .drawing import BOUNDARIES, FLOATS, INTEGERS, Drawing
from .mixtures import gathered, mixture, positions
from .names import renamed

SPATIAL = ("i", "j", "k")
TAPS = ("r", "s", "t")
MAX_TAPS = 400  # of one window


def draw(seed: int) -> str:
    """The text of the spec of a seed."""
    return _drawing(seed).text()


def sizes(seed: int) -> dict[str, int]:
    """Values for its dynamic params."""
    return _drawing(seed).sizes_at_run_time()


def _drawing(seed: int) -> Drawing:
    drawing = Drawing(Random(seed))
    drawing.is_dynamic = drawing.chance(25)
    operator = drawing.one_of(*OPERATORS)
    (surroundings if seed % 16 == 9 else operator)(drawing)
    if seed % 3 == 0:
        names = Random(f"names {seed}")
        drawing.statements, drawing.indices = renamed(drawing.statements, drawing.indices, drawing.names, names)
    return drawing


def _float_of(dtype: str) -> str:
    return dtype if dtype in FLOATS else "float32"


def pooling(d: Drawing) -> None:
    """Windows of any rank, stride and dilation, with and without boundary: sums, means, maxima, weights."""
    rank = d.one_of(1, 1, 2, 2, 2, 3)
    dtype = d.dtype()
    outer = d.sizes(d.between(0, 2), 1 << 10)
    inner = d.sizes(rank, (1 << 27) // max(1, math.prod(outer)))
    names = [*("n", "c")[: len(outer)], *SPATIAL[:rank]]
    limit = {1: 40, 2: 13, 3: 6}[rank]
    taps = [d.between(1, limit) for _ in inner]
    strides = [d.one_of(1, 1, 1, 2, 3, 4, 5, 6, 7, 11) for _ in inner]
    dilations = [d.one_of(1, 1, 1, 2, 3, 4) for _ in inner]
    boundary = d.one_of(*BOUNDARIES) if d.chance(50) and not d.is_dynamic else ""
    shape = [d.extent(name.upper(), size) for name, size in zip(names, (*outer, *inner), strict=True)]
    reads, extents = list(names[: len(outer)]), list(shape[: len(outer)])
    for n, (size, count, stride, dilation) in enumerate(zip(inner, taps, strides, dilations, strict=True)):
        tap, name, reach = TAPS[n], SPATIAL[n], dilation * (count - 1)
        d.indices[tap] = str(count)
        scaled = name if stride == 1 else f"{stride} * {name}"
        stepped = tap if dilation == 1 else f"{dilation} * {tap}"
        pad = d.between(0, reach) if boundary else 0
        if boundary in ("reflect", "symmetric", "wrap", "clamp") and stride * size <= reach + 1:
            boundary = "zero"
        reads.append(f"{scaled} + {stepped}" + (f" - {pad}" if pad else ""))
        extent = shape[len(outer) + n]
        extents.append(
            (extent if stride == 1 else f"{stride} * {extent}") + ("" if boundary or not reach else f" + {reach}")
        )
    d.array("x", extents, dtype, boundary=boundary)
    element = f"x[{', '.join(reads)}]"
    bound = ", ".join(TAPS[:rank])
    form = d.between(0, 3)
    if form == 0:
        d.array("w", [str(count) for count in taps], dtype)
        value, to = f"sum({element} * w[{bound}], {bound})", dtype
    elif form == 1 and dtype in FLOATS:
        value, to = f"mean({element}, {bound})", dtype
    else:
        value, to = f"{d.one_of('sum', 'max', 'min')}({element}, {bound})", dtype
    d.array("y", shape, to, is_output=True)
    d.statements.append(f"y[{', '.join(names)}] = {_stored(value, to)}")


def _stored(value: str, dtype: str) -> str:
    """A value as it may be stored into a type: integers narrower than int32 need a cast."""
    return value if dtype in FLOATS or dtype.startswith("float8") else f"cast({value}, {dtype})"


def convolution(d: Drawing) -> None:
    """Convolutions over channels: dense, grouped, depthwise, with a bias or an activation."""
    rank = d.one_of(1, 2, 2, 3)
    dtype = d.float_dtype()
    groups = d.one_of(1, 1, 1, 2, 3, 4, 8)
    c, f = groups * d.one_of(1, 2, 3, 4, 8, 16, 33), groups * d.one_of(1, 2, 3, 5, 8, 16)
    n = d.one_of(1, 1, 2, 8)
    sides = [d.size({1: 1 << 16, 2: 600, 3: 64}[rank]) for _ in range(rank)]
    taps = [d.one_of(1, 2, 3, 3, 3, 5, 7) if rank < 3 else d.one_of(1, 2, 3, 4) for _ in sides]
    strides = [d.one_of(1, 1, 1, 2, 3) for _ in sides]
    dilations = [d.one_of(1, 1, 1, 2, 3) for _ in sides]
    names, bound = SPATIAL[:rank], TAPS[:rank]
    out = [d.extent(name.upper(), size) for name, size in zip(names, sides, strict=True)]
    d.params.update({"G": groups} if groups > 1 else {})
    channels, filters = d.extent("C", c, groups), d.extent("F", f, groups)
    batch = d.extent("N", n)
    if groups > 1 and d.dynamic:
        for name in ("C", "F"):
            d.dynamic.pop(name, None)
    reads, extents = [], []
    for name, tap, count, stride, dilation, extent in zip(names, bound, taps, strides, dilations, out, strict=True):
        d.indices[tap] = str(count)
        reads.append(f"{stride} * {name} + {dilation} * {tap} - {dilation * (count // 2)}")
        extents.append(f"{stride} * {extent}")
    d.array("x", [batch, channels, *extents], dtype, boundary="zero")
    per_group = channels if groups == 1 else f"{channels} // G"
    d.array("w", [filters, per_group, *map(str, taps)], dtype)
    d.array("y", [batch, filters, *out], dtype, is_output=True)
    channel = "c" if groups == 1 else f"f // ({filters} // G) * ({channels} // G) + c"
    d.indices["c"] = per_group
    value = f"sum(x[n, {channel}, {', '.join(reads)}] * w[f, c, {', '.join(bound)}], c, {', '.join(bound)})"
    if d.chance(30):
        d.array("b", [filters], dtype)
        value = f"relu({value} + b[f])"
    d.statements.append(f"y[n, f, {', '.join(names)}] = {value}")


def transposed_convolution(d: Drawing) -> None:
    """Each output sums the inputs that a stride maps to it: reads at exact quotients."""
    rank = d.one_of(1, 2, 2, 3)
    dtype = d.float_dtype()
    groups = d.one_of(1, 1, 2, 4)
    c, f = groups * d.one_of(1, 2, 3, 8), groups * d.one_of(1, 2, 4, 5)
    sides = [d.size({1: 1 << 14, 2: 200, 3: 30}[rank]) for _ in range(rank)]
    stride, count = d.one_of(1, 2, 2, 3, 4), d.one_of(1, 2, 3, 4, 5)
    names, bound = SPATIAL[:rank], TAPS[:rank]
    d.params |= {"G": groups, "C": c, "F": f}
    d.array("x", ["C", *map(str, sides)], dtype, boundary="zero")
    d.array("w", ["C", "F // G", *(str(count) for _ in sides)], dtype)
    outs = [d.extent(name.upper(), stride * (size - 1) + count) for name, size in zip(names, sides, strict=True)]
    for name in list(d.dynamic):
        del d.dynamic[name]
    d.array("y", ["F", *outs], dtype, is_output=True)
    d.indices |= dict.fromkeys(bound, str(count)) | {"c": "C // G"}
    reads = ", ".join(f"({name} - {tap}) / {stride}" for name, tap in zip(names, bound, strict=True))
    channel = "f // (F // G) * (C // G) + c"
    value = f"sum(x[{channel}, {reads}] * w[{channel}, f % (F // G), {', '.join(bound)}], c, {', '.join(bound)})"
    d.statements.append(f"y[f, {', '.join(names)}] = {value}")


def product(d: Drawing) -> None:
    """GEMMs in every layout, batched and not, with operands and results that are computed."""
    m, n, k = (d.one_of(d.size(8192), d.size(64), d.between(1, 8)) for _ in range(3))
    a_type = d.one_of(*FLOATS, *FLOATS, "int8", "float8_e4m3")
    to = "int32" if a_type == "int8" else _float_of(a_type)
    batch = d.sizes(d.one_of(0, 0, 0, 1, 1, 2), max(1, (1 << 28) // max(m * k, k * n, m * n)))
    batch = [min(size, 5000) for size in batch]
    outer = ["b", "h"][: len(batch)]
    em, en, ek = d.extent("M", m), d.extent("N", n), d.extent("K", k)
    batches = [d.extent(f"{name}s", size) for name, size in zip(outer, batch, strict=True)]
    order = d.one_of(("m, k", "k, n"), ("m, k", "n, k"), ("k, m", "k, n"), ("k, m", "n, k"))
    extents = {"m": em, "n": en, "k": ek}
    operands = []
    for name, subscripts in zip("AB", order, strict=True):
        has_batch = bool(batch) and not (name == "B" and d.chance(25))
        parts = [*(outer if has_batch else []), *subscripts.split(", ")]
        shape = [*(batches if has_batch else []), *(extents[part] for part in subscripts.split(", "))]
        d.array(name, shape, a_type)
        operands.append(f"{name}[{', '.join(parts)}]")
    form = d.between(0, 9)
    a, b = operands
    if form == 0 and to != "int32":
        a = f"relu({a})"
    elif form == 1:
        group = d.one_of(2, 3, 4, 32)
        d.array("s", [em, f"({ek} + {group - 1}) // {group}"], to)
        a = f"({a} * s[m, k // {group}])"
    elif form == 2:
        d.statements.append(f"t[{', '.join([*outer, 'm', 'k'])}] = {a} * 2")
        a = f"t[{', '.join([*outer, 'm', 'k'])}]"
        if len(d.arrays[0].split("shape: [")[1].split("]")[0].split(", ")) != len(outer) + 2:
            d.statements.pop()
            a = operands[0]
    where = f", where={d.one_of('k <= m', 'k % 2 == 0', 'k >= n')}" if form == 3 and k > 1 else ""
    value = f"sum({a} * {b}, k{where})"
    if form == 4:
        d.array("bias", [en], to)
        value = f"{value} + bias[n]"
    elif form == 5 and to != "int32":
        value = f"silu({value}) * 0.5"
    elif form == 6:
        value = f"{value} + sum({b}, k)"
    d.array("y", [*batches, em, en], to, is_output=True)
    d.statements.append(f"y[{', '.join([*outer, 'm', 'n'])}] {d.one_of('=', '=', '=', '+=')} {value}")


def projections(d: Drawing) -> None:
    """Several sums over the same operand: statements of their own, or one that combines them."""
    m, n, k = (d.one_of(d.size(4096), d.size(64)) for _ in range(3))
    dtype = d.float_dtype()
    em, en, ek = d.extent("M", m), d.extent("N", n), d.extent("K", k)
    x, weights = d.array("x", [em, ek], dtype), [f"w{number}" for number in range(d.between(2, 3))]
    shape, subscripts = d.one_of(([ek, en], "k, n"), ([en, ek], "n, k"))
    sums = [f"sum({x}[m, k] * {d.array(name, shape, dtype)}[{subscripts}], k)" for name in weights]
    if d.chance(40):
        for number, value in enumerate(sums):
            d.array(f"y{number}", [em, en], dtype, is_output=True)
            d.statements.append(f"y{number}[m, n] = {value}")
        return
    d.array("y", [em, en], dtype, is_output=True)
    norms = f"norm({x}[m, k], k) * norm({weights[0]}[{subscripts}], k)"
    value = d.one_of(" * ".join([f"silu({sums[0]})", *sums[1:]]), f"{' + '.join(sums)} / ({norms} + 1e-6)")
    d.statements.append(f"y[m, n] = {value}")


def pairs(d: Drawing) -> None:
    """Reductions over elements that several results share: distances, forces, histograms, convolutions of vectors."""
    n, m = d.size(20_000), d.size(20_000)
    dtype = d.float_dtype()
    en, em = d.extent("N", n), d.extent("M", m)
    form = d.between(0, 3)
    if form == 0:
        d.array("c", [f"{en} + {em}"], dtype)
        value = f"sum(c[i - j + {em}] * {d.array('z', [em], dtype)}[j], j)"
    elif form == 1:
        d.array("z", [em], d.one_of("uint8", "int32"))
        value = "sum(1.0 if z[j] == i else 0.0, j)"
    else:
        rank = d.between(1, 3)
        d.array("x", [en, str(rank)], dtype)
        d.array("z", [em, str(rank)], dtype)
        distance = " + ".join(f"(x[i, {n}] - z[j, {n}]) ** 2" for n in range(rank))
        value = d.one_of(
            f"sum(exp(-({distance})), j)", f"min({distance}, j)", f"sum(sqrt({distance}), j, where=i != j)"
        )
    d.array("y", [en], dtype, is_output=True)
    d.statements.append(f"y[i] = {value}")


def reduction(d: Drawing) -> None:
    """Sums, extremes and statistics over any of the dimensions of an array."""
    rank = d.between(1, 4)
    sizes = d.sizes(rank)
    names = list("nmij"[:rank])
    shape = [d.extent(name.upper(), size) for name, size in zip(names, sizes, strict=True)]
    dtype = d.dtype()
    bound = sorted(d.random.sample(names, d.between(1, rank)))
    kept = [name for name in names if name not in bound]
    d.array("x", shape, dtype)
    element = f"x[{', '.join(names)}]"
    is_float = dtype in FLOATS
    value = d.one_of(element, element, f"{element} * {element}", f"abs({element})", f"relu({element})")
    reduce = d.one_of("sum", "sum", "max", "min", *(("mean", "var", "norm") if is_float else ()))
    where = f", where={bound[0]} % 3 != 1" if d.chance(10) and reduce not in ("norm", "var") else ""
    result = f"{reduce}({value}, {', '.join(bound)}{where})"
    if d.chance(15) and len(bound) > 1 and reduce in ("sum", "max", "min"):
        result = f"{reduce}({d.one_of('sum', 'max', 'min')}({value}, {', '.join(bound[1:])}), {bound[0]})"
    to = dtype if is_float else "float32" if dtype.startswith("float8") else "int64"
    d.array("y", [shape[names.index(name)] for name in kept], to, is_output=True)
    d.statements.append(f"y[{', '.join(kept)}] = {_stored(result, to)}" if kept else f"y = {_stored(result, to)}")


def normalisation(d: Drawing) -> None:
    """Rows, planes, groups and batches that are normalised by their own statistics."""
    rank = d.between(2, 4)
    sizes = d.sizes(rank, 1 << 27)
    names = list("ncij"[:rank])
    shape = [d.extent(name.upper(), size) for name, size in zip(names, sizes, strict=True)]
    dtype = d.float_dtype()
    bound = d.random.sample(names, d.between(1, rank - 1)) if d.chance(40) else names[d.between(1, rank - 1) :]
    d.array("x", shape, dtype)
    d.array("y", shape, dtype, is_output=True)
    every, kept = ", ".join(names), ", ".join(name for name in names if name not in bound)
    x = f"x[{every}]"
    inner = f"x[{', '.join(f'{name}{name}' if name in bound else name for name in names)}]"  # its indices are new names
    over = ", ".join(f"{name}{name}" for name in bound)
    match d.between(0, 4):
        case 0 if len(bound) == 1:
            d.statements.append(f"y[{every}] = {d.one_of('softmax', 'log_softmax')}({x}, {bound[0]})")
        case 1:
            d.statements += [
                f"mu[{kept}] = mean({inner}, {over})",
                f"v[{kept}] = var({inner}, {over})",
                f"y[{every}] = ({x} - mu[{kept}]) * rsqrt(v[{kept}] + 1e-5)",
            ]
        case 2:
            d.statements.append(f"y[{every}] = {x} * rsqrt(mean({inner} * {inner}, {over}) + 1e-6)")
        case 3:
            d.statements.append(f"y[{every}] = {x} / maximum(norm({inner}, {over}), 1e-6)")
        case _:
            d.statements.append(f"y[{every}] = {x} - max({inner}, {over})")


def scan(d: Drawing) -> None:
    rank = d.between(1, 3)
    sizes = d.sizes(rank, 1 << 27)
    names = list("nij"[:rank])
    shape = [d.extent(name.upper(), size) for name, size in zip(names, sizes, strict=True)]
    dtype = d.one_of(*FLOATS, "int32", "int64")
    d.array("x", shape, dtype)
    d.array("y", shape, dtype, is_output=True)
    element = f"x[{', '.join(names)}]"
    value = d.one_of(element, element, f"{element} * 2", f"maximum({element}, 0)")
    options = d.one_of("", "", ", reverse=true", ", exclusive=true")
    scanned = f"{d.one_of('cumsum', 'cumsum', 'cummax', 'cummin')}({value}, {d.one_of(*names)}{options})"
    d.statements.append(f"y[{', '.join(names)}] = {scanned}{d.one_of('', '', ' + 1')}")


def permutation(d: Drawing) -> None:
    """Transposes of any rank, with a value computed on the way."""
    rank = d.between(2, 5)
    sizes = d.sizes(rank, 1 << 27)
    names = list("abcde"[:rank])
    shape = [d.extent(name.upper(), size) for name, size in zip(names, sizes, strict=True)]
    order = d.random.sample(range(rank), rank)
    dtype = d.dtype()
    d.array("x", shape, dtype)
    d.array("y", [shape[n] for n in order], dtype, is_output=True)
    x = f"x[{', '.join(names)}]"
    value = d.one_of(x, x, x, f"{x} + {x}", f"maximum({x}, 1)")
    d.statements.append(f"y[{', '.join(names[n] for n in order)}] = {_stored(value, dtype)}")


def gather(d: Drawing) -> None:
    """Embeddings, rows by number, and values by a table."""
    rows, width, count = d.size(1 << 18), d.size(2048), d.size(1 << 14)
    dtype = d.dtype()
    er, ew, ec = d.extent("V", rows), d.extent("E", width), d.extent("T", count)
    boundary = d.one_of("", "", "zero", "clamp", "reflect" if rows > 1 else "zero")
    d.array("table", [er, ew], dtype, boundary=boundary)
    d.array("ids", [ec], d.one_of("int32", "int64"))
    form = d.between(0, 3)
    if form == 0 and dtype in FLOATS:
        d.array("p", [ec, ew], dtype)
        value = "table[ids[i], j] + p[i, j]"
    elif form == 1 and ew not in d.dynamic:  # a dynamic row may have no element
        d.array("y", [ec], dtype, is_output=True)
        d.statements.append("y[i] = table[ids[i], 0]")
        return
    elif form == 2 and dtype in FLOATS:
        d.array("y", [ec], dtype, is_output=True)
        d.statements.append("y[i] = sum(table[ids[i], j], j)")
        return
    else:
        value = "table[ids[i], j]"
    d.array("y", [ec, ew], dtype, is_output=True)
    d.statements.append(f"y[i, j] = {value}")


def elementwise(d: Drawing) -> None:
    """Maps: broadcasts, odd rows, shifted rows, interleaved channels, repeats, tiles and flips."""
    rank = d.between(1, 3)
    sizes = d.sizes(rank, 1 << 28)
    names = list("nij"[:rank])
    shape = [d.extent(name.upper(), size) for name, size in zip(names, sizes, strict=True)]
    dtype = d.dtype()
    last, width = names[-1], shape[-1]
    factor = d.one_of(2, 3, 4, 5, 8)
    rows, row_shape = names[:-1], shape[:-1]

    def read(name: str, subscript: str, extent: str) -> str:
        d.array(name, [*row_shape, extent], dtype)
        return f"{name}[{', '.join([*rows, subscript])}]"

    x = read("x", last, width)
    forms: list[Callable[[], str]] = [
        lambda: f"{x} * 2",
        lambda: f"{x} - {read('u', f'{last} + 1', f'{width} + 1')}",
        lambda: f"{x} + {read('u', f'{width} - 1 - {last}', width)}",
        lambda: f"{x} + {read('u', f'{last} // {factor}', f'({width} + {factor - 1}) // {factor}')}",
        lambda: f"{x} + {read('u', f'{last} % {factor}', str(factor))}",
        lambda: f"{x} + {read('u', f'{factor} * {last} + 1', f'{factor} * {width}')}",
        lambda: f"{x} % 10 - {read('u', last, width)}",
        lambda: f"where({last} % 2 == 0, {x}, {read('u', last, width)})",
    ]
    if rank > 1:
        d.array("b", [shape[0]], dtype)
        forms = [lambda: f"{x} * b[{names[0]}]"] if d.chance(30) else forms
        if not forms[0]().endswith(f"b[{names[0]}]"):
            d.arrays.pop()
    value = d.one_of(*forms)()
    d.array("y", shape, dtype, is_output=True)
    d.statements.append(f"y[{', '.join(names)}] = {_stored(value, dtype)}")


def pixels(d: Drawing) -> None:
    """Interleaved channels: sums over them, swaps of them, and planes from them."""
    h, w, c = d.size(3000), d.size(3000), d.between(1, 7)
    dtype = d.one_of("uint8", "uint8", "float32", "float16", "int16")
    eh, ew = d.extent("H", h), d.extent("W", w)
    d.array("x", [eh, ew, str(c)], dtype)
    match d.between(0, 2):
        case 0:
            d.array("y", [eh, ew], dtype, is_output=True)
            value = " + ".join(f"x[i, j, {n}]" for n in range(c))
            d.statements.append(f"y[i, j] = {_stored(value, dtype)}")
        case 1:
            d.array("y", [eh, ew, str(c)], dtype, is_output=True)
            d.statements.append(f"y[i, j, c] = x[i, j, {c - 1} - c]")
        case _:
            d.array("y", [str(c), eh, ew], dtype, is_output=True)
            d.statements.append("y[c, i, j] = x[i, j, c]")


def groups(d: Drawing) -> None:
    """A split index: sums and statistics of consecutive elements, by `//` or by a product of indices."""
    m, g, s = d.size(4096), d.size(512), d.size(512)
    dtype = d.float_dtype()
    em, eg, es = d.extent("M", m), d.extent("G", g), d.extent("S", s)
    d.indices["s"] = es
    d.array("x", [em, f"{eg} * {es}"], dtype)
    match d.between(0, 3):
        case 0:
            d.array("y", [em, eg], dtype, is_output=True)
            d.statements.append(f"y[m, g] = {d.one_of('sum', 'max', 'mean')}(x[m, g * {es} + s], s)")
        case 1:
            d.array("y", [em, eg], dtype, is_output=True)
            d.statements += [f"t[m, g, s] = x[m, g * {es} + s]", "y[m, g] = sum(t[m, g, s] * t[m, g, s], s)"]
            d.indices["g"] = eg
        case 2 if not d.dynamic:
            d.array("q", [em, eg], dtype)
            d.array("y", [em, f"{eg} * {es}"], dtype, is_output=True)
            d.indices.pop("s")
            d.statements.append(f"y[m, i] = x[m, i] * q[m, i // {es}]")
        case _:
            d.array("y", [em, eg], dtype, is_output=True)
            d.statements.append(f"y[m, g] = sum(relu(x[m, {es} * g + s]) - 1, s)")


def chain(d: Drawing) -> None:
    """Several statements, whose intermediate is read at other elements, in a reduction or once."""
    h, w = d.size(3000), d.size(3000)
    dtype = d.float_dtype()
    eh, ew = d.extent("H", h), d.extent("W", w)
    d.array("x", [eh, ew], dtype, boundary="zero")
    first = d.one_of(
        "t[i, j] = x[i, j] * x[i, j]",
        "t[i, j] = x[i, j - 1] + x[i, j + 1]",
        "t[i, j] = sum(x[i, j + r - 2], r)",
        "t[i, j] = exp(x[i, j] - max(x[i, k], k))",
    )
    d.indices |= {"i": eh, "j": ew} | ({"r": "5"} if " r)" in first else {})
    then, shape = d.one_of(
        ("y[i, j] = t[i, j] + 1", [eh, ew]),
        ("y[i] = sum(t[i, j], j)", [eh]),
        ("y[j] = max(t[i, j], i)", [ew]),
        ("y[i, j] = t[i, j] / (1 + sum(t[i, k], k))", [eh, ew]),
        ("y = sum(t[i, j], i, j)", []),
        ("y[j, i] = t[i, j]", [ew, eh]),
    )
    d.array("y", shape, dtype, is_output=True)
    d.statements += [first, then]


def surroundings(d: Drawing) -> None:
    """Elements round each position in an input of other extents than the output, whatever these are at run time."""
    names = SPATIAL[: d.one_of(1, 1, 2)]
    dtype, boundary = d.one_of(*FLOATS, *INTEGERS), d.one_of(*BOUNDARIES)
    outer, extents = (
        [d.extent(f"{prefix}{n.upper()}", size) for n, size in zip(names, d.sizes(len(names), 1 << 20), strict=True)]
        for prefix in ("", "X")
    )
    if len(names) > 1 and d.chance(40):
        extents[-1] = outer[-1]
    d.array("x", extents, dtype, boundary=boundary)
    d.array("y", outer, dtype, is_output=True)
    tap = d.one_of("", "", TAPS[0])
    if tap:
        d.indices[tap] = str(d.between(2, 9))
    reads = []
    for _ in range(d.between(1, 3)):
        steps = [f"{d.one_of(1, 1, 1, 2)} * {name} + {d.between(0, 9)} - {d.between(0, 9)}" for name in names]
        if tap:
            steps[-1] += f" + {tap}"
        reads.append(f"x[{', '.join(steps)}]")
    value = " + ".join(reads)
    value = f"sum({value}, {tap})" if tap else value
    d.statements = [f"y[{', '.join(names)}] = {_stored(value, dtype)}"]


OPERATORS = (
    pooling,
    pooling,
    convolution,
    transposed_convolution,
    product,
    product,
    projections,
    pairs,
    reduction,
    normalisation,
    scan,
    permutation,
    gather,
    elementwise,
    pixels,
    groups,
    chain,
    positions,
    gathered,
    mixture,
    mixture,
)
