"""The journal of timed candidates: what can't be read is timed again, and what can't be written is only remembered."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

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


def test_two_searches_share_a_journal_without_timing_twice(path: Path) -> None:
    first, second = Journal(path), Journal(path)
    assert first.claim("a")
    assert not second.claim("a")
    assert second.claim("b")
    first.add(Record("a", 1.5))
    assert not second.claim("a")
    assert second.records == {"a": Record("a", 1.5)}
    second.add(Record("b", 2.5))
    assert list(Journal(path).records) == ["a", "b"]


def test_a_claim_ends_with_its_search(path: Path) -> None:
    first = Journal(path)
    assert first.claim("a")
    assert first.claim("a")
    first.release()
    assert Journal(path).claim("a")


def test_the_claim_of_a_killed_process_is_nothing(path: Path) -> None:
    program = "import sys; from pathlib import Path; from cugen.tune.journal import Journal\n"
    program += "assert Journal(Path(sys.argv[1])).claim('a')"
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, timeout=60)
    assert Journal(path).claim("a")


def test_the_claim_of_another_machine_ends_after_a_while(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.parent.mkdir()
    path.with_suffix(".claims").write_text('{"code": "a", "owner": "00000000-1-1-elsewhere"}\n{"code": "b", "ow')
    journal = Journal(path)
    assert not journal.claim("a")
    assert journal.claim("b")
    later = monotonic() + 1000
    monkeypatch.setattr("cugen.tune.journal.monotonic", lambda: later)
    assert journal.claim("a")


@pytest.mark.slow
def test_concurrent_searches_lose_no_record(path: Path) -> None:
    program = "import sys; from pathlib import Path; from cugen.tune.journal import Journal, Record\n"
    program += "journal = Journal(Path(sys.argv[1]))\n"
    program += "for code in map(str, range(200)):\n"
    program += "    if journal.claim(code): journal.add(Record(code, 1.5, schedule='s' * 300))\n"
    with ExitStack() as stack:
        words = [sys.executable, "-c", program, str(path)]
        processes = [stack.enter_context(subprocess.Popen(words)) for _ in range(2)]
        assert [process.wait(timeout=60) for process in processes] == [0, 0]
    lines = path.read_text().splitlines()
    assert sorted(json.loads(line)["code"] for line in lines) == sorted(map(str, range(200)))
