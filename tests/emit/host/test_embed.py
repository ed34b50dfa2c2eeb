"""Machine code in a C array and its launcher: compiled as C and as C++, and played against a driver that writes down
each call."""

from __future__ import annotations

import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from cugen.abi.manifest import ScalarArgument
from cugen.emit.host.embed import Embedded, Image, embed, images_of
from cugen.emit.host.launcher import make_launcher
from cugen.kernel import Kernel, generate
from cugen.spec.load import load_all
from cugen.spec.types import DTYPES
from cugen.toolchain.cuda import compile_cubin
from tests.emit.host.recording_driver import PLAY, compiled, driver_for, expected

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
