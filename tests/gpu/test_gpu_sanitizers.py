"""The common operators, each in some type and shape, under the four tools of compute-sanitizer."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

OPERATORS = Path(__file__).with_name("test_gpu_operators.py")


@pytest.mark.parametrize("tool", ["memcheck", "racecheck", "synccheck", "initcheck"])
def test_the_operators_are_clean_under_a_tool_of_the_sanitizer(device, tool):
    if shutil.which("compute-sanitizer") is None:
        pytest.skip("NO GPU, NOT TESTED: compute-sanitizer is not on the PATH")
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=--import-mode=importlib", "-m", "not slow"]
    command = ["compute-sanitizer", "--tool", tool, sys.executable, "-m", "pytest", *options, str(OPERATORS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=OPERATORS.parents[2])
    said = done.stdout + done.stderr
    summaries = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (.*)", said)
    assert done.returncode == 0, said[-4000:]
    assert summaries, said[-4000:]
    assert all(summary.startswith("0 ") for summary in summaries), said[-4000:]
    assert re.search(r"\d+ passed", said), said[-4000:]
