"""Texture objects of the driver's launchers: made once for each address, with their modes and filters."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from cugen.emit.host.embed import Image, embed
from cugen.kernel import generate
from cugen.spec.load import load_text
from tests.emit.host.recording_driver import PLAY, compiled, driver_for, expected

TEXTURES = """
cugen: 1
kernel: fetches
params: {N: dynamic}
arrays:
  x: {shape: [N], dtype: float16, memory: texture}
  w: {shape: [3], dtype: float32, memory: texture}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i] * w[1]
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_a_texture_object_is_made_once_for_each_address(tmp_path: Path, compiler: str) -> None:
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    (spec,) = load_text(TEXTURES)
    kernel = generate(spec, analysis=False)
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
    for file, text in texts.texts(kernel.name).items():
        (tmp_path / file).write_text(text)
    (tmp_path / "driver.h").write_text(driver_for([kernel], 64))
    calls = [
        f'    std::printf("%d\\n", fetches_launch(reinterpret_cast<const __half*>({x}ULL << 32), '
        f"reinterpret_cast<const float*>(2ULL << 32), reinterpret_cast<float*>(3ULL << 32), {n}, stream));"
        for x, n in ((1, 100), (1, 100), (4, 100), (1, 0))
    ]
    main = PLAY.replace("INCLUDES", '#include "fetches_embed.h"').replace("CALLS", "\n".join(calls))
    (tmp_path / "main.cpp").write_text(main)
    compiled(tmp_path, *compiler.split(), "-c", "fetches_embed.c")
    compiled(tmp_path, "g++", "-std=c++17", "main.cpp", "fetches_embed.o", "-o", "program")
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("load ")]
    first = expected(kernel, {"N": 100}, {}, given=False)
    second = expected(kernel, {"N": 100}, {}, given=False, with_textures=False)
    assert lines[: len(first) + len(second)] == first + second
    third = lines[len(first) + len(second) :]
    assert third[0] == "texture 2 400000000, 200 bytes of format 16 x 1, flags 1"
    assert [line.split()[0] for line in third] == ["texture", "launch", "0", "0"]


TEXTURES_2D = """
cugen: 1
kernel: fetches
params: {H: dynamic}
arrays:
  x: {shape: [H, 96], dtype: float16, memory: {space: texture, dims: 2}, boundary: MODE}
  w: {shape: [3], dtype: float32, memory: texture}
  y: {shape: [H, 96], dtype: float32}
compute: y[i, j] = x[i, j - 1] * w[1]
"""


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
@pytest.mark.parametrize("mode", ["zero", "clamp", "wrap", "symmetric"])
def test_a_2d_texture_object_is_made_once_for_each_address_and_size(tmp_path: Path, compiler: str, mode: str) -> None:
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    (spec,) = load_text(TEXTURES_2D.replace("MODE", mode))
    kernel = generate(spec, analysis=False)
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
    for file, text in texts.texts(kernel.name).items():
        (tmp_path / file).write_text(text)
    (tmp_path / "driver.h").write_text(driver_for([kernel], 64))
    calls = [
        f'    std::printf("%d\\n", fetches_launch(reinterpret_cast<const __half*>({x}ULL << 32), '
        f"reinterpret_cast<const float*>(2ULL << 32), reinterpret_cast<float*>(3ULL << 32), {h}, stream));"
        for x, h in ((1, 100), (1, 100), (4, 100), (1, 50), (1, 65001))
    ]
    main = PLAY.replace("INCLUDES", '#include "fetches_embed.h"').replace("CALLS", "\n".join(calls))
    (tmp_path / "main.cpp").write_text(main)
    compiled(tmp_path, *compiler.split(), "-c", "fetches_embed.c")
    compiled(tmp_path, "g++", "-std=c++17", "main.cpp", "fetches_embed.o", "-o", "program")
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("load ")]
    first = expected(kernel, {"H": 100}, {}, given=False)
    second = expected(kernel, {"H": 100}, {}, given=False, with_textures=False)
    assert lines[: len(first) + len(second)] == first + second
    others = [line for line in lines[len(first) + len(second) :] if not line.startswith("launch")]
    made = [line for line in others if line.startswith("texture 3")]
    assert [line.partition(",")[0] for line in made] == ["texture 3 400000000", "texture 3 100000000"]
    assert "96 x 50, pitch 192," in made[1]
    assert [line for line in others if not line.startswith("texture")] == ["0", "0", "1"]


def test_each_2d_texture_object_has_its_filter() -> None:
    (spec,) = load_text("""
cugen: 1
kernel: k
params: {H: 8, W: 8}
arrays:
  u: {shape: [H, W], dtype: float32, memory: {space: texture, dims: 2, filter: linear}, boundary: clamp}
  x: {shape: [H, W], dtype: float32, memory: {space: texture, dims: 2}, boundary: clamp}
  y: {shape: [H, W], dtype: float32}
compute: y[i, j] = u[i + 0.5, j] + x[i + 1, j]
""")
    kernel = generate(spec, analysis=False)
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
    source = texts.texts(kernel.name)["k_embed.c"]
    assert re.findall(r"\(CUdeviceptr\)(\w),[^;]*CU_TR_FILTER_MODE_(\w+)", source) == [("u", "LINEAR"), ("x", "POINT")]
    assert kernel.manifest.requires == ("texture_linear", "texture_2d")
    calls = re.findall(r"k_texture_2d\((\w),[^;]*cudaFilterMode(\w+)", kernel.source)
    assert calls == [("u", "Linear"), ("x", "Point")]


def test_bits_are_fetched_of_bfloat16_which_has_no_channel_format() -> None:
    (spec,) = load_text("""
cugen: 1
kernel: k
params: {N: 70}
arrays:
  x: {shape: [N], dtype: bfloat16, memory: texture}
  y: {shape: [N], dtype: bfloat16}
compute: y[i] = 2 * x[i]
""")
    kernel = generate(spec, analysis=False)
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
    assert re.search(r"\(CUdeviceptr\)x,[^;]*CU_AD_FORMAT_UNSIGNED_INT16", texts.texts(kernel.name)["k_embed.c"])
    assert "cudaCreateChannelDesc<unsigned short>()" in kernel.source
    assert kernel.manifest.requires == ("texture", "texture_bfloat16")
