"""The store of compiled things, with one process and with many."""

import errno
import multiprocessing
import os
import shutil
import time
from pathlib import Path

import pytest

from cugen.toolchain import cache
from cugen.toolchain.errors import CacheWarning


def write(folder: Path, text: str = "content") -> None:
    (folder / "a").write_text(text)
    (folder / "b").write_text(text * 1000)


def build_slowly(marks: str) -> str:
    """In a process of its own: the same entry as all the others, with a trace of each build."""

    def build(folder: Path) -> None:
        (Path(marks) / f"{os.getpid()}").touch()
        (folder / "a").write_text("half")
        time.sleep(0.05)
        write(folder)

    entry = cache.get("ab" * 32, build)
    return (entry.path / "a").read_text() + (entry.path / "b").read_text()[:7]


def test_eight_processes_that_build_one_thing_all_get_a_whole_entry(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with multiprocessing.get_context("fork").Pool(8) as pool:
        results = pool.map(build_slowly, [str(marks)] * 24, chunksize=1)
    assert results == ["contentcontent"] * 24
    assert 1 <= len(list(marks.iterdir())) <= 8
    leftovers = [path.name for path in cache.folder().iterdir() if path.name != "ab"]
    assert leftovers == []


def test_a_build_of_another_process_is_awaited(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        result = pool.apply_async(build_slowly, [str(marks)])
        while not list(marks.iterdir()):
            time.sleep(0.001)
        entry = cache.get("ab" * 32, lambda folder: pytest.fail("built again"))
        assert result.get() == "contentcontent"
    assert (entry.path / "a").read_text() == "content"


def test_the_second_call_does_not_build() -> None:
    first = cache.get("cd" * 32, write)
    second = cache.get("cd" * 32, lambda folder: pytest.fail("built again"))
    assert (first.cached, second.cached) == (False, True)
    assert second.path == first.path


def _spoil(path: Path, how: str) -> None:
    """Damages a file or folder; `how` also says what is in its place."""
    match how:
        case "unreadable":
            path.chmod(0)
            return
        case "truncated":
            os.truncate(path, path.stat().st_size // 2)
            return
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    match how:
        case "folder":
            path.mkdir()
        case "dangling link":
            path.symlink_to("nowhere")
        case "missing":
            pass
        case content:
            path.write_text(content)


_FILE_DAMAGES = ("garbage", "truncated", "missing", "unreadable", "folder")
_DAMAGES = [
    *((file, how) for file in ("a", "checksums.json") for how in _FILE_DAMAGES),
    *(("checksums.json", text) for text in ("", "{}", "[1]", "[" * 100000)),
    *((".", how) for how in ("garbage", "folder", "unreadable", "dangling link")),
    *(("..", how) for how in ("garbage", "unreadable")),
]


@pytest.mark.parametrize(("file", "how"), _DAMAGES, ids=lambda text: text[:16] or "empty")
def test_a_damaged_entry_is_built_again_with_one_warning(file: str, how: str, unprivileged: None) -> None:
    path = cache.get("ef" * 32, write).path
    _spoil(path.parent if file == ".." else path / file, how)
    with pytest.warns(CacheWarning, match="are made again") as seen:
        entry = cache.get("ef" * 32, write)
    assert (entry.cached, entry.path) == (False, path)
    assert len(seen) == 1
    assert (entry.path / "a").read_text() == "content"
    assert cache.get("ef" * 32, write).cached
    assert [path.name for path in cache.folder().iterdir()] == ["ef"]


@pytest.mark.parametrize("obstacle", ["file", "under a file", "read-only", "unreadable"])
def test_without_a_cache_the_build_is_done_all_the_same(
    obstacle: str, unprivileged: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = cache.folder() / "parent" / "root"
    root.parent.mkdir(parents=True)
    match obstacle:
        case "file":
            root.write_text("mine")
        case "under a file":
            _spoil(root.parent, "mine")
        case "read-only":
            root.mkdir(0o500)
        case "unreadable":
            root.mkdir(0)
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(root))
    with pytest.warns(CacheWarning, match="can't be written") as seen:
        entry = cache.get("ef" * 32, write)
    assert len(seen) == 1
    assert not entry.cached
    assert (entry.path / "a").read_text() == "content"
    with pytest.warns(CacheWarning):
        assert cache.get("ef" * 32, write).cached  # by this process
    if obstacle == "file":
        assert root.read_text() == "mine"


def test_a_full_disk_is_no_failure() -> None:
    def write_in(folder: Path) -> None:
        if folder.is_relative_to(cache.folder()):
            raise OSError(errno.ENOSPC, "No space left on device")
        write(folder)

    with pytest.warns(CacheWarning, match="No space left"):
        assert (cache.get("ef" * 32, write_in).path / "a").read_text() == "content"


def test_an_entry_that_only_others_may_write_is_used(unprivileged: None) -> None:
    path = cache.get("ef" * 32, write).path
    for folder in (path, path.parent, cache.folder()):
        folder.chmod(0o500)
    assert cache.get("ef" * 32, write).cached


def test_a_build_that_fails_raises_and_leaves_nothing() -> None:
    def fail(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        cache.get("01" * 32, fail)
    assert [path for path in cache.folder().rglob("*") if path.is_file()] == []


def test_the_least_recently_used_entries_leave_first() -> None:
    root = cache.folder()
    for position, letter in enumerate("abc"):
        path = cache.get(letter * 64, write).path
        long_ago = time.time() - 10**6 + position
        os.utime(path, (long_ago, long_ago))
    cache.get("a" * 64, write)  # used again: now the youngest
    cache.evict(root, limit_bytes=10_000)
    assert [letter for letter in "abc" if (root / (letter * 2) / (letter * 64)).exists()] == ["a"]


def test_one_build_in_256_reads_the_sizes_of_all_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    evicted = []
    monkeypatch.setattr(cache, "evict", evicted.append)
    for number in range(512):
        cache.get(f"{number:064x}", write)
    assert evicted == [cache.folder()] * 2


def test_an_entry_that_may_be_in_use_stays_whatever_the_limit() -> None:
    path = cache.get("a" * 64, write).path
    cache.evict(cache.folder(), limit_bytes=0)
    assert path.exists()


def test_what_a_killed_build_left_behind_is_removed_after_a_day() -> None:
    cache.get("a" * 64, write)
    stale, fresh = cache.folder() / "building-stale", cache.folder() / "building-fresh"
    for folder in (stale, fresh):
        folder.mkdir()
    os.utime(stale, (time.time() - 2 * 86400,) * 2)
    cache.get("b" * 64, write)
    assert fresh.exists()
    assert not stale.exists()


def test_what_a_killed_build_left_behind_is_removed_by_the_next_build() -> None:
    def die(folder: Path) -> None:
        (folder / "a").write_text("half")
        os._exit(9)

    if not (child := os.fork()):
        cache.get("a" * 64, die)
    os.waitpid(child, 0)
    assert len(list(cache.folder().glob("building-*/a"))) == 1
    cache.get("b" * 64, write)
    assert list(cache.folder().glob("building-*")) == []


def test_a_build_of_a_living_process_stays() -> None:
    def look(folder: Path) -> None:
        cache.get("b" * 64, write)
        assert folder.exists()
        write(folder)

    assert not cache.get("a" * 64, look).cached


@pytest.mark.parametrize("part", ["kind", "sources", "flags", "compiler"])
def test_the_key_depends_on_every_part(part: str) -> None:
    parts = {"kind": "k", "sources": {"a": "1"}, "flags": ("-O2",), "compiler": "g++ 12", "includes": ()}
    changed = {"kind": "j", "sources": {"a": "2"}, "flags": ("-O3",), "compiler": "g++ 13"}
    assert cache.key(**parts) == cache.key(**parts)
    assert cache.key(**parts) != cache.key(**{**parts, part: changed[part]})


def test_the_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "own"))
    assert cache.folder() == tmp_path / "own"
    monkeypatch.delenv("CUGEN_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache.folder() == tmp_path / "xdg" / "cugen"
