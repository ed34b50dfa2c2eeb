"""What killed processes left is removed; what a living process writes never is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from cugen import temporary

_ANY = re.compile(r".+\.mine")

pytestmark = pytest.mark.skipif(not temporary.owner(), reason="this system has no /proc")


def owner_of_ended_process() -> str:
    words = [sys.executable, "-c", "from cugen import temporary; print(temporary.owner())"]
    return subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=60).stdout.strip()


def remains(folder: Path, name: str, *, age: float = 0.0) -> bool:
    """Whether a file of this name, this many seconds old, is left."""
    path = folder / name
    path.write_text("half a fi")
    os.utime(path, (time.time() - age,) * 2)
    temporary.remove_abandoned(folder, _ANY)
    return path.exists()


def test_the_owner_is_the_same_for_all_files_of_a_process_and_another_for_another_process() -> None:
    assert temporary.owner() == temporary.owner()
    assert temporary.owner() != owner_of_ended_process()


def test_a_child_by_fork_has_a_name_of_its_own() -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, temporary.owner().encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert f"-{child}-" in os.read(reader, 100).decode()


def test_a_file_of_an_ended_process_is_removed_at_once(tmp_path: Path) -> None:
    assert not remains(tmp_path, f"{owner_of_ended_process()}1.mine")


def test_a_file_of_a_living_process_stays_however_old_it_is(tmp_path: Path) -> None:
    assert remains(tmp_path, f"{temporary.owner()}1.mine", age=30 * 86400)


def test_a_process_that_has_the_number_of_an_ended_one_does_not_keep_its_files(tmp_path: Path) -> None:
    machine, process, start, _ = temporary.owner().split("-")
    assert not remains(tmp_path, f"{machine}-{process}-{int(start) - 1}-1.mine")


def test_a_process_of_another_user_is_alive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(process: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert remains(tmp_path, f"{temporary.owner()}1.mine")
    machine = temporary.owner().partition("-")[0]
    assert remains(tmp_path, f"{machine}-4194305-77-1.mine")  # hidden: no process has this number


@pytest.mark.parametrize("name", ["0badcafe-1-1-1.mine", "of an earlier version.mine"])
def test_a_file_of_an_unknown_process_is_removed_after_a_day(tmp_path: Path, name: str) -> None:
    assert remains(tmp_path, name, age=3600)
    assert not remains(tmp_path, name, age=2 * 86400)


def test_nothing_else_is_removed(tmp_path: Path) -> None:
    assert remains(tmp_path, f"{owner_of_ended_process()}1.yours")


def test_folders_are_removed_with_what_is_in_them_and_links_are_not_followed(tmp_path: Path) -> None:
    folder, link, elsewhere = (tmp_path / f"{owner_of_ended_process()}{name}.mine" for name in "123")
    elsewhere = tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
        (path / "file").touch()
    link.symlink_to(elsewhere)
    temporary.remove_abandoned(tmp_path, _ANY)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert (elsewhere / "file").exists()


def test_a_folder_that_is_missing_or_a_file_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    temporary.remove_abandoned(tmp_path / "missing", _ANY)
    temporary.remove_abandoned(tmp_path / "file", _ANY)


def test_a_working_folder_goes_with_its_process_and_those_of_killed_ones_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    program = "import os; from cugen import temporary\nwith temporary.working_folder() as folder:\n    os._exit(9)"
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], env=environment, check=False, timeout=60)
        assert len(list(tmp_path.iterdir())) == 1
    (tmp_path / "cugen-mine").mkdir()  # not ours, and no name of a process
    subprocess.run(
        [sys.executable, "-c", program.replace("os._exit(9)", "pass")], env=environment, check=True, timeout=60
    )
    assert [path.name for path in tmp_path.iterdir()] == ["cugen-mine"]
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with temporary.working_folder() as folder:
        assert (folder.parent, list(folder.iterdir())) == (tmp_path, [])
    assert not folder.exists()
