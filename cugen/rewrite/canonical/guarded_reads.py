"""Reads that a condition keeps in bounds, in specs with reductions or scans.

    r[i] = sum(k[i - 10, j], j) if i >= 10 else 0
becomes the same with `boundary: zero` for the read: a family loads the operands of a row or a tile, in vectors, whether
what is computed of them is chosen or not, those of statements without a loop that it computes with others, too. A
condition on a loop's own index bounds the loop, and its reads need none. What a condition tests may be a subscript, as
in `sum(x[t[i], k], k) if t[i] >= 0 else 0`.
"""

from __future__ import annotations

from dataclasses import replace

from cugen.spec.diagnostics import Reporter
from cugen.spec.expressions import Reduce, Scan, walk
from cugen.spec.model import Spec
from cugen.spec.prove.bounds import BoundsChecker


def with_boundaries_of_guarded_reads(spec: Spec) -> Spec:
    """The spec with boundaries for these reads; the same object if there are none."""
    if not any(isinstance(node, Reduce | Scan) for statement in spec.statements for node in walk(statement.value)):
        return spec
    params, arrays = {param.name: param for param in spec.params}, {array.name: array for array in spec.arrays}
    checker = BoundsChecker(params, arrays, Reporter(spec.file, spec.text), spec.require)
    statements = tuple(map(checker.with_boundaries, spec.statements))
    return spec if statements == spec.statements else replace(spec, statements=statements)
