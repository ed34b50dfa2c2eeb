"""Which variants of a document a caller may take for one another."""

from __future__ import annotations

import pytest

from cugen.spec.load import load_text
from cugen.spec.siblings import siblings

DOCUMENT = """\
cugen: 1
kernel: product
doc: tiles of $tile
variants: {dtype: [float32], tile: [8, 16]}
params: {M: 40, K: dynamic}
scalars: {c: {dtype: float32}}
arrays:
  A: {shape: [M, K], dtype: $dtype, memory: {space: shared}}
  B: {shape: [K, M], dtype: $dtype, memory: shared}
  C: {shape: [M, M], dtype: float32}
compute: C[m, n] = c * sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}}
"""


def groups(text: str) -> dict[str, list[str]]:
    return {found.name: [spec.kernel for spec in found.specs] for found in siblings(load_text(text))}


def test_variants_of_a_tile_are_siblings_under_the_kernels_name() -> None:
    assert groups(DOCUMENT) == {"product": ["product__float32__8", "product__float32__16"]}


def test_types_part_siblings_and_tell_their_names() -> None:
    assert groups(DOCUMENT.replace("[float32]", "[float32, float16]")) == {
        "product__float32": ["product__float32__8", "product__float32__16"],
        "product__float16": ["product__float16__8", "product__float16__16"],
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("memory: {space: shared}", "memory: {space: shared, pad: $tile}"),
        ("memory: {space: shared}", "memory: {space: shared, dynamic: true, stages: 1, pad: $tile}"),
        ("schedule:", "check: {spills: $tile}\nschedule:"),
    ],
)
def test_where_a_tile_lies_and_what_is_checked_does_not_part_them(old: str, new: str) -> None:
    assert list(groups(DOCUMENT.replace(old, new))) == ["product"]


@pytest.mark.parametrize(("old", "new"), [("M: 40", "M: $tile"), ("K: dynamic", "K: {range: [0, $tile]}")])
def test_the_sizes_that_they_are_made_for_do_not_part_them(old: str, new: str) -> None:
    assert list(groups(DOCUMENT.replace(old, new))) == ["product"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("C: {shape: [M, M]", "C: {pitch: 8$tile, shape: [M, M]"),
        ("= c *", "= c + $tile *"),
        ("scalars: {c: {dtype: float32}}", "scalars: {c: {dtype: float32, value: $tile}}"),
        ("[8, 16]}", "[8, 16]}\nrequire: [K != $tile]"),
        ("tile: [8, 16]}", "tile: [80, 90]}\ntarget: sm_$tile"),
    ],
    ids=["pitch", "compute", "scalar", "require", "target"],
)
def test_another_result_or_another_argument_parts_them(old: str, new: str) -> None:
    assert old in DOCUMENT
    assert groups(DOCUMENT.replace(old, new)) == {}


def test_a_kernel_without_variants_and_a_single_one_have_no_siblings() -> None:
    assert groups(DOCUMENT.replace("[8, 16]", "[8]")) == {}
    plain = DOCUMENT.replace("variants: {dtype: [float32], tile: [8, 16]}\n", "")
    assert groups(plain.replace("$dtype", "float32").replace("$tile", "8")) == {}


def test_documents_are_apart_even_where_they_mean_the_same() -> None:
    other = DOCUMENT.replace("kernel: product", "kernel: other")
    assert list(groups(f"{DOCUMENT}---\n{other}")) == ["product", "other"]


def test_groups_that_no_variant_tells_apart_get_no_name() -> None:
    """Two documents of one name that compute different things: neither may stand for the other."""
    other = DOCUMENT.replace("[8, 16]", "[4, 32]").replace("= c *", "= 2 * c *")
    assert groups(f"{DOCUMENT}---\n{other}") == {}
