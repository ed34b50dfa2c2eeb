"""Lowering of samples to filtered fetches from textures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cugen.plan.memory import Access
from cugen.plan.nodes import Comparison, Guard, Let, Load
from cugen.plan.scopes import Scope
from cugen.plan.symbols import integer
from cugen.spec.expressions import Const, Expr, Local, Sample, free_indices

if TYPE_CHECKING:
    from cugen.plan.lowering.expressions import Lowering


def load_sample(lowering: Lowering, sample: Sample, scope: Scope) -> Local:
    """The local of the interpolated value, fetched in the outermost scope where that is safe; so are its coordinates
    computed, each in a local."""
    array = lowering.arrays[sample.array]
    assert array.texture_2d is not None
    axes = dict(zip(array.texture_2d.dimensions, "xy", strict=True))
    name = sample.array.lower()[:22]
    home = scope.home(free_indices(sample))
    coordinates = tuple(
        _local(lowering, coordinate, home, f"{name}_{axes[dimension]}")
        for dimension, coordinate in enumerate(sample.coordinates)
    )
    local = Local(lowering.name_for(sample, f"{name}_value", home), sample.dtype)
    # Without elements there is no texture.
    some = lowering.needed(Guard(tuple(Comparison(extent, ">", integer(0)) for extent in array.shape)))
    access = Access(array, (), "load", coordinates=coordinates, span=sample.span)
    home.nodes.append(Load(local, access, some, Const(0.0, sample.dtype)) if some.terms else Load(local, access))
    home.remember(sample, local)
    return local


def _local(lowering: Lowering, coordinate: Expr, scope: Scope, name_hint: str) -> Local:
    """The coordinate in a local of its own: a component of a vector, or an element of a tile, has no name."""
    value = lowering.named(coordinate, scope, name_hint)
    if type(value) is Local:
        return value
    home = scope.home(free_indices(coordinate))
    local = Local(lowering.name_for(coordinate, name_hint, home), value.dtype)
    home.nodes.append(Let(local, value))
    home.remember(coordinate, local)
    return local
