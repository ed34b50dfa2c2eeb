"""On a terminal of 60, 80 and 120 columns no line is wider, and elsewhere the output doesn't depend on one."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from cugen.cli.main import COMMANDS
from cugen.emit.resources import data_folder

ROOT = Path(__file__).parents[2]
WIDTHS = (60, 80, 120)
PROGRAM = """
import fcntl, json, struct, sys, termios
from cugen.cli.main import main
for columns, words in json.loads(sys.argv[1]):
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    print("\\x1e", columns, *words, flush=True)
    main(words)
"""
BAD = """\
cugen: 1
kernel: bad
params: {rows: 1000, columns: 777}
arrays:
  matrix: {shape: [rows, columns], dtype: float32}
  result: {shape: [rows, columns], dtype: floot32}
  scaled_and_shifted_values: {shape: [rows, columns], dtype: float32}
compute: |
  scaled_and_shifted_values[row, column] = 2 * matrix[row + 1, column] + result[row, column]
"""
# What is no sentence: quoted source with the marks below it, and a patch.
SOURCE = re.compile(r" *\d+ [|>] | *\| +\^+|[-+ @].*[{:]")


Output = dict[int, dict[str, list[str]]]


def on_terminals(commands: Sequence[Sequence[str]], folder: Path, builds: Path) -> Output:
    """The lines of each command on a terminal of each width, without colours."""
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(ROOT), "CUGEN_CACHE_DIR": str(builds)}
    environment.pop("COLUMNS", None)
    environment.pop("NO_COLOR", None)
    work = json.dumps([(columns, command) for columns in WIDTHS for command in commands])
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, work], cwd=folder, stdin=slave, stdout=slave, stderr=slave, env=environment
    )
    os.close(slave)
    printed = b""
    while part := _read(master):
        printed += part
    os.close(master)
    assert child.wait() == 0, printed.decode()
    assert b"\033[" in printed
    plain = re.sub(r"\033\[[\d;]*[mK]", "", printed.decode().replace("\r\n", "\n"))
    output: Output = {columns: {} for columns in WIDTHS}
    for part in plain.split("\x1e ")[1:]:
        head, _, text = part.partition("\n")
        columns, _, command = head.partition(" ")
        output[int(columns)][command] = text.split("\n")
    assert all(len(lines) == len(commands) for lines in output.values())
    return output


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the end, on Linux
        return b""


def wide(lines: Sequence[str], columns: int) -> list[str]:
    """The lines that are wider than the terminal, although they could be broken."""
    drawn = [line.rpartition("\r")[2] for line in lines]  # over a progress bar
    sentences = [line for line in drawn if len(line) > columns and not SOURCE.match(line)]
    return [line for line in sentences if " " in re.sub(r"^.* {2,}", "", line.strip())]


def quick_calls() -> tuple[tuple[str, ...], ...]:
    """Commands that neither search nor build."""
    return (
        ("--help",),
        *((name, "--help") for name in COMMANDS),
        ("new", "--list"),
        ("explain",),
        ("explain", "CG2108"),
        ("explain", "CG1304"),  # a line breaks inside of code
        ("inspect", "--threads", "256", "--registers", "33", "--target", "sm_90"),
        ("generate", "bad.yaml"),
        ("explain", "CG1304", "bad.yaml"),
        ("check", "--format", "tekst", "bad.yaml"),
        ("check", "conflicts.yaml"),
        ("nonsense",),
    )


def calls(specs: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    files = [str(data_folder("specs") / f"{name}.yaml") for name in specs]
    return (
        *quick_calls(),
        ("doctor",),
        *(("check", file) for file in files),
        *(("inspect", "--what", what, file) for what in ("plan", "analysis") for file in files),
        ("fix", files[0]),
        ("fix", "conflicts.yaml"),
        ("check", "--diff", "scale.yaml", "conflicts.yaml"),
        ("run", "scale.yaml"),
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "bad.yaml").write_text(BAD)
    text = (data_folder("specs") / "transpose_padded.yaml").read_text()
    (folder / "conflicts.yaml").write_text(text.replace("pad: 1", "pad: 0"))
    (folder / "scale.yaml").write_text((data_folder("specs") / "saxpy.yaml").read_text())
    return folder


@pytest.fixture(scope="module")
def output(folder: Path, shared_builds: Path) -> Output:
    return on_terminals(quick_calls(), folder, shared_builds)


@pytest.mark.parametrize("columns", WIDTHS)
def test_no_line_is_wider_than_the_terminal(output: Output, columns: int) -> None:
    assert {call: found for call, lines in output[columns].items() if (found := wide(lines, columns))} == {}


@pytest.mark.parametrize("columns", WIDTHS)
def test_code_in_an_explanation_is_coloured_in_place_of_its_marks(output: Output, columns: int) -> None:
    lines = output[columns]["explain CG1304"]
    assert [line for line in lines if "`" in line] == []
    assert "A spec that shows it" in lines


@pytest.mark.slow
def test_no_line_of_many_specs_is_wider_than_the_terminal(folder: Path, shared_builds: Path) -> None:
    names = ["matmul_tiled", *sorted(path.stem for path in data_folder("specs").glob("*.yaml"))[::16]]
    for columns, outputs in on_terminals(calls(names), folder, shared_builds).items():
        assert {call: found for call, lines in outputs.items() if (found := wide(lines, columns))} == {}


def test_a_wider_terminal_has_more_columns_in_its_tables(output: Output) -> None:
    lines = {columns: output[columns]["check conflicts.yaml"] for columns in WIDTHS}
    heads = {columns: next(line for line in lines[columns] if "verdict" in line).split() for columns in WIDTHS}
    assert heads[60] == ["access", "cost", "verdict"]
    assert heads[120] == ["access", "memory", "cost", "ideal", "ratio", "verdict"]
    assert set(heads[60]) < set(heads[80]) <= set(heads[120])


@pytest.mark.slow
def test_elsewhere_the_output_is_that_of_an_unknown_width(
    cli: Callable[..., Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scripts read the same lines wherever they run."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "60")
    answer = cli("check", "conflicts.yaml")
    assert "  load   A[m_in * N + n_in]  global      7,500 sectors  7,500   1.00  ideal\n" in answer.out
    assert max(map(len, answer.out.splitlines())) > 110
    assert max(map(len, cli("--help").out.splitlines())) > 80
    plan = cli("inspect", data_folder("specs") / "matmul_tiled.yaml").out
    assert 100 < max(map(len, plan.splitlines())) <= 118
    monkeypatch.delenv("COLUMNS")
    assert cli("check", "conflicts.yaml").out == answer.out
