"""What a drawn spec computes, beyond single operators: positions of extremes, gathers in sums, statements that mix."""

from __future__ import annotations

import re

from .drawing import BOUNDARIES, FLOATS, Drawing

_ELEMENTS = ("{0}", "{0}", "abs({0})", "{0} * {0}", "where({0} > 0, {0}, 0)", "{0} + 1", "minimum({0}, 2)")
_FLOAT_ELEMENTS = (*_ELEMENTS, "exp({0})", "relu({0})")


def _element(d: Drawing, read: str, dtype: str) -> str:
    return d.one_of(*(_FLOAT_ELEMENTS if dtype in FLOATS else _ELEMENTS)).format(read)


def positions(d: Drawing) -> None:
    """Argmax and argmin along any dimension, of an index that is split, reversed, shifted or conditional."""
    p, q = d.between(1, 9), d.one_of(2, 3, 5, 16, 257)
    n, m = d.size(5000), d.size(300)
    d.params |= {"P": p, "Q": q, "K": p * q}
    en, em = d.extent("N", n), d.extent("M", m)
    shape, read, kept = d.one_of(
        ([en, "P", "Q"], "i, k // Q, k % Q", ["i"]),
        ([f"P * {en}", "Q"], "i * P + k // Q, k % Q", ["i"]),
        ([f"{en} * K"], "i * K + k", ["i"]),
        ([f"{en} + K"], "i + k", ["i"]),
        ([en, "K"], "i, K - 1 - k", ["i"]),
        ([en, "2 * K"], "i, 2 * k + 1", ["i"]),
        (["K", en], "k, i", ["i"]),
        ([en, "K", em], "i, k, m", ["i", "m"]),
        ([em, en, "P", "Q"], "m, i, k // Q, k % Q", ["m", "i"]),
    )
    d.indices["k"] = "K"
    dtype = d.dtype()
    x = _element(d, f"{d.array('x', shape, dtype)}[{read}]", dtype)
    where = d.one_of("", "", "", ", where=k > 0", ", where=k % 2 == 0", ", where=k <= i")
    left, after = ", ".join(kept), d.one_of("", "", " + 1", " // Q", " % Q")
    found = f"{d.one_of('argmax', 'argmin')}({x}, k{where})"
    extents = [{"i": en, "m": em}[name] for name in kept]
    d.array("y", extents, "int64", is_output=True)
    if d.chance(25):
        d.statements += [f"t[{left}] = {found}", f"y[{left}] = t[{left}]{after}"]
    else:
        d.statements.append(f"y[{left}] = {found}{after}")


def gathered(d: Drawing) -> None:
    """Sums over rows and elements that an index array names: bags, looked-up weights, sparse rows."""
    rows, width, count, bag = d.size(1 << 16), d.size(1024), d.size(1 << 12), d.between(1, 40)
    dtype = d.float_dtype()
    er, ew, et = d.extent("V", rows), d.extent("E", width), d.extent("T", count)
    boundary = d.one_of("", "", "zero", "clamp")
    table, ids = d.array("table", [er, ew], dtype, boundary=boundary), d.array("ids", [et, str(bag)], "int32")
    row, kept = f"{table}[{ids}[i, r], j]", ("i, j", [et, ew])
    value, (left, shape) = d.one_of(
        (f"{d.one_of('sum', 'mean', 'max')}({_element(d, row, dtype)}, r)", kept),
        (f"sum({row} * p[i, r], r)", kept),
        (f"sum(where({ids}[i, r] > 0, {row}, 0), r)", kept),
        (f"sum(sum({row}, j) * p[i, r], r)", ("i", [et])),
        (f"max(sum({row} * {row}, j), r)", ("i", [et])),
        (f"{row.replace('[i, r]', '[i, 0]')} * p[i, {ids}[i, 0] % {bag}]", kept),
    )
    if "p[" in value:
        d.array("p", [et, str(bag)], dtype)
    d.array("y", shape, dtype, is_output=True)
    d.statements.append(f"y[{left}] = {value}")


def mixture(d: Drawing) -> None:
    """Statements that take each other's results: products, reductions, scans and maps of one matrix."""
    n, m, k = d.size(4096), d.size(2048), d.size(8192)
    dtype = d.one_of(*FLOATS, "int32", "int8")
    to = dtype if dtype in ("float32", "float64") else "float32"
    shifted = d.chance(15)
    boundary = d.one_of(*BOUNDARIES) if shifted and not d.is_dynamic and min(n, k) > 6 else "zero" if shifted else ""
    en, em, ek = d.extent("N", n), d.extent("M", m), d.extent("K", k)
    d.indices |= {"i": en, "k": ek, "m": em}
    x = _element(d, "x[i, k]", dtype)
    kind = d.one_of("sum", "sum", "max", "min", "mean", "prod")
    less = d.one_of("k <= i", "k > i", "k < m", "k >= m", "k > 3", f"k < {ek} - 1 - i")
    mixtures: list[tuple[list[str], str]] = [
        ([f"y[i, m] = {kind}({x} * w[k, m], k)"], "im"),
        ([f"t[i] = {kind}({x}, k)", "y[i, m] = t[i] * b[m]"], "im"),
        (["t[i, m] = sum(x[i, k] * w[k, m], k)", "a[i] = argmax(t[i, m], m)", "y[i, m] = t[i, m] * (m == a[i])"], "im"),
        (["t[i, k] = cumsum(x[i, k], k)", f"y[i] = {kind}(abs(t[i, k]), k)"], "i"),
        ([f"t[k] = {kind}({x}, i)", "y[i, k] = x[i, k] - t[k]"], "ik"),
        ([f"y[m, i] = sum(w[k, m] * x[i, k], k, where={less})"], "mi"),
        (
            [
                "t[i] = max(x[i, k], k)",
                "u[i] = sum(exp(x[i, k] - t[i]), k)",
                "y[i, m] = sum(exp(x[i, k] - t[i]) / u[i] * w[k, m], k)",
            ],
            "im",
        ),
        ([f"y[i] = {kind}({d.one_of('sum', 'max', 'min')}({x} * w[k, m], k), m)"], "i"),
        ([f"y[i, m] = sum(x[i, k] * w[k, m], k) + sum({x}, k) * b[m]"], "im"),
        ([f"y[i, m] = w[i % {ek}, m] + x[m % {en}, i % {ek}] * b[m]"], "im"),
        (
            [
                f"t[i, k] = {x}",
                "a[k] = mean(t[i, k], i)",
                "u[k] = var(t[i, k], i)",
                "y[i, k] = (t[i, k] - a[k]) * rsqrt(u[k] + 1e-3)",
            ],
            "ik",
        ),
    ]
    if d.dynamic:  # an empty range has no argmax and no remainder
        mixtures = [mixture for mixture in mixtures if not re.search("argmax|%", " ".join(mixture[0]))]
    if shifted:
        mixtures = [([f"y[i, k] = {x} + x[i - 1, k + 2] - x[i + 1, k - 3]"], "ik")]
    statements, kept = d.one_of(*mixtures)
    text = " ".join(statements)
    d.array("x", [en, ek], dtype, boundary=boundary)
    if "w[" in text:
        d.array("w", [ek, em], dtype)
    if "b[" in text:
        d.array("b", [em], dtype)
    d.indices = {name: extent for name, extent in d.indices.items() if re.search(rf"\b{name}\b", text)}
    d.array("y", [{"i": en, "m": em, "k": ek}[name] for name in kept], to, is_output=True)
    d.statements += statements
