"""`cugen generate` and the header that the kernels of a folder share: who writes and lists it, when it is an orphan."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cugen.emit.host.launch_header import launch_header

Cli = Callable[..., Any]
NAME = "cugen_launch.hpp"


@pytest.fixture
def second(spec: Path, tmp_path: Path) -> Path:
    path = tmp_path / "second.yaml"
    path.write_text(spec.read_text().replace("scale", "second"))
    return path


def test_specs_of_one_folder_share_a_header_that_only_the_first_writes(
    cli: Cli, spec: Path, second: Path, tmp_path: Path
) -> None:
    header = tmp_path / "out" / NAME
    assert f"wrote {header}" in cli("generate", spec, "-o", tmp_path / "out").out
    os.utime(header, (1, 1))
    for words in ((second,), (spec, second), (second, "--write", "always")):
        assert NAME not in cli("generate", *words, "-o", tmp_path / "out").out
    assert header.stat().st_mtime == 1
    assert header.read_text() == launch_header()


@pytest.mark.parametrize("kinds", ["cu", "embed"])
def test_a_step_for_a_spec_does_not_own_it(cli: Cli, spec: Path, tmp_path: Path, kinds: str) -> None:
    """No file may be an output of two steps of a build."""
    words = ("generate", spec, "-o", tmp_path / "out", "--emit", kinds)
    assert NAME not in cli(*words, "--list").out
    cli(*words, "--depfile", tmp_path / "d")
    assert NAME not in (tmp_path / "d").read_text().partition(":")[0]
    assert (tmp_path / "out" / NAME).exists()


def test_a_step_of_its_own_owns_it_and_needs_no_spec(cli: Cli, tmp_path: Path) -> None:
    header = tmp_path / "out" / NAME
    words = ("generate", "-o", header.parent, "--emit", "launch")
    assert cli(*words, "--list").out == f"{header}\n"
    assert not header.parent.exists()
    assert cli(*words, "--depfile", tmp_path / "d").out == f"wrote {header}\n"
    targets, dependencies = (tmp_path / "d").read_text().replace("\\\n", "").split(":")
    assert targets.split() == [str(header)]
    assert {Path(path).name for path in dependencies.split()} == {"cugen_launch.hpp.j2", "sizes.h.j2", "version.py"}
    again = cli(*words)
    assert (again.status, again.out, again.err) == (0, "", f"{NAME} up to date\n")
    assert cli(*words, "--write", "always").out == f"wrote {header}\n"
    assert os.listdir(header.parent) == [NAME]


def test_a_step_for_everything_lists_everything(cli: Cli, spec: Path, second: Path, tmp_path: Path) -> None:
    words = ("generate", spec, second, "-o", tmp_path / "out", "--emit", "cu,launch")
    listed = cli(*words, "--list").out.splitlines()
    assert cli(*words).status == 0
    assert sorted(listed) == sorted(map(str, (tmp_path / "out").iterdir()))


@pytest.mark.parametrize("words", [(), ("--emit", "cu"), ("--emit", "embed,launch"), ("--emit", "cubin")])
def test_all_else_needs_a_spec(cli: Cli, tmp_path: Path, words: tuple[str, ...]) -> None:
    answer = cli("generate", "-o", tmp_path / "out", *words)
    assert (answer.status, (tmp_path / "out").exists()) == (2, False)
    assert "no spec is given" in answer.err


def test_one_that_is_gone_edited_or_of_another_version_is_written_again(cli: Cli, spec: Path, tmp_path: Path) -> None:
    header = tmp_path / NAME
    cli("generate", spec, "-o", tmp_path)
    good = header.read_text()
    older = re.sub("Input [0-9a-f]{4}", "Input 0000", launch_header("0.0.9"))
    for damage in (header.unlink, lambda: header.write_text("// mine\n" + good), lambda: header.write_text(older)):
        damage()
        checked = cli("generate", spec, "-o", tmp_path, "--check")
        assert (checked.status, f"{header}: " in checked.err) == (1, True)
        assert cli("generate", spec, "-o", tmp_path).out == f"wrote {header}\n"
        assert header.read_text() == good
    assert cli("generate", spec, "-o", tmp_path, "--check").status == 0


def test_a_check_tells_missing_stale_and_edited_apart(cli: Cli, tmp_path: Path) -> None:
    header = tmp_path / NAME
    words = ("generate", "-o", tmp_path, "--emit", "launch", "--check")
    assert f"{header}: missing" in cli(*words).err
    cli("generate", "-o", tmp_path, "--emit", "launch")
    assert cli(*words).status == 0
    header.write_text(header.read_text() + "// mine\n")
    assert f"{header}: edited by hand" in cli(*words).err


def test_a_kernel_of_its_name_is_refused(cli: Cli, spec: Path, tmp_path: Path) -> None:
    spec.write_text(spec.read_text().replace("scale", "cugen_launch"))
    answer = cli("generate", spec, "-o", tmp_path / "out")
    assert (answer.status, (tmp_path / "out").exists()) == (2, False)
    assert f"two files are called `{NAME}`" in answer.err


def test_it_is_an_orphan_when_no_kernel_of_the_folder_needs_it(
    cli: Cli, spec: Path, second: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    cli("generate", spec, second, "-o", out)
    for suffix in (".cu", ".h", ".hpp"):
        (out / f"scale{suffix}").unlink()
    words = ("generate", spec, "-o", out, "--emit", "ptx")
    cli(*words)
    assert cli(*words, "--check").status == 0  # the other spec's kernel needs it
    second.unlink()
    orphan = f"{out / NAME}: no kernel in the folder includes it"
    checked = cli(*words, "--check")
    assert (checked.status, orphan in checked.err, "second.hpp: no spec makes it" in checked.err) == (1, True, True)
    (out / NAME).write_text("// mine\n")
    assert NAME not in cli(*words, "--check").err


def test_files_of_0_1_are_replaced_and_leave_nothing_behind(cli: Cli, tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    for suffix in (".cu", ".h", ".json"):
        shutil.copy(root / "tests" / "data" / "release_0_1" / "generated" / f"softmax{suffix}", tmp_path)
    words = ("generate", root / "specs" / "softmax.yaml", "-o", tmp_path)
    checked = cli(*words, "--check")
    states = sorted(line.partition(f"{tmp_path}/")[2] for line in checked.err.splitlines()[:-1])
    assert states == [
        f"{NAME}: missing",
        "softmax.cu: stale",
        "softmax.h: stale",
        "softmax.hpp: missing",
        "softmax.json: stale",
    ]
    assert cli(*words).status == 0
    assert cli(*words, "--check").status == 0


@pytest.mark.slow
def test_of_parallel_calls_for_one_folder_one_writes_it(spec: Path, tmp_path: Path) -> None:
    running = []
    for number in range(4):
        path = tmp_path / f"k{number}.yaml"
        path.write_text(spec.read_text().replace("scale", path.stem))
        words = [sys.executable, "-m", "cugen", "generate", str(path), "-o", str(tmp_path / "out"), "--no-analysis"]
        running.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
    seen: set[str] = set()
    header = tmp_path / "out" / NAME
    while any(process.poll() is None for process in running):
        if header.exists():
            seen.add(header.read_text())
        time.sleep(0.001)
    printed = [process.communicate(timeout=60)[0] for process in running]
    assert "".join(printed).count(f"wrote {header}\n") == 1
    assert seen == {launch_header()}
    assert len(os.listdir(tmp_path / "out")) == 1 + 4 * 4
