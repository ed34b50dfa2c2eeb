"""The rows of a register window: the columns that are read of each, and runs of rows with the same columns."""

from __future__ import annotations

from collections.abc import Mapping

Columns = tuple[int, int]  # the first and the last that are read
Tree = tuple[tuple[int, int, "Tree | Columns"], ...]  # runs of coordinates (begin, end) with equal subtrees


def tree_of(rows: Mapping[tuple[int, ...], Columns]) -> Tree | Columns:
    """The rows as a tree over their coordinates; consecutive coordinates with equal subtrees share a node."""
    if () in rows:
        return rows[()]
    below: dict[int, dict[tuple[int, ...], Columns]] = {}
    for (first, *inner), columns in sorted(rows.items()):
        below.setdefault(first, {})[tuple(inner)] = columns
    nodes: list[tuple[int, int, Tree | Columns]] = []
    for first, inner_rows in below.items():
        tree = tree_of(inner_rows)
        if nodes and nodes[-1][1] == first and nodes[-1][2] == tree:
            nodes[-1] = (nodes[-1][0], first + 1, tree)
        else:
            nodes.append((first, first + 1, tree))
    return tuple(nodes)
