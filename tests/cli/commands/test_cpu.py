"""`cugen cpu`: C++ for a generated .cu, or why there is none."""

from __future__ import annotations

import pytest


@pytest.fixture
def kernel(cli, spec):
    cli("generate", spec, "-o", spec.parent)
    return spec.parent / "scale.cu"


def test_it_includes_the_source_as_it_is_and_repeats_the_launcher(cli, kernel):
    assert cli("cpu", kernel).out == f"wrote {kernel.with_name('scale_cpu.cpp')}\n"
    text = kernel.with_name("scale_cpu.cpp").read_text()
    assert '#include "scale.cu"' in text
    assert 'extern "C" cudaError_t scale_launch(' in text
    assert "cugen::launch<scale>({dim3(" in text
    assert "<<<" not in text


def test_lines_of_the_launcher_keep_their_numbers(cli, kernel):
    cli("cpu", kernel)
    after = kernel.with_name("scale_cpu.cpp").read_text().partition("#line ")[2]
    number, _, repeated = after.partition(' "scale.cu"\n')
    assert kernel.read_text().splitlines()[int(number) - 1 :][:8] == repeated.splitlines()[:8]


def test_a_current_file_is_not_touched_unless_it_is_always_written(cli, kernel):
    cli("cpu", kernel)
    made = kernel.with_name("scale_cpu.cpp")
    before = made.stat().st_mtime_ns
    assert cli("cpu", kernel).err == "1 file up to date\n"
    assert made.stat().st_mtime_ns == before
    cli("cpu", kernel, "--write", "always", "--quiet")
    assert made.stat().st_mtime_ns > before


def test_another_folder_is_made(cli, kernel, tmp_path):
    assert cli("cpu", kernel, "-o", tmp_path / "a" / "b").status == 0
    assert (tmp_path / "a" / "b" / "scale_cpu.cpp").is_file()


def test_a_file_that_cugen_did_not_write_is_refused(cli, kernel):
    strange = kernel.with_name("strange.cu")
    strange.write_text("__global__ void f() {}\n")
    answer = cli("cpu", strange)
    assert (answer.status, "isn't a .cu that cugen wrote" in answer.err) == (2, True)
    strange.write_bytes(b"\xff\xfe")
    assert "isn't a .cu that cugen wrote" in cli("cpu", strange).err
    assert cli("cpu", kernel.with_name("absent.cu")).status == 2
    kernel.with_suffix(".json").write_text("[]")
    assert "isn't the manifest" in cli("cpu", kernel).err
    kernel.with_suffix(".json").unlink()
    assert cli("cpu", kernel).status == 2
