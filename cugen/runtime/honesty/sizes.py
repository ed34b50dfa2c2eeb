"""Sizes at which a kernel's edges show: one more and one less than its tiles, small enough to trace every access."""

from __future__ import annotations

import math
from collections.abc import Mapping

import yaml

from cugen.plan.kernel import Kernel, Plan
from cugen.plan.nodes import For
from cugen.plan.symbols import FloorDiv, Integer
from cugen.plan.walking import walk_nodes
from cugen.spec.model import Spec

_PLAIN = 16  # of a param that no tile divides
_BLOCKS = 2  # where a param is a number of blocks


def small_params(spec: Spec, plan: Plan, beyond: int) -> dict[str, int]:
    """A value for each param that the file gives as a number, or that is dynamic: its tile's size and `beyond` (1 or
    -1); whole tiles, two or one, where it was a multiple, and never more than the file says."""
    tiles = _tiles(plan)
    values = {}
    literal = _literals(spec)
    for param in spec.params:
        tile = tiles.get(param.name, _PLAIN)
        if param.value is None:
            wanted = tile + beyond
            multiple = -(-wanted // param.multiple_of) * param.multiple_of
            values[param.name] = min(max(multiple, param.minimum), param.maximum)
        elif param.name in literal and param.value > 1:
            whole = tile > 1 and param.value % tile == 0
            wanted = (2 * tile if beyond > 0 else tile) if whole else max(tile + beyond, 1)
            values[param.name] = min(wanted, param.value)
    return values


def _literals(spec: Spec) -> frozenset[str]:
    """Params with a number of their own; the others follow from them."""
    documents = [document for document in yaml.safe_load_all(spec.text) if isinstance(document, Mapping)]
    params = [document.get("params") or {} for document in documents]
    return frozenset(name for found in params for name, value in found.items() if isinstance(value, int))


def _tiles(plan: Plan) -> dict[str, int]:
    """How much of each param a block or a loop takes at once, by the param's name in the spec."""
    names = {in_c: name for name, in_c in plan.param_symbols}
    found: dict[str, int] = {}

    def note(expr: Integer, size: int) -> None:
        """A flattened row of several params is as long as their product."""
        inside = [names[s.name] for s in sorted(expr.free_symbols, key=str) if s.name in names]
        for name in inside:
            found[name] = max(found.get(name, 1), math.ceil(size ** (1 / len(inside))))

    for kernel in plan.kernels:
        for extent in kernel.grid:
            blocks = extent.atoms(FloorDiv)
            for quotient in blocks:
                note(quotient.args[0], int(quotient.args[1]))
            if not blocks:
                note(extent, _BLOCKS)
        for loop in _loops(kernel):
            if loop.loop.step > 1:
                note(loop.loop.stop, loop.loop.step)
    return found


def _loops(kernel: Kernel) -> list[For]:
    return [node for node in walk_nodes(kernel.body) if isinstance(node, For)]
