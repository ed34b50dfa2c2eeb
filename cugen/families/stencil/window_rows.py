"""The rows of a window's box: from which column to which each is read, and which of them are read alike."""

from __future__ import annotations

from collections.abc import Mapping

Columns = tuple[int, int]  # from the first to the last that is read
Tree = tuple[tuple[int, int, "Tree | Columns"], ...]  # stretches of coordinates that go on alike
_BESIDE = 2  # cells of a row that are loaded one by one rather than with all that an access moves


def tree_of(rows: Mapping[tuple[int, ...], Columns]) -> Tree | Columns:
    """The rows by their first coordinate, neighbours that go on alike together."""
    if () in rows:
        return rows[()]
    below: dict[int, dict[tuple[int, ...], Columns]] = {}
    for (first, *rest), columns in sorted(rows.items()):
        below.setdefault(first, {})[tuple(rest)] = columns
    found: list[tuple[int, int, Tree | Columns]] = []
    for first, rest_rows in below.items():
        tree = tree_of(rest_rows)
        if found and found[-1][1] == first and found[-1][2] == tree:
            found[-1] = (found[-1][0], first + 1, tree)
        else:
            found.append((first, first + 1, tree))
    return tuple(found)


def is_narrow(rows: Mapping[tuple[int, ...], Columns], own: Columns) -> bool:
    """Whether few cells of each row lie beside the thread's own columns, which are whole accesses."""
    beside = max(max(own[0] - low, 0) + max(high + 1 - own[1], 0) for low, high in rows.values())
    return beside <= _BESIDE and own[0] >= 0
