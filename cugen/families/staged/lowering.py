"""Lowering of reads to loads from tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from cugen.families.staged.copies import StagedTile
from cugen.plan.lowering.expressions import Lowering
from cugen.plan.lowering.reads import lower_subscript, within
from cugen.plan.nodes import Load
from cugen.plan.scopes import Scope
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Expr, Local, Read, free_indices, walk


@dataclass
class StagedLowering(Lowering):
    """Lowers reads of `staged` tiles to loads from them, and those that registers hold to these. `local`: the current
    output relative to those of its block."""

    staged: dict[Read, StagedTile] = field(default_factory=dict)
    local: dict[str, Integer] = field(default_factory=dict)
    in_registers: dict[Read, Callable[[], Expr]] = field(default_factory=dict)

    def lower(self, expr: Expr, scope: Scope) -> Expr:
        if isinstance(expr, Read) and expr in self.in_registers:
            return self.in_registers[expr]()
        tile = self.staged.get(expr) if isinstance(expr, Read) else None
        if tile is None or not isinstance(expr, Read) or scope.recall(expr) is not None:
            return super().lower(expr, scope)
        gathers = any(isinstance(node, Read) for sub in expr.subscripts for node in walk(sub))
        home = scope.home(free_indices(expr), is_always_safe=not gathers)
        guard, otherwise = None, None
        if expr in tile.tile.folded:
            subscripts = tuple(lower_subscript(self, sub, home) for sub in expr.subscripts)
            source = replace(tile.source, texture_2d=None)  # the tile has no address mode
            subscripts, guard, otherwise = within(self, expr, subscripts, source, home)
            access = tile.access_at(subscripts)
        else:
            access = tile.access(expr, {**self.symbols, **self.local})
        name_hint = self.read_names.get(expr, expr.array.lower())
        local = Local(self.name_for(expr, name_hint, home), expr.dtype)
        home.nodes.append(Load(local, access, guard, otherwise))
        home.remember(expr, local)
        return local
