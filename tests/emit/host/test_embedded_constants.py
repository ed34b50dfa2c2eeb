"""Constants that the driver's launchers upload wait for the launches before, and for nothing outside of a graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.emit.host.embed import Image, embed
from cugen.kernel import generate
from cugen.spec.load import load_text
from tests.emit.host.recording_driver import PLAY, driver_for, played, without_loads

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
    (spec,) = load_text(CONSTANTS)
    kernel = generate(spec, analysis=False)
    texts = embed(kernel.context, kernel.plan, kernel.manifest, Image(bytes(64), ("sm_90",), "nobody"))
    main = PLAY.replace("INCLUDES", f'#include <vector>\n#include "weigh_embed.h"\n{LAUNCH}').replace("CALLS", calls)
    files = {**texts.texts(kernel.name), "driver.h": driver_for([kernel], 64)}
    return [line.split()[0] for line in without_loads(played(folder, files, main, compiler))]


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["gcc -std=c11", "g++ -std=c++17"])
def test_constants_wait_for_the_launches_of_the_call_before_in_each_context(tmp_path: Path, compiler: str) -> None:
    calls = "LAUNCH(1); LAUNCH(2); current_context = 6; LAUNCH(3); current_context = 5; LAUNCH(4);"
    words = words_of_constant_calls(tmp_path, compiler, calls)
    call = ["wait", "symbol", "from", "launch", "record"]
    assert words == ["event", *call, *call, "event", *call, *call]


def test_a_captured_call_waits_for_nothing_outside_of_its_graph(tmp_path: Path) -> None:
    words = words_of_constant_calls(tmp_path, "gcc -std=c11", "capturing = true; LAUNCH(1);")
    assert words == ["symbol", "from", "launch"]


@pytest.mark.slow
def test_a_call_that_can_not_wait_changes_no_constant_and_ends_its_lock(tmp_path: Path) -> None:
    calls = 'waiting = CUDA_ERROR_INVALID_HANDLE; std::printf("%d\\n", LAUNCH(1)); waiting = CUDA_SUCCESS; LAUNCH(2);'
    words = words_of_constant_calls(tmp_path, "gcc -std=c11", calls)
    assert words == ["event", "wait", "400", "wait", "symbol", "from", "launch", "record"]


@pytest.mark.slow
def test_calls_of_several_threads_upload_and_launch_one_after_the_other(tmp_path: Path) -> None:
    words = words_of_constant_calls(tmp_path, "gcc -std=c11", THREADS)
    assert words == ["event", *["wait", "symbol", "from", "launch", "record"] * 200]
