"""Small problem sizes that exercise boundary tiles: one more and one less than the tile size."""

from __future__ import annotations

import math
from collections.abc import Mapping

import yaml

from cugen.plan.kernel import Kernel, Plan
from cugen.plan.nodes import For
from cugen.plan.pipeline_nodes import TensorLoad
from cugen.plan.symbols import FloorDiv, Integer
from cugen.plan.traversal.walking import walk_nodes
from cugen.spec.model import Spec

_DEFAULT_TILE = 16  # for params that aren't tiled
_BLOCKS = 2  # for params that are numbers of blocks


def small_params(spec: Spec, plan: Plan, beyond: int) -> dict[str, int]:
    """A value for each literal or dynamic param: the tile size plus `beyond` (1 or -1).

    Multiples of the tile stay multiples, of two tiles or one. No value exceeds that in the spec."""
    tiles = _tiles(plan)
    values = {}
    literal = _literals(spec)
    for param in spec.params:
        tile = tiles.get(param.name, _DEFAULT_TILE)
        if param.value is None:
            size = tile + beyond
            multiple = -(-size // param.multiple_of) * param.multiple_of
            values[param.name] = min(max(multiple, param.minimum), param.maximum)
        elif param.name in literal and param.value > 1:
            is_multiple = tile > 1 and param.value % tile == 0
            size = (2 * tile if beyond > 0 else tile) if is_multiple else max(tile + beyond, 1)
            values[param.name] = min(size, param.value)
    return values


def _literals(spec: Spec) -> frozenset[str]:
    """Params given as numbers; the others are expressions."""
    documents = [document for document in yaml.safe_load_all(spec.text) if isinstance(document, Mapping)]
    declared = [document.get("params") or {} for document in documents]
    return frozenset(name for params in declared for name, value in params.items() if isinstance(value, int))


def _tiles(plan: Plan) -> dict[str, int]:
    """Tile size of each param in a block or loop, by the param's name in the spec."""
    names = {in_c: name for name, in_c in plan.param_symbols}
    tiles: dict[str, int] = {}

    def note(expr: Integer, size: int) -> None:
        """For a fused dimension of n params, the n-th root of the tile."""
        inside = [names[s.name] for s in sorted(expr.free_symbols, key=str) if s.name in names]
        for name in inside:
            tiles[name] = max(tiles.get(name, 1), math.ceil(size ** (1 / len(inside))))

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
        for load in _tensor_loads(kernel):
            source = load.source.array
            if source.tensor_map is not None:
                for extent, size in zip(source.shape, source.tensor_map.box, strict=True):
                    note(extent, kernel.cluster * size)
    return tiles


def _loops(kernel: Kernel) -> list[For]:
    return [node for node in walk_nodes(kernel.body) if isinstance(node, For)]


def _tensor_loads(kernel: Kernel) -> list[TensorLoad]:
    """Copies of boxes, which tell the tiles of persistent blocks; those of a cluster split or share them."""
    return [node for node in walk_nodes(kernel.body) if isinstance(node, TensorLoad)]
