"""Names of temporary files and folders, which identify the process that writes them: what killed processes left can be
removed, and nothing that a living one writes.

A process is identified by its number, the time of its start (numbers are used again), and the machine: numbers of
other machines that share a file system, and of other containers, mean nothing here. Theirs are removed by age.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_OWNER = re.compile(r"(?P<machine>[0-9a-f]{8})-(?P<process>\d{1,10})-(?P<start>\d{1,20})-")
_WORKING_FOLDER = re.compile(rf"cugen-{_OWNER.pattern}\w+")
_ABANDONED_SECONDS = 86400.0  # age without a process of this machine to ask; a suspended writer may go on after hours


def owner() -> str:
    """Start of a unique name: `machine-process-start-`, empty where the system can't say (no /proc)."""
    machine, start = _machine(), _start_of(os.getpid())
    return f"{machine}-{os.getpid()}-{start}-" if machine and start else ""


def remove_abandoned(folder: Path, names: re.Pattern[str]) -> None:
    """Removes the files and folders whose names match entirely and whose writers have ended. No errors: others may
    remove them too, or own them."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in [entry for entry in entries if names.fullmatch(entry.name)]:
            if not _is_abandoned(entry):
                continue
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry)


@contextmanager
def working_folder() -> Iterator[Path]:
    """An empty folder among the system's temporary files, which is removed in the end."""
    _clean_temporary_files()
    with tempfile.TemporaryDirectory(prefix=f"cugen-{owner()}") as name:
        yield Path(name)


@functools.cache
def folder_of_process() -> Path:
    """A folder among the system's temporary files that is removed when the process ends."""
    _clean_temporary_files()
    made, process = Path(tempfile.mkdtemp(prefix=f"cugen-{owner()}")), os.getpid()

    def remove() -> None:
        if os.getpid() == process:  # not a fork, which shares the folder
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made


@functools.cache
def _clean_temporary_files() -> None:
    remove_abandoned(Path(tempfile.gettempdir()), _WORKING_FOLDER)


def _is_abandoned(entry: os.DirEntry[str]) -> bool:
    if (living := is_living(entry.name)) is not None:
        return not living
    try:
        return entry.stat(follow_symlinks=False).st_mtime < time.time() - _ABANDONED_SECONDS
    except OSError:
        return False


def is_living(name: str) -> bool | None:
    """Whether the process of this machine exists whose `owner` is in a name; None for those of others."""
    match = _OWNER.search(name)
    if match is None or match["machine"] != _machine():
        return None
    return _is_alive(int(match["process"]), match["start"])


def _is_alive(process: int, start: str) -> bool:
    """Whether the process exists that started then; True where the system doesn't tell."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # of another user
        pass
    return _start_of(process) in (start, "")


def _start_of(process: int) -> str:
    """Clock ticks from the system's start to that of the process; empty where it doesn't tell."""
    try:
        # The second field, the program's name in parentheses, may contain anything; the start is field 22.
        return Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()[19].decode()
    except (OSError, IndexError):
        return ""


@functools.cache
def _machine() -> str:
    """Identifies one run of a system and the container, within which a number means one process at a time."""
    try:
        run = Path("/proc/sys/kernel/random/boot_id").read_text()
        return hashlib.sha256(f"{run} {os.readlink('/proc/self/ns/pid')}".encode()).hexdigest()[:8]
    except OSError:
        return ""
