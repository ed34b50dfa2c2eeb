"""Code of several architectures in one file: a device runs that of its own."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

import pytest

from cugen.abi.sizes import evaluate, evaluate_all
from cugen.emit.host.embed import Code, Embedded, Image, embed, images_of
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_text
from cugen.spec.types import DTYPES
from tests.emit.host.recording_driver import DRIVER, played

# For sm_80 split along K, through a workspace; for sm_90a by wgmma, without.
PRODUCT = """
cugen: 1
kernel: product
params: {M: {range: [64, 64]}, N: 64, K: 16384}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""
SPLIT = "schedule: {split_k: 8, reduction: workspace}\n"
CHOOSE = """
#include "driver.h"
#include <chrono>
#include "product_embed.h"

int main()
{
    const CUstream stream = reinterpret_cast<CUstream>(0x77);
    for (int device : {80, 90, 90, 100}) {
        capability = device;
        std::printf("device %d: %d, %zu\\n", device, product_load(), product_workspace_bytes(64));
        std::printf("%d\\n", product_launch(nullptr, nullptr, nullptr, 64, nullptr, stream));
    }
    return 0;
}
"""


@pytest.fixture(scope="module")
def products() -> tuple[Kernel, Kernel]:
    """For sm_80 and sm_90a."""
    portable, specific = (
        generate(spec, analysis=False)
        for name, text in (("sm_80", PRODUCT + SPLIT), ("sm_90a", PRODUCT))
        for spec in load_text(text, target=name)
    )
    assert (bool(portable.manifest.workspace), bool(specific.manifest.workspace)) == (True, False)
    return portable, specific


def embedded_both(portable: Kernel, specific: Kernel) -> Embedded:
    images = Image(bytes(64), ("sm_80", "sm_90"), "nobody"), Image(bytes(range(72)), ("sm_90a",), "somebody")
    code = Code(specific.context, specific.plan, specific.manifest, images[1])
    return embed(portable.context, portable.plan, portable.manifest, images[0], [code])


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_a_device_runs_the_code_of_its_own_architecture(
    products: tuple[Kernel, Kernel], tmp_path: Path, compiler: str
) -> None:
    driver = DRIVER.replace("{KNOWN}", '{{"product", {0}}}').replace("IMAGE_BYTES", "64")
    files = {**embedded_both(*products).texts("product"), "driver.h": driver}
    lines = [line for line in played(tmp_path, files, CHOOSE, compiler) if not line.startswith("attribute")]

    def launch(kernel: Kernel) -> str:
        (entry,) = kernel.manifest.launches
        grid = evaluate_all(entry.grid, {"M": 64})
        return f"launch product {grid} {entry.block} {entry.dynamic_shared_bytes} on the stream"

    size = sum(
        (evaluate(space.elements, {"M": 64}) * DTYPES[space.dtype].bytes + 255) // 256 * 256
        for space in products[0].manifest.workspace
    )
    (fill,) = {line for line in lines if line.startswith("fill")}
    plain = [f"allocate {size}", fill, launch(products[0]), "free 500000000000", "0"]
    loads = [f"load {zlib.crc32(image)}" for image in (bytes(64), bytes(range(64)))]
    assert lines == [
        *(loads[0], f"device 80: 0, {size}", *plain),
        *(loads[1], f"device 90: 0, {size}", *["tensor map of rank 2 at 0"] * 2, launch(products[1]), "0"),
        *(f"device 90: 0, {size}", *["tensor map of rank 2 at 0"] * 2, launch(products[1]), "0"),
        *(f"device 100: 0, {size}", *plain),
    ]


def test_alignments_of_all_codes_are_named_and_checked(products: tuple[Kernel, Kernel]) -> None:
    files = embedded_both(*products)
    results = [argument for product in products for argument in product.manifest.arguments if argument.name == "C"]
    assert [result.alignment for result in results] == [4, 8]
    assert "// Devices of compute capability 9.0 run code for sm_90a.\n" in files.header
    assert "// There C must be aligned to 8 bytes.\n" in files.header
    assert re.search(r'array\("C", C, \{.*?\}, \{.*?\}, 8\b', files.typed_header)


def test_the_codes_of_several_sources_can_be_read_back(products: tuple[Kernel, Kernel]) -> None:
    assert images_of(embedded_both(*products).source) == (
        Image(bytes(64), ("sm_80", "sm_90"), "nobody"),
        Image(bytes(range(72)), ("sm_90a",), "somebody"),
    )
