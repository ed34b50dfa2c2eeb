"""Rows of a skinny GEMM that are the members of a group, as heads that share keys:

    s[b, h, t] = sum(q[b, h, d] * k[b, h // R, t, d], d)
is, for each group g and its members r,
    s[b, g * R + r, t] = sum(q[b, g * R + r, d] * k[b, g, t, d], d)
whose R rows read each element of k once.
"""

from __future__ import annotations

from cugen.plan.request import Request
from cugen.rewrite.fresh_names import fresh, taken_names
from cugen.rewrite.split_dimensions import quotient_of, with_parts
from cugen.spec.expressions import Index, IndexValue, Op, bound_indices, walk
from cugen.spec.prove.affine import affine_form


def with_grouped_rows(request: Request, max_rows: int) -> Request | None:
    """The request over groups and their members; None without an output index whose quotient by one number, of up to
    `max_rows`, is read."""
    if len(request.group.statements) != 1:
        return None
    (statement,), spec = request.group.statements, request.context.spec
    params = {param.name: param for param in spec.params}
    divisions = [node for node in walk(statement.value) if isinstance(node, Op) and node.name == "floordiv"]
    for index in statement.indices:
        sizes = list(dict.fromkeys(node.args[1] for node in divisions if node.args[0] == IndexValue(index.name)))
        forms = [affine_form(size, params) for size in sizes]
        if len(sizes) != 1 or not forms[0].is_constant or not 2 <= forms[0].constant <= max_rows:
            continue
        if (count := quotient_of(index.extent, sizes[0], params)) is None:
            continue
        taken = taken_names(spec, (*statement.indices, *bound_indices(statement.value)))
        group = Index(fresh(f"{index.name}_group", taken), count)
        member = Index(fresh(f"{index.name}_member", taken), sizes[0])
        return request.with_statements((with_parts(statement, index, group, member, params),))
    return None
