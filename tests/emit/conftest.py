"""A compiler for batches of little texts, and small specs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import cugen.runtime.cpu
from cugen.toolchain import host, process
from cugen.toolchain.errors import ToolMissing

_INCLUDE = Path(cugen.runtime.cpu.__file__).parent / "include"
_FLAGS = ("-std=c++17", "-O0", "-fno-strict-aliasing", "-ffp-contract=off", "-include", "cugen_cpu.h")


@pytest.fixture(scope="session")
def batch() -> Callable[[str], list[str]]:
    """Compiles a C++ program that sees the CPU device's header, runs it, and gives its lines. Undefined behaviour of
    signed integers ends it."""
    try:
        host.compiler()
    except ToolMissing as error:
        pytest.skip(f"NO C++ COMPILER, THE TEXT OF KERNELS IS UNTESTED: {error}")

    def run(source: str, *flags: str) -> list[str]:
        sanitize = ("-fsanitize=signed-integer-overflow,integer-divide-by-zero,shift", "-fno-sanitize-recover=all")
        built = host.build({"batch.cpp": source}, "batch.cpp", (*_FLAGS, *sanitize, *flags), (_INCLUDE,))
        finished = process.run([str(built.path)], "batch")
        return finished.output.splitlines()

    return run
