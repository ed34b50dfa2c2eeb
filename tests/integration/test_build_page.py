"""The page about builds shows what is in the examples, and commands that there are."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cugen.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "build.md").read_text()
BLOCKS = re.findall(r"^```(\w+) ?(\S*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TAKEN = [pytest.param(file, text, id=file) for _, file, text in BLOCKS if file]
COMMANDS = [line for language, _, text in BLOCKS if language == "console" for line in text.splitlines()]


@pytest.mark.parametrize(("file", "text"), TAKEN)
def test_code_of_the_page_is_part_of_an_example(file, text):
    assert text in (ROOT / file).read_text()


def test_code_that_is_taken_from_nowhere_is_a_command_a_message_or_a_workflow():
    assert {language for language, file, _ in BLOCKS if not file} == {"console", "text", "yaml"}


def test_every_project_of_the_page_is_there_and_every_example_project_is_on_it():
    named = set(re.findall(r"\]\(\.\./(examples/[\w-]+)/", PAGE))
    marks = ("CMakeLists.txt", "pyproject.toml", "Makefile")
    there = {f"examples/{path.parent.name}" for mark in marks for path in (ROOT / "examples").glob(f"*/{mark}")}
    assert named == there


@pytest.mark.parametrize("command", [line for line in COMMANDS if line.startswith("cugen")])
def test_a_command_of_the_page_has_only_options_that_there_are(capsys, command):
    _, name, *words = shlex.split(command)
    main([name, "--help"])
    options = capsys.readouterr().out
    assert all(word in options for word in words if word.startswith("-"))


def test_the_workflow_gives_the_action_inputs_that_it_has():
    (text,) = [text for language, file, text in BLOCKS if language == "yaml" and not file]
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    used = yaml.safe_load(text)["steps"][1]["with"]
    assert used.keys() <= action["inputs"].keys()
    assert {name for name, declaration in action["inputs"].items() if declaration.get("required")} <= used.keys()


@pytest.mark.slow
def test_the_commands_without_any_build_system_make_a_program_that_computes(tmp_path):
    (block,) = [text for language, _, text in BLOCKS if language == "console" and "cugen cpu" in text]
    folder = Path(shutil.copytree(ROOT / "examples" / "cpp", tmp_path / "project"))
    program = tmp_path / "bin" / "cugen"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m cugen "$@"\n')
    program.chmod(0o755)
    variables = os.environ | {"PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["sh", "-e", "-c", block], cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("gemm of 96 x 64 x 128: 0 of 12288 elements differ\n")
