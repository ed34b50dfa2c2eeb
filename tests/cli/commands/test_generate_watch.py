"""`cugen generate --watch` generates after each change, shows errors and goes on, and ends with an interrupt."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]
_SECONDS = 30.0  # that a slow machine may take


@contextmanager
def watching(*words: object) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "cugen", "generate", "--watch", *map(str, words)]
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # shells let background jobs ignore it
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=heard)
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + _SECONDS
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.05)


def ended(child: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit status after Ctrl-C, and what standard error got."""
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=_SECONDS)
    return child.returncode, err


def lines_until(child: subprocess.Popen[str], start: str) -> list[str]:
    """Lines of standard error, up to one that begins so."""
    assert child.stderr is not None
    lines = [""]
    while not lines[-1].startswith(start):
        lines.append(child.stderr.readline())
        assert lines[-1], "it ended"
    return lines[1:]


def replace(path: Path, text: str) -> None:
    """As editors save: the file is there at all times."""
    path.with_suffix(".new").write_text(text)
    os.replace(path.with_suffix(".new"), path)


@pytest.mark.slow
def test_a_change_is_generated_and_an_error_is_shown_and_waited_out(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    source = out / "scale.cu"
    text = spec.read_text()
    with watching(spec, "-o", out) as child:
        until(source.exists)
        replace(spec, text.replace("2 * x", "3 * x"))
        until(lambda: "3 * x[i]" in source.read_text())
        replace(spec, text.replace("2 * x[i]", "2 * z[i]"))
        errors = lines_until(child, "error[CG1201]: there is no array `z`\n")
        assert errors[:2] == ["generating\n", "waiting for a change, or Ctrl-C\n"]
        replace(spec, text.replace("2 * x", "4 * x"))
        until(lambda: "4 * x[i]" in source.read_text())
        status, err = ended(child)
    assert status == 0
    assert err.endswith("ended\n")
    assert "Traceback" not in err


@pytest.mark.slow
def test_a_table_of_the_spec_and_a_new_lock_file_are_watched(spec: Path, tmp_path: Path) -> None:
    import numpy as np

    table = tmp_path / "w.npy"
    np.save(table, np.ones(40, np.float32))
    values = "arrays:\n  w: {shape: [40], dtype: float32, values: w.npy, memory: constant}\n"
    spec.write_text(spec.read_text().replace("arrays:\n", values).replace("2 * x[i]", "w[i] * x[i]"))
    source = tmp_path / "out" / "scale.cu"
    with watching(spec, "-o", tmp_path / "out") as child:
        until(source.exists)
        until(lambda: (tmp_path / "out" / "scale.json").exists())
        before = source.read_text()
        np.save(tmp_path / "new.npy", np.full(40, 7, np.float32))
        os.replace(tmp_path / "new.npy", table)
        until(lambda: source.read_text() != before)
        (tmp_path / "cugen.lock").write_text("not a lock file")
        lines_until(child, "error")
        assert ended(child)[0] == 0


def test_a_template_that_was_added_later_is_watched(spec: Path, tmp_path: Path) -> None:
    templates = tmp_path / "templates"
    templates.mkdir()
    with watching(spec, "-o", tmp_path / "out", "--templates", templates) as child:
        lines_until(child, "waiting")
        (templates / "matmul.cu.j2").write_text("")
        lines_until(child, "error: `--templates")
        lines_until(child, "waiting")
        (templates / "matmul.cu.j2").write_text("{{ kernel }}")
        assert lines_until(child, "waiting")[0] == "generating\n"


def test_there_must_be_something_to_watch(cli: Cli, tmp_path: Path) -> None:
    assert cli("generate", "--watch").status == 2
    assert cli("generate", "--watch", "--emit", "launch", "-o", tmp_path).status == 2


def test_watching_neither_checks_nor_lists(cli: Cli, spec: Path) -> None:
    assert cli("generate", "--watch", "--check", spec).status == 2
    assert cli("generate", "--watch", "--list", spec).status == 2
