"""Tile sizes are constants of the kernel, printed by name wherever the code means them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from cugen import generate, load_all
from tests.families.gemm.test_gemm import gemm

GALLERY = sorted((Path(__file__).parents[3] / "specs").glob("*.yaml"))
FAMILIES = ("family gemm", "family tiled")
# Sizes that are no other number of their kernels, such as a vector width or a number of threads.
WIDE = "block: {m: 96, n: 192}, thread: {m: 12, n: 12}, step: {k: 24}"
SQUARE = "block: {m: 96, n: 96}, thread: {m: 12, n: 12}, step: {k: 24}"
KERNELS = {
    "multistage": gemm(2112, 2400, 2208, schedule=f"family: gemm, {WIDE}, stages: 5"),
    "single stage": gemm(2112, 2400, 2208, schedule=f"family: gemm, {WIDE}, stages: 1"),
    "edges": gemm(211, 243, 223, schedule=f"family: gemm, {WIDE}, stages: 5"),
    "dynamic sizes": gemm("dynamic", "dynamic", "dynamic", schedule=f"family: gemm, {WIDE}, stages: 5"),
    "swizzle": gemm(
        2112, 2400, 2208, b=", memory: {space: shared, stages: 5, swizzle: xor}", schedule=f"family: gemm, {WIDE}"
    ),
    "condition": gemm(2112, 2400, 2208, schedule=f"family: gemm, {WIDE}, stages: 5").replace(
        "], k)", "], k, where=k <= m)"
    ),
    "two sums": gemm(
        2112,
        2400,
        2208,
        schedule="family: gemm, block: {m: 96, n: 192}, thread: {m: 6, n: 12}, step: {k: 48}, stages: 3",
    ).replace("n], k)", "n], k) / sum(A[m, k] + B[k, n], k)"),
    "sliced-K": gemm(2112, 2400, 2208, schedule=f"family: gemm, {SQUARE}, stages: 3, sliced_k: 2"),
    "split-K": gemm(2112, 2400, 2208, schedule=f"family: gemm, {SQUARE}, stages: 5, split_k: 2, reduction: workspace"),
    "clusters": gemm(
        2112,
        2400,
        2208,
        schedule="family: gemm, block: {m: 48, n: 96}, thread: {m: 12, n: 12}, step: {k: 24}, sliced_k: 2, split_k: 2, "
        "reduction: cluster, stages: 3",
    ),
    "stream-K": gemm(2112, 2400, 2208, schedule=f"family: gemm, {WIDE}, stages: 5, stream_k: 1"),
    "stream-K, sliced-K": gemm(
        2112, 2400, 2208, schedule=f"family: gemm, {SQUARE}, stages: 3, sliced_k: 2, stream_k: 1"
    ),
    "tensor cores": gemm(
        2112,
        2400,
        2208,
        dtype="float64",
        schedule="family: gemm, block: {m: 96, n: 48}, thread: {m: 6, n: 6}, step: {k: 24}, stages: 3, cores: tensor",
    ),
    "tiled": gemm(211, 243, 223, schedule="family: tiled, block: {m: 48, n: 96}, thread: {m: 6, n: 12}, step: {k: 24}"),
    "tiled, one element": gemm(211, 243, 223, schedule="family: tiled, block: {m: 12, n: 20}, step: {k: 24}"),
    "tiled, dynamic memory": gemm(
        211,
        243,
        223,
        a=", memory: {space: shared, dynamic: true}",
        b=", memory: {space: shared, dynamic: true}",
        schedule="family: tiled, block: {m: 48, n: 96}, thread: {m: 6, n: 12}, step: {k: 24}",
    ),
    "tiled, swizzle": gemm(
        211,
        243,
        223,
        b=", memory: {space: shared, swizzle: xor}",
        schedule="family: tiled, block: {m: 48, n: 128}, thread: {m: 6, n: 16}, step: {k: 24}",
    ),
}
TILE_LOOPS = ("stage", "k", "k_", "k0", "i", "j", "t", "c", "r", "e", "g", "element")  # indices over parts of a tile


def sizes_and_code(source: str) -> tuple[Mapping[str, int], str]:
    """The constants at the head of a kernel, and its other code without comments."""
    body = re.sub(r"//.*", "", source[source.index("__global__") : source.index("#if defined(__CUDACC__)")])
    constants = re.search(r"constexpr int (BM_? = .*);", body)
    assert constants is not None
    assignments = (assignment.split(" = ") for assignment in constants[1].split(", "))
    return {name: int(value) for name, value in assignments}, body.replace(constants[0], "")


def numbers(code: str) -> set[int]:
    return set(map(int, re.findall(r"(?<![\w.])\d+\b", code)))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_sizes_are_named_wherever_they_are_meant(made, text):
    sizes, code = sizes_and_code(made(text).source)
    assert set(sizes) >= {"BM", "BN", "BK"}
    few_stages = {sizes.get("STAGES", 0)} & {2, 3}  # as small as other numbers
    assert not numbers(code) & (set(sizes.values()) - few_stages)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("text", KERNELS.values(), ids=KERNELS)
def test_every_size_that_is_named_is_used(made, text):
    sizes, code = sizes_and_code(made(text).source)
    assert sizes.get("STAGES") != 1
    assert all(re.search(rf"\b{name}\b", code) for name in sizes)


@pytest.mark.sampled(52)
@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_tiles_of_the_gallery_have_named_extents_origins_and_loops(path):
    for spec in load_all(path):
        source = generate(spec, analysis=False).source
        if not any(family in source for family in FAMILIES) or source.count("__global__") > 1:
            continue
        sizes, code = sizes_and_code(source)
        assert all(re.search(rf"\b{name}\b", code) for name in sizes)
        tiles = re.findall(r"__shared__ [^;=]*? \w+((?:\[[^\]]+\])+);", code)
        assert all(re.match("[A-Z]", extent) for tile in tiles for extent in re.findall(r"\[(.*?)\]", tile))
        stops = re.findall(r"for \(int (\w+) = [^;]*; \w+ < ([^;]*);", code)
        assert not [(index, stop) for index, stop in stops if index in TILE_LOOPS and stop.isdigit()]
        origins = re.findall(r"const int \w0_? = ([^;]*);", code)
        assert origins
        of_tiles = re.sub(r"blockIdx\.x / \d+", "tile", " ".join(origins))  # the blocks of a cluster share a tile
        assert not numbers(of_tiles) & set(sizes.values())


def test_kernels_of_another_k_tile_and_pipeline_have_the_same_code(made):
    block = "block: {m: 96, n: 96}, thread: {m: 12, n: 12}"
    (sizes, code), (other_sizes, other_code) = (
        sizes_and_code(made(gemm(2304, 2304, 2304, schedule=f"family: gemm, {block}, {more}")).source)
        for more in ("step: {k: 16}, stages: 4", "step: {k: 32}, stages: 3")
    )
    assert (sizes["BK"], sizes["STAGES"], other_sizes["BK"], other_sizes["STAGES"]) == (16, 4, 32, 3)
    assert code == other_code


@pytest.mark.slow
def test_params_keep_their_names_where_tile_sizes_have_them_too(made, prove):
    text = gemm(65, 20, 72).replace("M: 65", "BM: 65").replace("[M,", "[BM,").replace("K: 20", "STAGES: 20")
    text = text.replace(", K]", ", STAGES]").replace("[K,", "[STAGES,")
    source = made(text).source
    assert "constexpr int BM = 65;" in source
    assert "constexpr int STAGES = 20;" in source
    assert "constexpr int BM_ = 32, BN = 64, BK = 8, STAGES_ = " in source
    assert "min(blockIdx.y * BM_, BM - BM_)" in source
    prove(text)


def test_an_index_keeps_its_name_where_a_tile_size_has_it_too(made):
    text = gemm(65, 20, 72, schedule="family: gemm, block: {TM: 32, n: 64}, thread: {TM: 4, n: 8}, step: {k: 8}")
    source = made(text.replace("C[m,", "C[TM,").replace("A[m,", "A[TM,")).source
    assert "TM_ = 4," in source
    assert "const int TM = TM0 + thread_m" in source
