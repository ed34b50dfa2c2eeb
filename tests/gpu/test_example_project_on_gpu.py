"""`examples/cpp`, built by CMake with nvcc, runs on the GPU."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.gpu


def test_the_programs_of_the_example_project_compute_on_the_gpu(device, tmp_path):
    folder = Path(shutil.copytree(ROOT / "examples" / "cpp", tmp_path / "project"))
    program = tmp_path / "cugen"
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m cugen "$@"\n')
    program.chmod(0o755)
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"], "/usr/local/cuda/bin"])
    variables = os.environ | {"PATH": path}

    def run(*words: object) -> str:
        done = subprocess.run(
            list(map(str, words)), cwd=folder, env=variables, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    given = ["-DCUGEN_DEVICE=gpu", f"-DCUGEN_EXECUTABLE={program}", f"-Dcugen_DIR={ROOT / 'cugen' / 'cmake'}"]
    run("cmake", "-G", "Ninja", "-B", "build", *given)
    run("cmake", "--build", "build")
    assert run("build/gemm") == "gemm of 96 x 64 x 128: 0 of 12288 elements differ\n"
    assert run("build/vectors") == "sum of 100003 elements: 500008, expected 500008\n"
