"""Variants with their machine code in C: which one a call launches, and what the driver is expected before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cugen.emit.host.apis import DRIVER
from cugen.emit.host.embed import Code, Image, embed
from cugen.emit.host.variants import make_entry, variants_headers
from cugen.kernel import Kernel, generate
from cugen.kernel_choice import block_cost
from cugen.spec.load import load_text
from cugen.spec.siblings import siblings
from tests.emit.host.recording_driver import driver_for, played, without_loads

SPEC = """\
cugen: 1
kernel: product
variants: {tile: [32, 16]}
params: {M: {range: [1, 100000]}}
arrays:
  A: {shape: [M, 512], dtype: float32, memory: {space: shared, dynamic: true, pad: 400}}
  B: {shape: [512, 512], dtype: float32, memory: {space: shared, dynamic: true}}
  C: {shape: [M, 512], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
schedule: {block: {m: $tile, n: $tile}, step: {k: $tile}, carveout: 50}
"""
MAIN = """\
#include "driver.h"
#include <chrono>
#include "product_embed.h"

int main()
{
    const CUstream stream = reinterpret_cast<CUstream>(0x77);
    std::printf("%d\\n", product_launch(nullptr, nullptr, nullptr, 100000, stream));
}
"""
CODE = Image(bytes(64), ("sm_90",), "nobody")


@pytest.fixture(scope="module")
def kernels() -> tuple[Kernel, ...]:
    return tuple(generate(spec, analysis=False) for spec in load_text(SPEC))


@pytest.mark.slow
def test_the_driver_counts_the_resident_blocks_of_each_before_one_is_launched(
    kernels: tuple[Kernel, ...], tmp_path: Path
) -> None:
    (group,) = siblings(load_text(SPEC))
    entries = [make_entry(k.context, k.plan, k.manifest, block_cost(k)) for k in kernels]
    headers = variants_headers(group, entries, DRIVER)
    files = {"product_embed.h": headers.header, "product_embed.hpp": headers.typed_header}
    files["driver.h"] = driver_for(kernels, 64)
    for kernel in kernels:
        files |= embed(kernel.context, kernel.plan, kernel.manifest, CODE).texts(kernel.name)
    lines = without_loads(played(tmp_path, files, MAIN))
    expected = []
    for kernel in kernels:
        (entry,) = kernel.manifest.launches
        shared, threads = entry.dynamic_shared_bytes, entry.block[0] * entry.block[1]
        allowed = [f"attribute 8 of {kernel.name} is {shared} on 3"] if shared > 48 * 1024 else []
        expected += [f"attribute 9 of {kernel.name} is 50 on 3", *allowed]
        expected += [f"blocks of {kernel.name} with {threads} threads and {shared} bytes"]
    assert lines[: len(expected)] == expected
    assert re.match(r"launch product__32 \(16, 3125, 1\)", lines[-2])
    assert any(line.startswith("attribute 8 ") for line in expected)


def test_the_code_for_each_architecture_counts_its_own_blocks(kernels: tuple[Kernel, ...]) -> None:
    kernel = kernels[0]
    specific = generate(load_text(SPEC, target="sm_90a")[0], analysis=False)
    code = Code(specific.context, specific.plan, specific.manifest, CODE)
    source = embed(kernel.context, kernel.plan, kernel.manifest, CODE, [code]).source
    names = re.findall(r"^(?:static )?CUresult (\w+)_blocks_per_sm\(int\* blocks\)", source, re.MULTILINE)
    assert names == ["product__32_portable", "product__32_sm_90a", "product__32"]
