"""Exit statuses, and that nobody ever sees a traceback who didn't ask for one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cugen.kernel
from cugen.abi.errors import RunError
from cugen.cli.main import COMMANDS
from cugen.toolchain.errors import CompileError, ToolMissing
from cugen.version import __version__

Cli = Callable[..., Any]


def test_help_lists_every_command_and_each_has_help_of_its_own(cli: Cli) -> None:
    overview = cli("--help")
    assert overview.status == 0
    for name in COMMANDS:
        assert f"  {name} " in overview.out
        answer = cli(name, "--help")
        assert answer.status == 0
        assert answer.out.startswith(f"usage: cugen {name}")


def test_version_is_one_line(cli: Cli) -> None:
    assert cli("--version").out == f"cugen {__version__}\n"


def test_no_command_prints_help_to_standard_error_and_is_a_wrong_call(cli: Cli) -> None:
    answer = cli()
    assert (answer.status, answer.out) == (2, "")
    assert "commands:" in answer.err


def test_a_misspelt_command_suggests_the_nearest_one(cli: Cli) -> None:
    answer = cli("genrate")
    assert answer.status == 2
    assert "did you mean `generate`?" in answer.err


@pytest.mark.parametrize(
    ("words", "help"),
    [
        (("scale.yaml",), "write the command before the file, as in `cugen check scale.yaml`"),
        (("help",), "write `cugen --help`"),
        (("help", "run"), "write `cugen run --help`"),
    ],
)
def test_what_is_no_command_is_answered_with_one(cli: Cli, words: tuple[str, ...], help: str) -> None:
    answer = cli(*words)
    assert (answer.status, answer.out) == (2, "")
    assert f"= help: {help}" in answer.err


def test_an_unknown_option_is_a_wrong_call(cli: Cli) -> None:
    assert cli("--nonsense").status == 2
    assert cli("generate", "--nonsense").status == 2


def test_a_refused_spec_is_a_wrong_input_with_its_finding(cli: Cli, spec: Path) -> None:
    spec.write_text(spec.read_text().replace("float32", "flaot32"))
    for words in (("generate", spec), ("run", spec), ("inspect", spec)):
        answer = cli(*words)
        assert (answer.status, answer.out) == (2, "")
        assert "error[CG1028]" in answer.err
        assert "Traceback" not in answer.err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ToolMissing("nvcc", "install it"), 3),
        (RunError("CG5011", "no GPU"), 3),
        (RunError("CG5002", "wrong shape"), 2),
        (RunError("CG5013", "out of bounds"), 1),
        (CompileError(["nvcc"], "", "k.cu", code="CG4003"), 3),
        (MemoryError("Unable to allocate 8.00 TiB"), 3),
        (PermissionError(13, "Permission denied", "/cache"), 3),
        (ValueError("surprise"), 4),
        (AssertionError(), 4),
        (FileNotFoundError(2, "No such file", "templates/x.j2"), 4),
    ],
)
def test_each_kind_of_error_has_its_status(
    cli: Cli, spec: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int
) -> None:
    def fail(spec: object, **options: object) -> object:
        raise error

    monkeypatch.setattr(cugen.kernel, "generate", fail)
    answer = cli("inspect", spec)
    assert answer.status == status
    assert answer.err.startswith("error")
    assert "Traceback" not in answer.err
    assert ("report" in answer.err) == (status == 4)


def test_debug_shows_the_traceback_of_an_own_fault(cli: Cli, spec: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(spec: object, **options: object) -> object:
        raise ValueError("surprise")

    monkeypatch.setattr(cugen.kernel, "generate", fail)
    assert "Traceback" in cli("inspect", spec, "--debug").err


def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{sys.executable} -m cugen explain | true; echo ${{PIPESTATUS[0]}}"
    for _ in range(3):
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
        assert done.stderr == ""
        assert done.stdout.strip() in ("141", "0")


def test_a_reader_that_leaves_early_gives_the_status_of_a_closed_pipe() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "cugen", "explain"], stdout=writer, stderr=subprocess.PIPE, timeout=60)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, b"")


def test_an_error_that_nobody_reads_keeps_its_status() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([sys.executable, "-m", "cugen", "check", "missing.yaml"], stderr=writer, timeout=60)
    os.close(writer)
    assert done.returncode == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_keep_the_status(closed: str) -> None:
    command = f"{sys.executable} -m cugen check {{}} {closed}"
    for arguments, status in (("--help", 0), ("missing.yaml", 2)):
        done = subprocess.run(["bash", "-c", command.format(arguments)], capture_output=True, timeout=60, check=False)
        assert done.returncode == status
        assert b"internal error" not in done.stderr


def test_ctrl_c_ends_with_one_line(tmp_path: Path) -> None:
    fifo = tmp_path / "spec.yaml"
    program = (
        "import signal, sys, time; import cugen.cli.main as m, cugen.cli.commands.config as c\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # a shell's background jobs ignore it
        "def wait(args): print('ready', flush=True); time.sleep(20)\n"
        "c.execute = wait\n"
        "sys.exit(m.main(['config', '--version']))"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=fifo.parent
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert (child.returncode, errors) == (130, "interrupted\n")


@pytest.mark.slow
def test_output_survives_a_terminal_that_knows_ascii_only(spec: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONPATH": os.getcwd()}
    command = [sys.executable, "-m", "cugen", "inspect", str(spec), "--what", "source"]
    spec.write_text(spec.read_text().replace("twice", "2 × "))
    done = subprocess.run(command, capture_output=True, env=environment, timeout=60, check=False)
    assert done.returncode == 0
    assert b"2 \\xd7" in done.stdout
