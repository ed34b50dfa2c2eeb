"""Paths that a command can't write: refused before any work is done, with nothing written."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a `folder`, a `file`, and a `sealed` folder that nobody writes to."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "sealed").mkdir()
    (tmp_path / "file").touch()
    can_access = os.access

    def access(path: str | Path, mode: int) -> bool:  # root may write anywhere
        return Path(path).name != "sealed" and can_access(path, mode)

    monkeypatch.setattr(os, "access", access)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


CASES = [
    ("generate", "-o file", "file is a file, not a folder"),
    ("generate", "-o file/inner", "file is a file, not a folder"),
    ("generate", "-o sealed/inner", "sealed can't be written to"),
    ("generate", "-o out --manifest folder", "this is a folder"),
    ("generate", "-o out --manifest file/m.json", "file is a file, not a folder"),
    ("generate", "-o out --manifest sealed/m.json", "sealed can't be written to"),
    ("generate", "-o out --depfile folder", "this is a folder"),
    ("generate", "-o out --depfile sealed/x.d", "sealed can't be written to"),
    ("generate", "-o out --lock folder", "`folder` can't be read: Is a directory"),
    ("report", "-o file", "file is a file, not a folder"),
    ("report", "-o file/page.html", "file is a file, not a folder"),
    ("report", "-o sealed/page.html", "sealed can't be written to"),
    ("bench", "--chart missing/x.svg", "no such folder: missing"),
    ("bench", "--chart folder", "this is a folder"),
    ("bench", "--chart sealed/x.svg", "sealed can't be written to"),
]


@pytest.mark.parametrize(("command", "options", "message"), CASES, ids=[f"{c} {o}" for c, o, _ in CASES])
def test_a_path_that_cannot_be_written_is_refused_before_work(
    cli: Cli, spec: Path, folders: Path, command: str, options: str, message: str
) -> None:
    before = contents(folders)
    answer = cli(command, spec, *options.split())
    assert (answer.status, answer.out) == (2, "")
    assert message in answer.err
    assert contents(folders) == before


def test_files_that_are_up_to_date_need_no_folder_that_can_be_written(
    cli: Cli, spec: Path, folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("generate", spec, "-o", "out").status == 0
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    answer = cli("generate", spec, "-o", "out")
    assert (answer.status, answer.err) == (0, "1 kernel up to date\n")
