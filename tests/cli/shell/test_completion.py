"""Shells complete commands, options, their values and spec files, from the parser itself."""

from __future__ import annotations

import argparse
import os
import pty
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cugen.cli.main import COMMANDS
from cugen.cli.shell.completion import SHELLS, completion
from cugen.cli.shell.parser import full_parser

# As Bash calls the function: with the words of the line, the last of which is completed.
COMPLETE = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_shtab_cugen cugen "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


# The function of the folder `$1`, and a key that prints the line and empties it.
ZSH = """
PS1='> '; fpath=($1 $fpath); autoload -Uz compinit && compinit -u -D
show() { zle -I; print -r -- "<$BUFFER>"; BUFFER=''; }; zle -N show; bindkey '^X' show; print rea''dy
"""
LINES = [
    (["ch"], {"check"}),
    (["c"], {"check", "cpu", "config"}),
    (["check", "--form"], {"--format"}),
    (["check", "--format", ""], {"text", "json", "github", "sarif"}),
    (["run", "scale.yaml", "--device", "g"], {"gpu"}),
    (["run", "scal"], {"scale.yaml"}),
    (["check", "scale.yaml", "sc"], {"scale.yaml", "scan.yml", "scratch"}),
    (["check", "--diff", "o"], {"old.lock"}),
    (["cpu", "sc"], {"scale.cu", "scratch"}),
    (["generate", "scale.yaml", "-o", "sc"], {"scratch"}),
    (["generate", "--target", "sm_90"], {"sm_90", "sm_90a"}),
    (["new", "mine", "--from", "matmul_tile"], {"matmul_tiled", "matmul_tiled_even", "matmul_tile_variants"}),
    (["explain", "CG120"], {f"CG120{digit}" for digit in range(1, 10)}),
    (["config", "--completion", ""], {"bash", "zsh", "fish"}),
]


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("completion")
    for shell in SHELLS:
        (folder / shell).write_text(completion(shell))
    return {shell: folder / shell for shell in SHELLS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("scale.yaml", "scan.yml", "scale.cu", "scale.txt", "old.lock", "other.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / "scratch").mkdir()
    return tmp_path


def options() -> Iterator[tuple[str, argparse.Action]]:
    (commands,) = (a for a in full_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, parser in commands.choices.items():
        for action in parser._actions:
            yield name, action


def name_of(value: list[str] | set[str]) -> str:
    return " ".join(value if isinstance(value, list) else sorted(value))


@pytest.mark.parametrize(("words", "completions"), LINES, ids=name_of)
def test_bash_completes_a_line(scripts: dict[str, Path], folder: Path, words: list[str], completions: set[str]) -> None:
    command = ["bash", "--norc", "-c", COMPLETE, "bash", str(scripts["bash"]), "cugen", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stdout.split()) == completions


@pytest.mark.parametrize(("words", "completions"), LINES, ids=name_of)
def test_fish_completes_a_line(scripts: dict[str, Path], folder: Path, words: list[str], completions: set[str]) -> None:
    if shutil.which("fish") is None:
        pytest.skip("NO FISH, NOT TESTED: apt-get install fish")
    script = f"source {scripts['fish']}; complete -C '{' '.join(['cugen', *words])}'"
    command = ["fish", "--no-config", "-c", script]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert {line.partition("\t")[0].rstrip("/") for line in done.stdout.splitlines()} == completions


@pytest.fixture(scope="module")
def zsh(scripts: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """An interactive zsh in a pseudo-terminal: what it prints as a line is typed, completed with Tab, which lists what
    is given besides, and shown."""
    if shutil.which("zsh") is None:
        pytest.skip("NO ZSH, NOT TESTED: apt-get install zsh")
    folder = tmp_path_factory.mktemp("zsh")
    (folder / "functions").mkdir()
    (folder / "functions" / "_cugen").write_text(scripts["zsh"].read_text())
    (folder / "scale.yaml").touch()
    (folder / "setup").write_text(ZSH.replace("$1", str(folder / "functions")))
    terminal, shell = pty.openpty()
    environment = {**os.environ, "TERM": "dumb", "COLUMNS": "100", "HOME": str(folder)}
    started = subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=shell,
        stdout=shell,
        stderr=shell,
        cwd=folder,
        env=environment,
        start_new_session=True,
    )
    os.close(shell)

    def said_until(*texts: str) -> str:
        said, deadline = "", time.monotonic() + 60
        while not all(text in said for text in texts) and time.monotonic() < deadline:
            if select.select([terminal], [], [], 1)[0]:
                said += os.read(terminal, 4096).decode()
        assert all(text in said for text in texts), said
        return said

    def typed(line: str, *listed: str) -> str:
        os.write(terminal, f"{line}\t".encode())
        said = said_until(*listed)  # zsh lists nothing while more was typed
        os.write(terminal, b"\x18")
        return said + said_until(">\r\n")

    os.write(terminal, b"source ./setup\n")
    said_until("ready")
    yield typed
    started.kill()
    started.wait()
    os.close(terminal)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("line", "completed"),
    [
        ("cugen gen", "cugen generate "),
        ("cugen check --form", "cugen check --format "),
        ("cugen check --format sa", "cugen check --format sarif "),
        ("cugen run scale.yaml --device g", "cugen run scale.yaml --device gpu "),
        ("cugen run sc", "cugen run scale.yaml "),
        ("cugen generate --target sm_103", "cugen generate --target sm_103 "),
        ("cugen explain CG4005", "cugen explain CG4005 "),
    ],
)
def test_zsh_completes_a_line(zsh: Callable[..., str], line: str, completed: str) -> None:
    assert f"<{completed}>" in zsh(line)


def test_zsh_lists_the_values_of_an_option(zsh: Callable[..., str]) -> None:
    values = ("text", "json", "github", "sarif")
    assert set(values) <= set(zsh("cugen check --format ", *values).split())


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_has_every_command_and_every_option(scripts: dict[str, Path], shell: str) -> None:
    script = scripts[shell].read_text()
    assert [name for name in COMMANDS if name not in script] == []
    long = {option for _, action in options() for option in action.option_strings if option.startswith("--")}
    spelling = "-l {}" if shell == "fish" else "--{}"
    assert len(long) > 40
    assert [option for option in sorted(long) if spelling.format(option[2:]) not in script] == []


def test_every_argument_that_is_a_file_or_a_list_is_completed() -> None:
    free = {"NAME", "NAME=VALUE", "A=a.npy", "C=c.npy", "N", "BYTES", "SEED", "TIME", "PORT", "ADDRESS", "LIBRARY,…"}
    for name, action in options():
        is_completed = hasattr(action, "complete") or action.choices is not None or action.nargs == 0
        assert is_completed or action.metavar in free, (name, action.metavar)


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_a_start_file(cli: Any, scripts: dict[str, Path], shell: str) -> None:
    answer = cli("config", "--completion", shell)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.rstrip("\n") == scripts[shell].read_text().rstrip("\n")


@pytest.mark.slow
def test_each_shell_of_this_machine_can_read_its_script(scripts: dict[str, Path]) -> None:
    here = [shell for shell in SHELLS if shutil.which(shell)]
    assert "bash" in here
    for shell in here:
        done = subprocess.run([shell, "-n", str(scripts[shell])], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
