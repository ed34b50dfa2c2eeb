"""What the toolchain's tests share: a cache of their own, so that no test sees what another built."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cugen import temporary


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(folder))
    return folder


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that modes of files bind, as they don't the administrator, and a cache that it may write."""
    if os.geteuid():
        yield
        return
    folder, nobody = tempfile.mkdtemp(), 65534
    os.chown(folder, nobody, nobody)
    monkeypatch.setenv("CUGEN_CACHE_DIR", f"{folder}/cache")
    temporary.folder_of_process.cache_clear()
    os.seteuid(nobody)
    try:
        yield
    finally:
        os.seteuid(0)
        temporary.folder_of_process.cache_clear()
        shutil.rmtree(folder)
