"""Files that are watched for changes, by their modification times and sizes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

State = tuple[tuple[int, int] | None, ...]
_POLL_SECONDS = 0.2


def states(files: Sequence[Path]) -> State:
    """Modification time and size of each file; None for a missing one."""
    known: list[tuple[int, int] | None] = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            known.append(None)
        else:
            known.append((status.st_mtime_ns, status.st_size))
    return tuple(known)


def wait_for_change(files: Sequence[Path], before: State) -> None:
    """Returns when the files are no longer as they were."""
    while states(files) == before:
        time.sleep(_POLL_SECONDS)
