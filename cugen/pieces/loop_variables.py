"""Variables of generated loops."""

from __future__ import annotations

from cugen.plan.lowering.expressions import Lowering
from cugen.plan.nodes import Index
from cugen.plan.symbols import Range, integer, symbol


def shared_loop_variable(name_hint: str, values: Range, lowering: Lowering) -> Index:
    """A loop variable over `values`, inclusive; successive loops over the same range share its name."""
    name = lowering.loops.get((name_hint, values)) or lowering.names.allocate(name_hint)
    lowering.loops[name_hint, values] = name
    lowering.ranges[symbol(name)] = values
    return Index(name, integer(0), values)
