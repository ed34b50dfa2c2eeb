"""The journal of timed candidates: what can't be read is timed again, and what can't be written is only remembered."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from cugen.toolchain.errors import CacheWarning
from cugen.tune.journal import Journal, Record


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path))
    return tmp_path / "tune" / "k.jsonl"


def test_records_are_read_again_without_a_warning(path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Journal(path).add(Record("a", 1.5, 2, schedule="line separator \u2028"))
        assert Journal(path).records == {"a": Record("a", 1.5, 2, schedule="line separator \u2028")}
        assert Journal(path, resume=False).records == {}
        assert Journal(path).records == {}


def test_the_unfinished_line_of_a_killed_search_is_no_damage(path: Path) -> None:
    Journal(path).add(Record("a", 1.5))
    with path.open("a") as file:
        file.write('{"code": "b", "co')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Journal(path).add(Record("c"))
        assert list(Journal(path).records) == ["a", "c"]


@pytest.mark.parametrize(
    "line",
    ["garbage", "\0\0", "[" * 100000, '["a"]', "7", ""],
    ids=["text", "zeros", "deep", "list", "number", "empty"],
)
def test_garbage_between_records_is_skipped_with_a_warning(path: Path, line: str) -> None:
    Journal(path).add(Record("a"))
    with path.open("a") as file:
        file.write(line + "\n")
    with pytest.warns(CacheWarning, match="are made again"):
        journal = Journal(path)
    journal.add(Record("b"))
    with pytest.warns(CacheWarning):
        assert list(Journal(path).records) == ["a", "b"]


@pytest.mark.parametrize("line", ['{"code": 1}', '{"code": "x", "cold": "y"}', '{"code": "x", "stopped": 1}', "{}"])
def test_a_record_of_other_types_is_none(path: Path, line: str) -> None:
    path.parent.mkdir()
    path.write_text(line + "\n")
    assert Journal(path).records == {}


@pytest.mark.parametrize("resume", [True, False])
def test_a_folder_for_a_journal_is_replaced_with_a_warning(path: Path, resume: bool) -> None:
    (path / "in it").mkdir(parents=True)
    with pytest.warns(CacheWarning, match="are made again"):
        Journal(path, resume=resume).add(Record("a"))
    assert list(Journal(path).records) == ["a"]
    assert [folder.name for folder in path.parents[1].iterdir()] == ["tune"]


def test_a_search_without_a_cache_goes_on_with_a_warning(path: Path) -> None:
    path.parent.write_text("a file")
    journal = Journal(path)
    with pytest.warns(CacheWarning, match="can't be written"):
        journal.add(Record("a"))
    assert list(journal.records) == ["a"]
