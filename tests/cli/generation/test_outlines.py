"""Specs that nobody changed aren't read again, and whatever could change what they give makes that they are."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cugen
import cugen.spec.load
from cugen.schedule.lock import spec_key

Cli = Callable[..., Any]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The names of the files that were parsed."""
    opened: list[str] = []
    load_all = cugen.spec.load.load_all

    def recording(path: str, *words: Any, **more: Any) -> Any:
        opened.append(Path(path).name)
        return load_all(path, *words, **more)

    monkeypatch.setattr(cugen.spec.load, "load_all", recording)
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))
    return opened


def test_what_is_current_is_not_read_again(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    out = tmp_path / "out"
    cli("generate", spec, "-o", out)
    assert read == ["scale.yaml"]
    again = cli("generate", spec, "-o", out)
    assert (again.status, again.out, again.err) == (0, "", "1 kernel up to date\n")
    assert cli("generate", spec, "-o", out, "--list").out == "".join(
        f"{out}/scale{s}\n" for s in (".cu", ".h", ".json", ".hpp")
    )
    assert read == ["scale.yaml"]


def test_only_the_spec_that_changed_is_read(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    others = []
    for name in ("a", "b"):
        others.append(tmp_path / f"{name}.yaml")
        others[-1].write_text(spec.read_text().replace("scale", name))
    words = ("generate", others[0], spec, others[1], "-o", tmp_path / "out")
    cli(*words)
    read.clear()
    spec.write_text(spec.read_text().replace("2 *", "3 *"))
    assert cli(*words).out.splitlines() == [f"wrote {tmp_path}/out/scale{s}" for s in (".cu", ".h", ".hpp", ".json")]
    assert read == ["scale.yaml"]
    assert [Path(line).stem for line in cli(*words, "--list").out.splitlines()[::4]] == ["a", "scale", "b"]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("words", [("--set", "N=41"), ("--target", "sm_80"), ("--no-analysis",), ("--remarks", "all")])
def test_what_the_call_asks_for_counts(
    cli: Cli, spec: Path, tmp_path: Path, read: list[str], words: tuple[str, ...]
) -> None:
    cli("generate", spec, "-o", tmp_path / "out")
    assert "scale.cu" in cli("generate", spec, "-o", tmp_path / "out", *words).out
    assert cli("generate", spec, "-o", tmp_path / "out", *words).out == ""


@pytest.mark.sampled(4)
@pytest.mark.parametrize("suffix", [".cu", ".h", ".hpp", ".json"])
def test_a_file_that_is_gone_or_edited_is_generated_again(
    cli: Cli, spec: Path, tmp_path: Path, read: list[str], suffix: str
) -> None:
    cli("generate", spec, "-o", tmp_path / "out")
    path = tmp_path / "out" / f"scale{suffix}"
    good = path.read_bytes()
    for spoil in (path.unlink, lambda: path.write_bytes(good + b" "), lambda: path.write_bytes(good[: len(good) // 2])):
        spoil()
        assert cli("generate", spec, "-o", tmp_path / "out").out == f"wrote {path}\n"
        assert path.read_bytes() == good


def test_a_table_with_other_numbers_is_seen(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    table = tmp_path / "w.npy"
    np.save(table, np.ones(40, np.float32))
    spec.write_text(
        spec.read_text()
        .replace("  y:", "  w: {shape: [N], dtype: float32, values: w.npy}\n  y:")
        .replace("2 * x[i]", "w[i] * x[i]")
    )
    cli("generate", spec, "-o", tmp_path / "out")
    cli("generate", spec, "-o", tmp_path / "out")
    assert read == ["scale.yaml"]
    np.save(table, np.full(40, 3, np.float32))
    assert "scale.cu" in cli("generate", spec, "-o", tmp_path / "out").out
    table.unlink()
    assert cli("generate", spec, "-o", tmp_path / "out").status == 2


def test_a_check_reads_everything(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    cli("generate", spec, "-o", tmp_path / "out")
    assert cli("generate", spec, "-o", tmp_path / "out", "--check").status == 0
    assert read == ["scale.yaml"] * 2


def test_a_damaged_record_is_made_again_with_one_warning(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    cli("generate", spec, "-o", tmp_path / "out")
    (record,) = (tmp_path / "cache" / "outlines").rglob("*.json")
    good = record.read_text()
    warning = f"warning: damaged files in the cache {tmp_path}/cache are made again\n"
    for content in ("", "{}", "[" * 100000, "\0", good[:-1], good.replace("scale", "scare"), None):
        record.unlink()
        if content is None:
            record.mkdir()
        else:
            record.write_text(content)
        assert cli("generate", spec, "-o", tmp_path / "out").err == warning + "1 kernel up to date\n"
        assert record.read_text() == good
        assert cli("generate", spec, "-o", tmp_path / "out").err == "1 kernel up to date\n"
    assert len(read) == 8


def test_a_cache_that_cannot_be_written_is_no_failure(
    cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "file"
    folder.write_text("")
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(folder))
    shift = spec.with_name("shift.yaml")
    shift.write_text(spec.read_text().replace("scale", "shift"))
    for _ in range(2):
        answer = cli("generate", spec, shift, "-o", tmp_path / "out")
        assert answer.status == 0
        assert answer.err.count(f"warning: the cache {folder} can't be written (Not a directory)") == 1
    assert cli("generate", spec, "-o", tmp_path / "out", "-q").err == ""


def test_unused_records_are_evicted_and_used_ones_stay(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    cli("generate", spec, "-o", tmp_path / "out")
    (record,) = (tmp_path / "cache" / "outlines").rglob("*.json")
    old = record.with_name("old.json")
    old.write_text(json.dumps({}))
    os.utime(old, (1, 1))
    weeks_ago = time.time() - 20 * 86400
    os.utime(record, (weeks_ago, weeks_ago))
    cli("generate", spec, "-o", tmp_path / "out")
    assert record.stat().st_mtime > weeks_ago
    record.unlink()
    cli("generate", spec, "-o", tmp_path / "out")
    assert record.exists()
    assert not old.exists()


def test_variants_and_their_header_are_recalled(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    spec.write_text(spec.read_text().replace("{family: direct}", "{block: {i: $b}}") + "variants: {b: [64, 128]}\n")
    out = tmp_path / "out"
    cli("generate", spec, "-o", out)
    assert (out / "scale.h").exists()
    assert cli("generate", spec, "-o", out).err == "2 kernels up to date\n"
    assert read == ["scale.yaml"]
    (out / "scale.h").unlink()
    assert cli("generate", spec, "-o", out).out == f"wrote {out}/scale.h\n"


def test_two_kernels_of_one_name_are_refused_though_both_are_current(cli: Cli, spec: Path, tmp_path: Path) -> None:
    second_spec = tmp_path / "other.yaml"
    second_spec.write_text(spec.read_text().replace("scale", "other"))
    twin = tmp_path / "sub" / "scale.yaml"
    twin.parent.mkdir()
    twin.write_bytes(spec.read_bytes())
    for words in ((spec, second_spec), (twin, second_spec)):
        assert cli("generate", *words, "-o", tmp_path / "out").status == 0
    assert cli("generate", spec, twin, "-o", tmp_path / "out").status == 2


def test_a_lock_file_counts_whether_it_comes_changes_or_goes(
    cli: Cli, spec: Path, tmp_path: Path, read: list[str]
) -> None:
    lock = tmp_path / "cugen.lock"
    cli("generate", spec, "-o", tmp_path / "out")
    for change in (
        lambda: lock.write_text("cugen_lock: 1\nkernels: []\n"),
        lambda: lock.write_text("cugen_lock: 1\nkernels: []  # other bytes\n"),
    ):
        read.clear()
        change()
        cli("generate", spec, "-o", tmp_path / "out")
        assert read == ["scale.yaml"]
    lock.write_text("cugen_lock: what?\n")
    assert cli("generate", spec, "-o", tmp_path / "out").status == 2


def test_a_kernel_with_a_tuned_schedule_is_recalled(cli: Cli, spec: Path, tmp_path: Path, read: list[str]) -> None:
    spec.write_text(spec.read_text().replace("schedule: {family: direct}\n", ""))
    key = spec_key(cugen.load(spec))
    entry = f"""\
cugen_lock: 1
kernels:
- kernel: scale
  spec: "{key}"
  target: sm_90
  device: NVIDIA H200
  schedule:
    y: {{family: direct, block: {{i: 64}}}}
  sums: as untuned
  time_us: {{cold: 5, warm: 4}}
  untuned_us: {{cold: 6, warm: 5}}
  cugen: "0.1.0"
"""
    lock = tmp_path / "cugen.lock"
    lock.write_text(entry)
    out = tmp_path / "out"
    cli("generate", spec, "-o", out)
    assert "block (64, 1, 1)" in (out / "scale.cu").read_text()
    read.clear()
    assert cli("generate", spec, "-o", out).err == "1 kernel up to date\n"
    assert read == []
    lock.write_text(entry.replace("i: 64", "i: 128"))
    cli("generate", spec, "-o", out)
    assert "block (128, 1, 1)" in (out / "scale.cu").read_text()
    lock.unlink()
    assert "scale.cu" in cli("generate", spec, "-o", out).out
