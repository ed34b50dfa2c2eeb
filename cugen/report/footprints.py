"""What a page's script needs to show which elements of a matrix a block accesses: subscripts and extents."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.analysis.totals.sites import THREAD, Site
from cugen.plan.symbols import Integer
from cugen.report.trees import Tree, names, tree

_ARRAYS = ("global", "readonly", "texture", "constant")


@dataclass(frozen=True, slots=True)
class Matrix:
    """An array with the subscripts of an access, one for each dimension, and its shape.

    consecutive: the dimension along which a vector's elements follow each other."""

    array: str
    subscripts: tuple[Tree, ...]
    shape: tuple[Tree, ...]
    consecutive: int


def matrix_of(site: Site) -> Matrix | None:
    """The matrix of an access to an array in global or constant memory; None of any other, or if a subscript isn't
    static."""
    access, array = site.access, site.access.array
    if array.space not in _ARRAYS or not access.subscripts:
        return None
    subscripts = [subscript.xreplace(site.definitions) for subscript in access.subscripts]
    shape = extents_of(site)
    if names(subscripts) - set(THREAD) - {counter.symbol for counter in site.counters} - names(shape):
        return None
    units = [dimension for dimension, stride in enumerate(array.strides) if stride == 1]
    consecutive = units[-1] if units else len(subscripts) - 1
    return Matrix(array.symbol, tuple(map(tree, subscripts)), tuple(map(tree, shape)), consecutive)


def extents_of(site: Site) -> list[Integer]:
    """The shape of an access's array, over the params without a value."""
    return [extent.xreplace(site.definitions) for extent in site.access.array.shape]
