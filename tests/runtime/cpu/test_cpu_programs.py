"""Kernels with their launchers as C++ of `cugen cpu`: in one program they give what the CPU device gives."""

from __future__ import annotations

import ctypes
import subprocess

import ml_dtypes
import numpy as np
import pytest

import cugen
from cugen.abi.manifest import ArrayArgument, ScalarArgument
from cugen.emit.host.cpu import COMPILER_FLAGS, INCLUDES, RUNTIME, cpu_text
from cugen.emit.resources import data_folder
from cugen.spec.load import load_text
from cugen.toolchain import host

pytestmark = pytest.mark.slow

# One for each thing that a launcher does: flags between blocks, dynamic shared memory, symbols, workspaces, half, none,
# texture objects, and clusters of blocks without and with dynamic shared memory.
GALLERY = (
    "prefix_sum",
    "matmul_dynamic_shared",
    "polynomial",
    "saxpy",
    "full_sum",
    "matmul_f16",
    "softmax",
    "tone_curve",
    "heat_torus",
)
CLUSTERS = {"long_rows": "cluster: 4", "long_rows_dynamic": "cluster: 2, threads: 32, registers: 8"}
NAMES = (*GALLERY, *CLUSTERS)
ROWS = """
cugen: 1
kernel: %s
params: {M: 5, N: 3000}
arrays: {x: {shape: [M, N], dtype: float32}, y: {shape: [M, N], dtype: float32}}
compute: y[i, j] = softmax(x[i, j], j)
schedule: {%s}
"""
SCALAR = {"float32": ctypes.c_float, "int32": ctypes.c_int}


@pytest.fixture(scope="module")
def kernels():
    specs = data_folder("specs")
    kernels_by_name = {name: cugen.generate(cugen.load(specs / f"{name}.yaml")) for name in GALLERY}
    for name, schedule in CLUSTERS.items():
        (spec,) = load_text(ROWS % (name, schedule))
        kernels_by_name[name] = cugen.generate(spec)
    return kernels_by_name


@pytest.fixture(scope="module")
def library(kernels, tmp_path_factory):
    """One shared library with all of them, so that what they name alike must not meet."""
    folder = tmp_path_factory.mktemp("library")
    for name, kernel in kernels.items():
        (folder / f"{name}.cu").write_text(kernel.source)
        for header, text in kernel.headers.items():
            (folder / header).write_text(text)
        (folder / f"{name}.json").write_text(kernel.manifest.to_json())
        (folder / f"{name}_cpu.cpp").write_text(cpu_text(folder / f"{name}.cu"))
    sources = [*(f"{name}_cpu.cpp" for name in kernels), RUNTIME]
    flags = [*COMPILER_FLAGS, "-O1", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", f"-I{INCLUDES}"]
    command = [*host.compiler().command, *flags, *sources, "-o", "library.so"]
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "library.so"))


def aligned(shape, dtype):
    """An array whose first element is aligned as textures have to be."""
    dtype = np.dtype(dtype)
    count = int(np.prod(shape, dtype=int)) * dtype.itemsize
    memory = np.zeros(count + 512, np.uint8)
    start = -memory.ctypes.data % 512
    return memory[start : start + count].view(dtype).reshape(shape)


@pytest.mark.parametrize("name", NAMES)
def test_a_launcher_gives_what_the_cpu_device_gives(kernels, library, name):
    kernel = kernels[name]
    random = np.random.default_rng(7)
    arrays, values, words = {}, {}, []
    for argument in kernel.manifest.arguments:
        if isinstance(argument, ArrayArgument):
            array = aligned(argument.shape, getattr(ml_dtypes, argument.dtype, argument.dtype))
            if argument.role != "output":
                array[...] = random.standard_normal(argument.shape)
                values[argument.name] = array.copy()
            arrays[argument.name] = array
            words.append(ctypes.c_void_p(array.ctypes.data))
        elif isinstance(argument, ScalarArgument):
            values[argument.name] = 1.5
            words.append(SCALAR[argument.dtype](1.5))
    if kernel.manifest.workspace:
        words.append(None)
    expected = cugen.run(kernel, device="cpu", **values)
    assert getattr(library, f"{name}_launch")(*words, None) == 0
    for output, value in expected.items():
        np.testing.assert_array_equal(arrays[output], value)
