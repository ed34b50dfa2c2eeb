"""A driver that prints its calls, programs that play the launchers on it, and the calls that a manifest requires."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

from cugen.abi.limits import dynamic_limits
from cugen.abi.manifest import ArrayArgument, LaunchEntry, ParamArgument, ScalarArgument
from cugen.abi.sizes import evaluate, evaluate_all
from cugen.abi.textures import ADDRESS_MODES, texture_memory
from cugen.kernel import Kernel
from cugen.spec.types import DTYPES
from cugen.toolchain import locations

TENSOR_MAP_BYTES = 128
FORMATS = {"float32": 32, "float16": 16}  # CU_AD_FORMAT_*
DRIVER = (Path(__file__).parents[2] / "data" / "recording_driver.h").read_text()
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")

PLAY = """
#include "driver.h"
#include <chrono>
INCLUDES

template <typename T>
static T of_ones()
{
    T value;
    std::memset(static_cast<void*>(&value), 1, sizeof value);
    return value;
}

int main()
{
    const CUstream stream = reinterpret_cast<CUstream>(0x77);
CALLS
    return 0;
}
"""


def compiled(folder: Path, *words: str) -> None:
    includes = [f"-isystem{path}" for path in locations.include_folders()]
    done = subprocess.run([*words, *WARNINGS, *includes], cwd=folder, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


def played(folder: Path, texts: Mapping[str, str], main: str, compiler: str = "gcc -std=c11") -> list[str]:
    """The lines that a program in C++ prints, with the C files of `texts` in the language of a compiler."""
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    for file, text in {**texts, "main.cpp": main}.items():
        (folder / file).write_text(text)
    sources = [file for file in texts if file.endswith(".c")]
    for source in sources:
        compiled(folder, *compiler.split(), "-c", source)
    objects = [f"{Path(source).stem}.o" for source in sources]
    compiled(folder, "g++", "-std=c++17", "main.cpp", *objects, "-pthread", "-o", "program")
    done = subprocess.run([str(folder / "program")], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def without_loads(lines: Iterable[str]) -> list[str]:
    """All lines but those of code that is loaded."""
    return [line for line in lines if not line.startswith("load ")]


def driver_for(kernels: Iterable[Kernel], image_bytes: int) -> str:
    known = ", ".join(
        f'{{"{launch.kernel}", {{{", ".join(map(str, [*sizes(kernel, launch), 0]))}}}}}'
        for kernel in kernels
        for launch in kernel.manifest.launches
    )
    return DRIVER.replace("{KNOWN}", f"{{{known}}}").replace("IMAGE_BYTES", str(image_bytes))


def sizes(kernel: Kernel, launch: LaunchEntry) -> Iterator[int]:
    """Bytes of each parameter of a launch."""
    scalars = {a.name: DTYPES[a.dtype].bytes for a in kernel.manifest.arguments if not isinstance(a, ArrayArgument)}
    yield from (TENSOR_MAP_BYTES for _ in launch.tensor_maps)
    yield from (scalars.get(name, 8) for name in launch.arguments)


def expected(
    kernel: Kernel,
    params: dict[str, int],
    scalars: dict[str, bytes],
    *,
    given: bool,
    with_textures: bool = True,
    with_event: bool = True,
) -> list[str]:
    """The calls that a manifest requires. Arrays are at 1 << 32, 2 << 32, … in their order, the workspace at 9 << 32
    where it is given. A texture object is 7 more than the address; `with_textures`, they are made by this call,
    `with_event`, the event that serialises calls."""
    manifest = kernel.manifest
    addresses = [a.name for a in manifest.arguments if isinstance(a, ArrayArgument)]
    values = {name: ((number + 1) << 32).to_bytes(8, "little") for number, name in enumerate(addresses)}
    start, total = (9 << 32 if given else 0x500000000000), 0
    for space in manifest.workspace:
        values[space.name] = (start + total).to_bytes(8, "little")
        total += (evaluate(space.elements, params) * DTYPES[space.dtype].bytes + 255) // 256 * 256
    for argument in manifest.arguments:
        if isinstance(argument, ParamArgument):
            values[argument.name] = params[argument.name].to_bytes(4, "little")
        elif isinstance(argument, ScalarArgument):
            values[argument.name] = scalars[argument.name]
    lines = []
    for name, memory in texture_memory(manifest, {**manifest.params, **params}) if with_textures else ():
        address, kind = int.from_bytes(values[name], "little"), FORMATS[memory.dtype]
        text = f"texture {2 + memory.is_2d} {address:x}, "
        if memory.is_2d:
            text += f"{memory.width} x {memory.height}, pitch {memory.pitch}, of format {kind} x 1, "
            mode = ADDRESS_MODES.index(memory.address_mode)
            flags = 3 if memory.is_normalized else 1
            lines.append(f"{text}modes {mode} {mode}, filter {int(memory.is_linear)}, flags {flags}")
        else:
            lines.append(f"{text}{memory.bytes} bytes of format {kind} x 1, flags 1")
    for array in manifest.texture_arguments():
        values[array.name] = (int.from_bytes(values[array.name], "little") + 7).to_bytes(8, "little")
    if manifest.workspace and not given:
        lines.append(f"allocate {total}")
    for entry in manifest.tensor_maps:
        address = int.from_bytes(values[entry.argument], "little")
        lines.append(f"{'im2col' if entry.steps else 'tensor'} map of rank {len(entry.sizes)} at {address:x}")
        values[entry.name] = address.to_bytes(TENSOR_MAP_BYTES, "little")
    if manifest.uploads:
        lines += ["event of context 5, flags 2"] * with_event + ["wait 5"]
    for upload in manifest.uploads:
        lines.append(f"symbol {upload.symbol}")
        content = values[upload.argument]
        if upload.argument in addresses:
            lines.append(f"on the device 700 {int.from_bytes(content, 'little'):x} {upload.bytes}")
        else:
            lines.append(f"from the host 700:{content.hex()}")
    for space in manifest.workspace:
        if space.zeroed:
            size = evaluate(space.elements, params) * DTYPES[space.dtype].bytes
            lines.append(f"fill {int.from_bytes(values[space.name], 'little'):x} with 0, {size}")
    for launch in manifest.launches:
        grid = evaluate_all(launch.grid, params)
        if 0 in grid:
            continue
        if any(known.carveout is not None for known in manifest.launches):
            carveout = -1 if launch.carveout is None else launch.carveout
            lines.append(f"attribute 9 of {launch.kernel} is {carveout} on 3")
        if launch.kernel in dynamic_limits(manifest):
            lines.append(f"attribute 8 of {launch.kernel} is {launch.dynamic_shared_bytes} on 3")
        arguments = "".join(f" {values[name].hex()}" for name in (*launch.tensor_maps, *launch.arguments))
        shared = launch.dynamic_shared_bytes
        lines.append(f"launch {launch.kernel} {grid} {launch.block} {shared} on the stream{arguments}")
    if manifest.uploads:
        lines.append("record 5")
    if manifest.workspace and not given:
        lines.append(f"free {start:x}")
    return [*lines, "0"]
