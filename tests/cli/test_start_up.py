"""What a build step pays: nothing heavy is imported until something has to be generated, and nothing of clusters
without `--scheduler`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
import json, sys
from cugen.cli.main import main
status = main(sys.argv[1:])
sys.stdout.flush()
heavy = {"sympy", "numpy", "jinja2", "yaml", "dask", "distributed", "cugen.cluster"}
print("\\n" + json.dumps([status, sorted(set(sys.modules) & heavy)]))
"""


def loaded(*words: object) -> tuple[int, list[str]]:
    """The exit status, and the heavy modules that a fresh interpreter has after a command."""
    command = [sys.executable, "-c", _PROGRAM, *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    status, modules = json.loads(done.stdout.splitlines()[-1])
    return status, modules


@pytest.mark.parametrize(
    "words", [("--help",), ("--version",), ("generate", "--help"), ("run", "--help"), ("config", "--templates")]
)
def test_what_needs_no_spec_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    assert loaded(*words) == (0, [])


def test_explaining_a_code_imports_nothing_heavy() -> None:
    assert loaded("explain", "CG1048") == (0, [])


@pytest.mark.slow
def test_generating_what_is_current_imports_nothing_heavy(spec: Path, tmp_path: Path) -> None:
    first, modules = loaded("generate", spec, "-o", tmp_path / "out")
    assert first == 0
    assert "sympy" in modules  # or this test couldn't fail
    assert not {"dask", "distributed", "cugen.cluster"} & set(modules)
    assert loaded("generate", spec, "-o", tmp_path / "out") == (0, [])
    assert loaded("generate", spec, "-o", tmp_path / "out", "--list") == (0, [])
    (tmp_path / "out" / "cugen_launch.hpp").unlink()
    assert loaded("generate", spec, "-o", tmp_path / "out") == (0, ["jinja2"])
    assert loaded("generate", "-o", tmp_path / "out", "--emit", "launch") == (0, [])
    spec.write_text(spec.read_text() + "# a comment has to be read before it is known to be one\n")
    assert loaded("generate", spec, "-o", tmp_path / "out") == (0, ["yaml"])


def test_importing_the_package_imports_nothing() -> None:
    program = "import cugen, sys; print(sorted(m for m in sys.modules if m.startswith('cugen')))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "['cugen', 'cugen.moved', 'cugen.run', 'cugen.version']\n"


def test_help_reads_no_more_than_a_few_dozen_modules() -> None:
    command = [sys.executable, "-X", "importtime", "-m", "cugen", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env={**os.environ})
    modules = [line for line in done.stderr.splitlines() if "| " in line and " cugen" in line]
    assert len(modules) < 12
