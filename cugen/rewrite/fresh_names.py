"""Names of the arrays and indices that a rewriting adds."""

from __future__ import annotations

from collections.abc import Iterable

from cugen.spec.expressions import Const, Index
from cugen.spec.model import Spec, Statement


def taken_names(spec: Spec, indices: Iterable[Index] = ()) -> set[str]:
    """The names of a spec's arrays, params and scalars, and of `indices`: one expression may have all of them, so that
    what is new has none of these names, whatever it is."""
    declared = {array.name for array in spec.arrays} | {param.name for param in spec.params}
    return declared | {scalar.name for scalar in spec.scalars} | {index.name for index in indices}


def fresh(name: str, taken: set[str]) -> str:
    """The name, or with underscores the first that is not taken; it is taken from then on."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def constants_of(statement: Statement) -> str:
    """The constant subscripts of what a statement writes, to tell it from others that write the same array: `_0_2` of
    `dw[c, 0, 2]`."""
    return "".join(f"_{sub.value}" for sub in statement.subscripts if isinstance(sub, Const))
