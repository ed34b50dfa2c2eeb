"""The examples with PyTorch's and CuPy's arrays, as far as they run without either."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cugen

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.slow
def test_the_example_with_cupy_runs_on_the_cpu_with_numpy() -> None:
    call = [sys.executable, str(EXAMPLES / "cupy" / "blend.py"), "--device", "cpu"]
    said = subprocess.run(call, check=True, capture_output=True, text=True, timeout=120).stdout
    assert "error[CG5006]: `opacity` has strides of [0, 4] bytes" in said
    assert said.splitlines()[-1] == "blended 480 × 640 pixels on the cpu"


@pytest.mark.parametrize(
    ("example", "script"), [("torch_op/norm", "norm.py"), ("torch_op/norm", "shard.py"), ("cupy/blend", "blend.py")]
)
def test_the_specs_and_scripts_of_the_examples_are_sound(example: str, script: str) -> None:
    path = EXAMPLES / f"{example}.yaml"
    assert cugen.generate(cugen.load(path)).name in path.read_text()
    compile(path.with_name(script).read_text(), script, "exec")
