"""Machine code in a C array and its launcher: compiled as C and as C++, and played against a driver that writes down
each call."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from cugen.abi.limits import dynamic_limits
from cugen.abi.manifest import ArrayArgument, LaunchEntry, ParamArgument, ScalarArgument
from cugen.abi.sizes import evaluate, evaluate_all
from cugen.abi.textures import ADDRESS_MODES, texture_memory
from cugen.emit.host.embed import Code, Embedded, Image, embed, images_of
from cugen.emit.host.launcher import make_launcher
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_all, load_text
from cugen.spec.types import DTYPES
from cugen.toolchain import locations
from cugen.toolchain.cuda import compile_cubin

NAMES = ("full", "large_tiles", "outside", "waits")  # of kernels in launchers.yaml
# The arguments of each call as C++ writes them, and the values of the params.
CALLS = [
    ("full", "at(1), at(2), bf(3), s, 7, 12, 8, nullptr, stream", {"M": 12, "N": 8}, False),
    ("full", "at(1), at(2), bf(3), s, 7, 100000, 0, raw(9), stream", {"M": 100000, "N": 0}, True),
    ("large_tiles", "at(1), at(2), at(3), stream", {}, False),
    ("outside", "ch(1), 1000, stream", {"M": 1000}, False),
    ("outside", "ch(1), 400, stream", {"M": 400}, False),
    ("outside", "ch(1), 7, stream", {"M": 7}, False),
    ("waits", "at(1), at(2), 1000000, nullptr, stream", {"N": 1000000}, False),
    ("waits", "at(1), at(2), 0, raw(9), stream", {"N": 0}, True),
]
REFUSED = [
    "full_launch(at(1), at(2), bf(3), s, 7, 0, 0, nullptr, stream)",
    "full_launch(at(1), at(2), bf(3), s, 7, 6, 2, nullptr, stream)",
    "full_launch(at(1), at(2), bf(3), s, 7, 8, -4, nullptr, stream)",
    "full_launch(at(1), at(2), bf(3), s, 7, 8, 12, nullptr, stream)",
    "full_launch(at(1), at(2), bf(3), s, 7, 8, 3, nullptr, stream)",
    "outside_launch(ch(1), -1, stream)",
]

TENSOR_MAP_BYTES = 128
FORMATS = {"float32": 32, "float16": 16}  # CU_AD_FORMAT_*
DRIVER = (Path(__file__).parents[2] / "data" / "recording_driver.h").read_text()

MAIN = """
#include "driver.h"
#include <chrono>
#include <thread>
#include <vector>
#include "full_embed.h"
#include "large_tiles_embed.h"
#include "outside_embed.h"
#include "waits_embed.h"

static float* at(unsigned long long number) { return reinterpret_cast<float*>(number << 32); }
static __nv_bfloat16* bf(unsigned long long number) { return reinterpret_cast<__nv_bfloat16*>(number << 32); }
static signed char* ch(unsigned long long number) { return reinterpret_cast<signed char*>(number << 32); }
static void* raw(unsigned long long number) { return reinterpret_cast<void*>(number << 32); }

int main()
{
    const CUstream stream = reinterpret_cast<CUstream>(0x77);
    const __half s = __half_raw{0x3c01};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i)
        threads.emplace_back([] { full_load(); });
    for (std::thread& thread : threads)
        thread.join();
    std::printf("%d library after 8 threads\\n", libraries_loaded.load());
CALLS
REFUSED
    const auto error = full_launch({at(1), 6}, {at(2), 8}, {bf(3), 6}, s, 7, 2, nullptr, stream);
    std::printf("%d %s %s\\n", error.status, error.code.c_str(), error.message.c_str());
    failing = CUDA_ERROR_OUT_OF_MEMORY;
    const auto late = full_launch({at(1), 12}, {at(2), 8}, {bf(3), 12}, s, 7, 8, nullptr, stream);
    std::printf("%d|%s|%s\\n", late.status, late.code.c_str(), late.message.c_str());
    return 0;
}
"""
WORDS = "`M` is 6; the kernel was made for multiples of 4"
WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror")


@pytest.fixture(scope="module")
def kernels(kernel_named: Callable[[str], Kernel]) -> dict[str, Kernel]:
    return {name: kernel_named(name) for name in NAMES}


@pytest.fixture(scope="module")
def cubins(kernels: dict[str, Kernel]) -> dict[str, bytes]:
    return {name: compile_cubin(kernel.source, name, "sm_90", lines=False).image for name, kernel in kernels.items()}


@pytest.fixture(scope="module")
def embedded(kernels: dict[str, Kernel], cubins: dict[str, bytes]) -> dict[str, Embedded]:
    return {
        name: embed(kernel.context, kernel.plan, kernel.manifest, Image(cubins[name], ("sm_90",), "nvrtc 13.0"))
        for name, kernel in kernels.items()
    }


@pytest.fixture(scope="module")
def folder(embedded: dict[str, Embedded], tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    sources = tmp_path_factory.mktemp("embed")
    for name, files in embedded.items():
        for file, text in files.texts(name).items():
            (sources / file).write_text(text)
    return sources


def compiled(folder: Path, *words: str) -> None:
    includes = [f"-isystem{path}" for path in locations.include_folders()]
    done = subprocess.run([*words, *WARNINGS, *includes], cwd=folder, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def played(kernels: dict[str, Kernel], cubins: dict[str, bytes], folder: Path) -> list[str]:
    """The calls of the driver and their results, line by line."""
    (folder / "driver.h").write_text(driver_for(kernels.values(), min(map(len, cubins.values()))))
    calls = [f'std::printf("%d\\n", {name}_launch({arguments}));' for name, arguments, _, _ in CALLS]
    refused = [f'std::printf("%d ", {call});' for call in REFUSED]
    main = MAIN.replace("CALLS", "\n".join(f"    {call}" for call in calls))
    (folder / "main.cpp").write_text(main.replace("REFUSED", "\n".join(f"    {call}" for call in refused)))
    for name in kernels:
        compiled(folder, "gcc", "-std=c11", "-c", f"{name}_embed.c")
    objects = [f"{name}_embed.o" for name in kernels]
    compiled(folder, "g++", "-std=c++17", "main.cpp", *objects, "-pthread", "-o", "program")
    done = subprocess.run([str(folder / "program")], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0
    return done.stdout.splitlines()


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


@pytest.mark.slow
def test_the_driver_gets_the_calls_of_the_manifest(kernels, played) -> None:
    scalars = {"s": b"\x01\x3c", "v": b"\7\0\0\0"}
    names = [name for name, _, _, _ in CALLS]
    wanted = [
        line
        for number, (name, _, params, given) in enumerate(CALLS)
        for line in expected(kernels[name], params, scalars, given=given, with_event=name not in names[:number])
    ]
    begin = played.index("1 library after 8 threads") + 1
    calls = [line for line in played[begin:] if not line.startswith("load ")]
    assert calls[: len(wanted)] == wanted


@pytest.mark.slow
def test_the_code_is_loaded_once_and_is_the_compilers(played, cubins) -> None:
    shortest = min(map(len, cubins.values()))
    sums = {f"load {zlib.crc32(image[:shortest])}": name for name, image in cubins.items()}
    loads = [sums[line] for line in played if line in sums]
    begin = played.index("1 library after 8 threads")
    assert loads[:begin] == ["full"] * begin
    assert loads[begin:] == ["large_tiles", "outside", "waits"]


def test_bad_calls_are_refused_before_any_call_of_the_driver(played) -> None:
    line = played.index("1 " * len(REFUSED) + f"1 CG5009 {WORDS}")
    assert played[line - 1] == "0"  # of the last call that was right


def test_what_the_driver_refuses_comes_back_in_its_words(played) -> None:
    assert played[-1] == "2||out of memory"
    assert played[-2].startswith("allocate ")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "full" else pytest.mark.slow) for n in NAMES])
def test_a_cpp_compiler_takes_the_c_file_too(folder, name) -> None:
    compiled(folder, "g++", "-std=c++17", "-fsyntax-only", f"{name}_embed.c")


def test_the_code_can_be_read_back(embedded, cubins) -> None:
    for name, files in embedded.items():
        (image,) = images_of(files.source)
        assert image.content.rstrip(b"\0") == cubins[name].rstrip(b"\0")
        assert (image.targets, image.compiler) == (("sm_90",), "nvrtc 13.0")
    assert images_of(embedded["full"].header) == ()


def test_the_targets_and_the_compiler_can_be_read_back_from_a_broken_line(kernels) -> None:
    kernel = kernels["full"]
    targets = tuple(f"sm_{number}" for number in range(70, 100))
    files = embed(kernel.context, kernel.plan, kernel.manifest, Image(b"code" * 2, targets, "nvrtc 13.0"))
    assert images_of(files.source) == (Image(b"code" * 2, targets, "nvrtc 13.0"),)


def test_nothing_of_the_runtime_is_included(embedded) -> None:
    for files in embedded.values():
        assert "cuda_runtime" not in files.header + files.typed_header + files.source


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


def argument(text: str, number: int, params: dict[str, int]) -> str:
    """A value for a parameter of the launcher as C declares it."""
    kind, _, name = text.rpartition(" ")
    if kind.endswith("*"):
        return "nullptr" if name == "workspace" else f"reinterpret_cast<{kind}>({number + 1}ULL << 32)"
    return str(params[name]) if name in params else f"of_ones<{kind}>()"


@pytest.mark.slow
def test_the_whole_gallery_is_launched_as_the_manifests_say(tmp_path: Path) -> None:
    """All in one program, in which each file is compiled as C++."""
    if shutil.which("g++") is None:
        pytest.skip("NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    paths = sorted((Path(__file__).parents[3] / "specs").glob("*.yaml"))
    kernels = [generate(spec, analysis=False) for path in paths for spec in load_all(path)]
    calls, wanted = [], []
    for kernel in kernels:
        texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
        for file, text in texts.texts(kernel.name).items():
            (tmp_path / file).write_text(text)
        params = {
            p.name: max(min(p.maximum, 100) // p.multiple_of * p.multiple_of, p.minimum)
            for p in kernel.spec.params
            if p.is_dynamic
        }
        parameters = make_launcher(kernel.context, kernel.plan).parameters
        given = ", ".join([*(argument(text, number, params) for number, text in enumerate(parameters)), "stream"])
        calls.append(f'    std::printf("%d\\n", {kernel.name}_launch({given}));')
        scalars = {
            a.name: b"\1" * DTYPES[a.dtype].bytes for a in kernel.manifest.arguments if isinstance(a, ScalarArgument)
        }
        wanted += expected(kernel, {**kernel.manifest.params, **params}, scalars, given=False)
    (tmp_path / "driver.h").write_text(driver_for(kernels, 64))
    includes = "\n".join(f'#include "{kernel.name}_embed.c"' for kernel in kernels)
    (tmp_path / "main.cpp").write_text(PLAY.replace("INCLUDES", includes).replace("CALLS", "\n".join(calls)))
    compiled(tmp_path, "g++", "-std=c++17", "main.cpp", "-o", "program")
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0
    assert [line for line in done.stdout.splitlines() if not line.startswith("load ")] == wanted


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


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(8)
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


CONSTANTS = """
cugen: 1
kernel: weigh
params: {N: dynamic}
scalars: {c: {dtype: int32, memory: constant}}
arrays:
  launched: {shape: [N], dtype: int32}
  y: {shape: [N], dtype: int32}
compute: y[i] = launched[i] * c
"""
# The code is loaded first: threads may load it at once, and would print amid the lines of a call.
THREADS = """
    weigh_load();
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread)
        threads.emplace_back([=] {
            for (int call = 0; call < 50; ++call)
                LAUNCH(thread);
        });
    for (std::thread& thread : threads)
        thread.join();
"""
LAUNCH = """#define LAUNCH(c) \\
    weigh_launch(reinterpret_cast<const int*>(1ULL << 32), reinterpret_cast<int*>(2ULL << 32), c, 100, stream)"""


def words_of_constant_calls(folder: Path, compiler: str, calls: str) -> list[str]:
    """The first word of each line of a driver."""
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    (spec,) = load_text(CONSTANTS)
    kernel = generate(spec, analysis=False)
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
    for file, text in texts.texts(kernel.name).items():
        (folder / file).write_text(text)
    (folder / "driver.h").write_text(driver_for([kernel], 64))
    main = PLAY.replace("INCLUDES", f'#include <vector>\n#include "weigh_embed.h"\n{LAUNCH}').replace("CALLS", calls)
    (folder / "main.cpp").write_text(main)
    compiled(folder, *compiler.split(), "-c", "weigh_embed.c")
    compiled(folder, "g++", "-std=c++17", "main.cpp", "weigh_embed.o", "-pthread", "-o", "program")
    done = subprocess.run([str(folder / "program")], text=True, capture_output=True, timeout=60)
    assert done.returncode == 0
    return [line.split()[0] for line in done.stdout.splitlines() if not line.startswith("load ")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_constants_wait_for_the_launches_of_the_call_before_in_each_context(tmp_path: Path, compiler: str) -> None:
    calls = "LAUNCH(1); LAUNCH(2); current_context = 6; LAUNCH(3); current_context = 5; LAUNCH(4);"
    words = words_of_constant_calls(tmp_path, compiler, calls)
    call = ["wait", "symbol", "from", "launch", "record"]
    assert words == ["event", *call, *call, "event", *call, *call]


def test_a_captured_call_waits_for_nothing_outside_of_its_graph(tmp_path: Path) -> None:
    words = words_of_constant_calls(tmp_path, "gcc -std=c11", "capturing = true; LAUNCH(1);")
    assert words == ["symbol", "from", "launch"]


def test_a_call_that_can_not_wait_changes_no_constant_and_ends_its_lock(tmp_path: Path) -> None:
    calls = 'waiting = CUDA_ERROR_INVALID_HANDLE; std::printf("%d\\n", LAUNCH(1)); waiting = CUDA_SUCCESS; LAUNCH(2);'
    words = words_of_constant_calls(tmp_path, "gcc -std=c11", calls)
    assert words == ["event", "wait", "400", "wait", "symbol", "from", "launch", "record"]


def test_calls_of_several_threads_upload_and_launch_one_after_the_other(tmp_path: Path) -> None:
    words = words_of_constant_calls(tmp_path, "gcc -std=c11", THREADS)
    assert words == ["event", *["wait", "symbol", "from", "launch", "record"] * 200]


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


# For sm_90 split along K, through a workspace; for sm_90a by wgmma, without.
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
    """For sm_90 and sm_90a."""
    portable, specific = (
        generate(spec, analysis=False) for name in ("sm_90", "sm_90a") for spec in load_text(PRODUCT, target=name)
    )
    assert (bool(portable.manifest.workspace), bool(specific.manifest.workspace)) == (True, False)
    return portable, specific


def embedded_both(portable: Kernel, specific: Kernel) -> Embedded:
    images = Image(bytes(64), ("sm_80", "sm_90"), "nobody"), Image(bytes(range(72)), ("sm_90a",), "somebody")
    code = Code(specific.context, specific.plan, specific.manifest, images[1])
    return embed(portable.context, portable.plan, portable.manifest, images[0], [code])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_a_device_runs_the_code_of_its_own_architecture(
    products: tuple[Kernel, Kernel], tmp_path: Path, compiler: str
) -> None:
    if shutil.which("g++") is None or shutil.which("gcc") is None:
        pytest.skip("NO gcc OR NO g++, THE DRIVER'S LAUNCHER IS UNTESTED")
    for file, text in embedded_both(*products).texts("product").items():
        (tmp_path / file).write_text(text)
    (tmp_path / "driver.h").write_text(DRIVER.replace("{KNOWN}", '{{"product", {0}}}').replace("IMAGE_BYTES", "64"))
    (tmp_path / "main.cpp").write_text(CHOOSE)
    compiled(tmp_path, *compiler.split(), "-c", "product_embed.c")
    compiled(tmp_path, "g++", "-std=c++17", "main.cpp", "product_embed.o", "-o", "program")
    done = subprocess.run([str(tmp_path / "program")], text=True, capture_output=True, timeout=60)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("attribute")]

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
    assert [product.manifest.arguments[0].alignment for product in products] == [2, 16]
    assert "// Devices of compute capability 9.0 run code for sm_90a.\n" in files.header
    assert "// There A must be aligned to 16 bytes.\n" in files.header
    assert re.search(r'array\("A", A, \{.*?\}, \{.*?\}, 16\b', files.typed_header)


def test_the_codes_of_several_sources_can_be_read_back(products: tuple[Kernel, Kernel]) -> None:
    assert images_of(embedded_both(*products).source) == (
        Image(bytes(64), ("sm_80", "sm_90"), "nobody"),
        Image(bytes(range(72)), ("sm_90a",), "somebody"),
    )
