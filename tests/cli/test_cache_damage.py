"""Runs on the CPU device, with a cache that is damaged or can't be written: they take longer, and say why."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.toolchain import cache, host

Cli = Callable[..., Any]


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def _garbage(entry: Path) -> None:
    for path in entry.iterdir():
        path.write_bytes(b"garbage")


def _truncated(entry: Path) -> None:
    for path in entry.iterdir():
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _folders(entry: Path) -> None:
    for path in list(entry.iterdir()):
        path.unlink()
        path.mkdir()


def _files(entry: Path) -> None:
    shutil.rmtree(entry)
    entry.write_bytes(b"garbage")


@pytest.mark.slow
@pytest.mark.parametrize("damage", [_garbage, _truncated, _folders, _files])
def test_damaged_builds_are_repeated_with_one_warning(
    cli: Cli, spec: Path, own_cache: Path, damage: Callable[[Path], None]
) -> None:
    """The program of the kernel, the runtime, and the precompiled header."""
    words = ("run", spec, "--device", "cpu")
    assert cli(*words).status == 0
    entries = {path.parent for path in own_cache.rglob("checksums.json")}
    assert len(entries) >= 2
    for entry in entries:
        damage(entry)
    host._precompiled.cache_clear()
    answer = cli(*words)
    assert answer.status == 0
    assert answer.err.count("warning: ") == answer.err.count(f"damaged files in the cache {own_cache} are made") == 1
    assert "warning" not in cli(*words).err


@pytest.mark.slow
def test_a_run_without_a_cache_is_done_with_one_warning(cli: Cli, spec: Path, own_cache: Path) -> None:
    own_cache.write_text("mine")
    answer = cli("run", spec, "--device", "cpu")
    assert answer.status == 0
    assert answer.err.count("warning: ") == answer.err.count(f"the cache {own_cache} can't be written") == 1
    assert own_cache.read_text() == "mine"
    assert cache.folder() == own_cache
