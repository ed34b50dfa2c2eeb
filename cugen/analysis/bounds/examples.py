"""Examples of sizes that are known at launch: an access that isn't proved for all may be refuted by one of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from cugen.plan.context import Context
from cugen.spec.model import Param
from cugen.spec.resolve.param_expressions import holds

_FIRST = (1, 37, 64)  # heuristic: of the first param, smaller than tiles, with a remainder, and without one


def with_example_sizes(context: Context) -> Iterator[Context]:
    """The context with a value for each param. Yields nothing where all of them have one, or none is allowed."""
    spec = context.spec
    for first in _FIRST if any(param.is_dynamic for param in spec.params) else ():
        params = tuple(_with_value(param, position * first) for position, param in enumerate(spec.params, 1))
        values = {param.name: param.value for param in params if param.value is not None}
        if all(holds(requirement.condition, values) for requirement in spec.require):
            yield replace(context, spec=replace(spec, params=params))


def _with_value(param: Param, about: int) -> Param:
    """The param, with the allowed value next to `about` if it has none."""
    if param.value is not None:
        return param
    lowest, highest = -(-param.minimum // param.multiple_of), param.maximum // param.multiple_of
    multiple = max(lowest, min(highest, -(-about // param.multiple_of)))
    return replace(param, value=multiple * param.multiple_of)
