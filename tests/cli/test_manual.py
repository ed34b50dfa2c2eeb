"""The page of the command line names every command with its options, and no option that there isn't."""

from __future__ import annotations

import argparse
import importlib
import re
from pathlib import Path

import pytest

from cugen.cli.main import COMMANDS

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text()
COMMON = {
    "--help",
    "--quiet",
    "--debug",
    "--gnu",
    "--set",
    "--target",
    "--kernel",
    "--lock",
    "--device-name",
    "--templates",
}


def options(command: str) -> set[str]:
    """The long options in the command's own help."""
    parser = argparse.ArgumentParser(command)
    importlib.import_module(f"cugen.cli.commands.{command}").add_arguments(parser)
    return named(parser.format_help())


def named(text: str) -> set[str]:
    return set(re.findall(r"--[a-z][a-z-]*", text))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_manual_names_each_option_of_a_command_in_its_section(command):
    section = PAGE.split(f"\n## {command}\n")[1].split("\n## ")[0]
    assert options(command) - COMMON <= named(section)


def test_the_manual_names_no_option_that_there_is_not():
    assert named(PAGE) <= COMMON.union(*map(options, COMMANDS))
