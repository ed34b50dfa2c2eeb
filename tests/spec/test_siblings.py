"""Which variants of a document are interchangeable."""

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
    return {group.name: [spec.kernel for spec in group.specs] for group in siblings(load_text(text))}


def test_variants_of_a_tile_are_siblings_under_the_kernels_name() -> None:
    assert groups(DOCUMENT) == {"product": ["product__float32__8", "product__float32__16"]}


def test_types_separate_siblings_and_distinguish_their_names() -> None:
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
def test_the_memory_of_a_tile_and_the_limits_does_not_separate_them(old: str, new: str) -> None:
    assert list(groups(DOCUMENT.replace(old, new))) == ["product"]


@pytest.mark.parametrize(("old", "new"), [("M: 40", "M: $tile"), ("K: dynamic", "K: {range: [0, $tile]}")])
def test_the_sizes_that_they_are_made_for_do_not_separate_them(old: str, new: str) -> None:
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
def test_another_result_or_another_argument_separates_them(old: str, new: str) -> None:
    assert old in DOCUMENT
    assert groups(DOCUMENT.replace(old, new)) == {}


def test_a_kernel_without_variants_and_a_single_one_have_no_siblings() -> None:
    assert groups(DOCUMENT.replace("[8, 16]", "[8]")) == {}
    plain = DOCUMENT.replace("variants: {dtype: [float32], tile: [8, 16]}\n", "")
    assert groups(plain.replace("$dtype", "float32").replace("$tile", "8")) == {}


def test_documents_stay_separate_even_if_equivalent() -> None:
    second = DOCUMENT.replace("kernel: product", "kernel: second")
    assert list(groups(f"{DOCUMENT}---\n{second}")) == ["product", "second"]


def test_groups_that_no_variant_distinguishes_get_no_name() -> None:
    """Two documents of one name that compute different things: they aren't interchangeable."""
    second = DOCUMENT.replace("[8, 16]", "[4, 32]").replace("= c *", "= 2 * c *")
    assert groups(f"{DOCUMENT}---\n{second}") == {}
