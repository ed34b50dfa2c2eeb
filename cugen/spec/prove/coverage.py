"""Coverage: proves that the statements which write an array write each of its elements exactly once.

Three methods, in this order: symbolic (bare indices, mixed radix such as `4*i + j`, contiguous ranges, interleaved
strides), which also covers dynamic params; one bit set per dimension, if each index occurs in one dimension only; and
enumeration of the elements of a small array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import ParamValue
from cugen.spec.model import Array, Param, Statement
from cugen.spec.prove.affine import affine_form
from cugen.spec.prove.coverage_sets import Verdict, by_dimension, by_enumeration
from cugen.spec.prove.coverage_symbolic import covers_symbolically, writes_once_symbolically

MAX_ELEMENTS = 1 << 20  # of an array, and points of its writers, for enumeration


def check_coverage(
    statements: Sequence[Statement], arrays: Mapping[str, Array], params: Mapping[str, Param], report: Reporter
) -> None:
    """Report every array whose elements aren't written exactly once (at most once, where a statement adds to it)."""
    targets = dict.fromkeys(statement.target for statement in statements)
    for target in targets:
        writers = [statement for statement in statements if statement.target == target]
        verdict = _verdict(writers, arrays[target], params)
        if verdict is not None:
            _report_verdict(verdict, writers, arrays[target], report)


def _verdict(writers: list[Statement], array: Array, params: Mapping[str, Param]) -> Verdict | None:
    adds = any(statement.accumulate for statement in writers)
    if covers_symbolically(writers, array, params) or (adds and writes_once_symbolically(writers, params)):
        return None
    shape = [affine_form(extent, params) for extent in array.shape]
    extents = [affine_form(index.extent, params) for statement in writers for index in statement.indices]
    if not all(form.is_constant for form in (*shape, *extents)):
        return Verdict("unproved")
    sizes = [max(form.constant, 0) for form in shape]
    verdict = by_dimension(writers, sizes, params)
    if verdict is None:
        points = sum(
            prod(affine_form(index.extent, params).constant for index in statement.indices) for statement in writers
        )
        if prod(sizes) > MAX_ELEMENTS or points > MAX_ELEMENTS:
            return Verdict("unproved")
        verdict = by_enumeration(writers, sizes, params)
    if verdict.kind == "exact" or (adds and verdict.kind == "missing"):
        return None
    return verdict


def _report_verdict(verdict: Verdict, writers: list[Statement], array: Array, report: Reporter) -> None:
    name = array.name
    element = f"{name}[{', '.join(map(str, verdict.element))}]" if verdict.element else name
    statement = writers[verdict.second]
    lines = tuple(f"`{name}` is also written in line {w.span.line}" for w in writers if w is not statement)
    if verdict.kind == "missing":
        report.error(
            "CG1307",
            f"`{element}` is never written",
            writers[-1].span,
            label=f"misses {element}",
            notes=(
                *(f"`{name}` is also written in line {w.span.line}" for w in writers[:-1]),
                *_params_as_subscripts(writers),
            ),
            help="write every element, if necessary with another statement",
        )
    elif verdict.kind == "twice":
        report.error(
            "CG1306",
            f"`{element}` is written twice",
            statement.span,
            label="here again" if verdict.first != verdict.second else "by two values of its indices",
            notes=lines,
            help="let each statement write its own elements; store an intermediate value in a temporary",
        )
    else:
        report.error(
            "CG1308",
            f"it isn't clear that each element of `{name}` is written exactly once (unproved)",
            statement.span,
            label="unproved",
            notes=(*lines, *_params_as_subscripts(writers)),
            help="use bare indices on the left, and move the subscript expressions to the right side",
        )


def _params_as_subscripts(writers: Sequence[Statement]) -> tuple[str, ...]:
    """Notes on params that are a whole subscript, and were perhaps meant as indices."""
    subscripts = (subscript for statement in writers for subscript in statement.subscripts)
    names = dict.fromkeys(subscript.name for subscript in subscripts if isinstance(subscript, ParamValue))
    return tuple(f"`{name}` is a param: one position, not an index that runs over all of them" for name in names)
