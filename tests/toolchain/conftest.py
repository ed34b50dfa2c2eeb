"""What the toolchain's tests share: a cache of their own, so that no test sees what another built."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(folder))
    return folder
