"""A loop passes from tile to tile where threads wait in it."""

from __future__ import annotations

import pytest

from cugen.plan.nodes import For
from cugen.plan.traversal.walking import walk_nodes
from cugen.report.tile_loops import tile_loops


@pytest.mark.parametrize(
    ("file", "indices"),
    [
        ("matmul_tiled.yaml", ["k0"]),
        ("matmul_naive.yaml", []),
        ("gemm_f32.yaml", ["stage", "k0"]),
        ("blur_shared.yaml", []),
    ],
)
def test_loops_with_barriers_or_commit_groups_pass_from_tile_to_tile(file, indices, gallery_pages):
    (page,) = gallery_pages(file)
    kernel = page.launches[0].planned
    loops = [node.loop.index.name for node in walk_nodes(kernel.body) if isinstance(node, For)]
    assert [loops[position] for position in sorted(tile_loops(kernel))] == indices
