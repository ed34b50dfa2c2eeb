"""Drawn specs are planned, analysed and compiled without a fault."""

from __future__ import annotations

import shutil
import subprocess
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_text
from cugen.toolchain import locations, nvcc
from cugen.toolchain.codes import TARGET_UNKNOWN
from cugen.toolchain.cuda import compile_cubin, compilers
from cugen.toolchain.errors import CompileError

from . import operators, problems, slices
from .__main__ import faults
from .checks import compile_faults, plan_faults
from .operators import OPERATORS, draw

PER_BATCH = 125
BATCHES = 80  # of the slow test: 10,000 specs
COMPILED = 20  # in each of ten batches
COMPILED_BY_NVCC = 4  # which compiles the launcher too
WITH_HEADERS = 5


def test_a_seed_draws_one_spec_and_seeds_draw_all_operators():
    assert draw(7) == draw(7)
    assert len({draw(seed) for seed in range(200)}) == 200
    assert len(set(OPERATORS)) > 10


def _batch(first: int, number: int, count: int) -> range:
    """The seeds of a batch; CI runs some batches, a release all."""
    return range(first + number * count, first + (number + 1) * count)


def _faulty(seeds: range, of: ModuleType = operators) -> dict[int, list[str]]:
    return {seed: found for seed in seeds if (found := list(plan_faults(of.draw(seed), of.sizes(seed))))}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("batch", range(5))
def test_some_drawn_specs_have_no_fault(batch):
    assert _faulty(_batch(100_000, batch, 10)) == {}


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_ten_thousand_drawn_specs_have_no_fault(batch):
    assert _faulty(_batch(0, batch, PER_BATCH)) == {}


def test_drawn_problems_and_slices_are_valid():
    assert len(problems.problems()) > 80
    for text in (*map(problems.draw, range(40)), *map(slices.draw, range(10))):
        load_text(text)


def _with_an_empty_array(count: int) -> list[int]:
    """The first seeds of which an input may have other extents than the output, and a size at run time is 0."""
    seeds = (seed for seed in range(9, 1 << 20, 16) if 0 in operators.sizes(seed).values())
    return list(islice(seeds, count))


@pytest.mark.slow
@pytest.mark.parametrize("seed", _with_an_empty_array(12))
def test_drawn_specs_give_what_the_reference_gives_where_an_array_is_empty(seed):
    assert faults(seed, of="operators", compile=False, run="cpu") == []


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(8))
def test_four_hundred_drawn_problems_have_no_fault(batch):
    assert _faulty(range(50 * batch, 50 * (batch + 1)), problems) == {}


@pytest.mark.slow
def test_fifty_drawn_statements_that_share_out_an_output_have_no_fault():
    assert _faulty(range(50), slices) == {}


def check_headers(seeds: range, folder: Path) -> None:
    """Compiles the headers of drawn specs, each by itself in C and in C++."""
    folders = locations.include_folders()
    if not folders or shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("NO CUDA HEADERS, NO gcc OR NO g++, THE HEADERS OF DRAWN SPECS ARE UNTESTED")
    sources = {"gcc": [], "g++": []}
    for seed in seeds:
        (spec,) = load_text(draw(seed))
        kernel = generate(spec, remarks="none")
        (folder / str(seed)).mkdir()
        for name, text in kernel.headers.items():
            (folder / str(seed) / name).write_text(text)
        for compiler, suffix in (("gcc", "c"), ("g++", "cpp")):
            source = folder / f"{seed}.{suffix}"
            source.write_text(f'#include "{seed}/{kernel.name}.h"\ntypedef int used;\n')
            sources[compiler].append(str(source))
    system = [f"-isystem{path}" for path in folders]
    warnings = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only"]
    for compiler, standard in (("gcc", "c11"), ("g++", "c++17")):
        command = [compiler, f"-std={standard}", *warnings, *system, *sources[compiler]]
        done = subprocess.run(command, text=True, capture_output=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(10))
def test_headers_of_fifty_drawn_specs_are_c_and_cpp(batch, tmp_path):
    check_headers(_batch(60_000, batch, WITH_HEADERS), tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not compilers(), reason="no CUDA compiler on this machine")
@pytest.mark.parametrize("batch", range(10))
def test_drawn_kernels_compile_without_warnings_and_none_spills(batch):
    for seed in _batch(50_000, batch, COMPILED):
        (spec,) = load_text(draw(seed))
        assert list(compile_faults(generate(spec, remarks="none"))) == [], f"seed {seed}"


@pytest.mark.slow
@pytest.mark.skipif(nvcc.find() is None, reason="NO nvcc, THE LAUNCHERS OF DRAWN SPECS ARE UNTESTED")
@pytest.mark.parametrize("batch", range(10))
def test_nvcc_compiles_drawn_files_with_their_launchers_without_warnings(batch):
    for seed in _batch(61_000, batch, COMPILED_BY_NVCC):
        (spec,) = load_text(draw(seed))
        kernel = generate(spec)
        try:
            cubin = compile_cubin(kernel.source, kernel.name, spec.target, prefer="nvcc")
        except CompileError as error:
            if error.code != TARGET_UNKNOWN:
                raise
            continue  # a target that the compiler doesn't know any more
        assert [str(warning) for warning in cubin.warnings] == [], f"seed {seed}"
