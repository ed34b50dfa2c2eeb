"""`cugen generate --check` as a gate in a repository: whatever isn't what the specs give is found and shown."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.fixture
def gate(cli: Cli, spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """A repository whose `specs/` are generated into `kernels/`; the check of all of them."""
    (tmp_path / "specs").mkdir()
    for name in ("scale", "other"):
        (tmp_path / "specs" / f"{name}.yaml").write_text(spec.read_text().replace("scale", name))
    monkeypatch.chdir(tmp_path)

    def check() -> Any:
        return cli("generate", *sorted(Path("specs").glob("*.yaml")), "-o", "kernels", "--check")

    assert cli("generate", *sorted(Path("specs").glob("*.yaml")), "-o", "kernels").status == 0
    assert check().status == 0
    return check


def applied(diff: str, folder: Path) -> None:
    """What is printed is a patch, which makes of the files what the specs give."""
    for patch in re.split(r"^(?=--- )", diff, flags=re.MULTILINE)[1:]:
        (before, after), hunks = (line[4:] for line in patch.split("\n", 2)[:2]), patch.split("\n", 2)[2]
        old = [] if before == "/dev/null" else (folder / before).read_text().splitlines(keepends=True)
        new: list[str] = []
        position = 0
        for line in hunks.splitlines(keepends=True):
            if hunk := re.match(r"@@ -(\d+)(?:,(\d+))? ", line):
                start = int(hunk[1]) - (hunk[2] != "0")
                new += old[position:start]
                position = start
                continue
            if line[0] in " -":
                assert old[position] == line[1:]
                position += 1
            if line[0] in " +":
                new.append(line[1:])
        text = "".join(new + old[position:])
        if after == "/dev/null":
            assert text == ""
            (folder / before).unlink()
        else:
            (folder / after).write_text(text)


def test_a_hand_edit_is_found_and_the_diff_undoes_it(gate: Callable[[], Any], tmp_path: Path) -> None:
    source = tmp_path / "kernels" / "scale.cu"
    good = source.read_text()
    source.write_text(good.replace("2.0f", "2.5f"))
    answer = gate()
    assert answer.status == 1
    assert "kernels/scale.cu: edited by hand" in answer.err
    applied(answer.out, tmp_path)
    assert source.read_text() == good


def test_a_stale_file_is_found(gate: Callable[[], Any], tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "scale.yaml"
    spec.write_text(spec.read_text().replace("2 *", "3 *"))
    answer = gate()
    assert answer.status == 1
    assert {line for line in answer.err.splitlines() if "stale" in line} == {
        f"kernels/scale{suffix}: stale" for suffix in (".cu", ".h", ".json", ".hpp")
    }
    applied(answer.out, tmp_path)
    assert gate().status == 0


def test_a_missing_file_is_found(gate: Callable[[], Any], tmp_path: Path) -> None:
    header = tmp_path / "kernels" / "scale.h"
    header.unlink()
    answer = gate()
    assert (answer.status, answer.err.splitlines()[0]) == (1, "kernels/scale.h: missing")
    applied(answer.out, tmp_path)
    assert gate().status == 0


def test_a_folder_in_place_of_a_file_is_a_wrong_call(gate: Callable[[], Any], tmp_path: Path) -> None:
    (tmp_path / "kernels" / "scale.cu").unlink()
    (tmp_path / "kernels" / "scale.cu").mkdir()
    answer = gate()
    assert (answer.status, answer.err) == (2, "error: kernels/scale.cu: Is a directory\n")


def test_files_of_a_deleted_spec_are_orphans(gate: Callable[[], Any], tmp_path: Path) -> None:
    (tmp_path / "specs" / "other.yaml").unlink()
    answer = gate()
    assert answer.status == 1
    assert answer.err.splitlines() == [
        *(f"kernels/other{suffix}: no spec makes it (other.yaml is gone)" for suffix in (".cu", ".h", ".hpp", ".json")),
        "delete files that belong to no spec",
    ]
    applied(answer.out, tmp_path)
    remaining = ["cugen_launch.hpp", "scale.cu", "scale.h", "scale.hpp", "scale.json"]
    assert sorted(path.name for path in (tmp_path / "kernels").iterdir()) == remaining
    assert gate().status == 0


def test_a_long_name_of_a_spec_that_is_gone_is_found_in_a_broken_line(
    gate: Callable[[], Any], cli: Cli, tmp_path: Path
) -> None:
    spec = (tmp_path / "specs" / "other.yaml").rename(tmp_path / "specs" / f"other {'than those ' * 8}.yaml")
    cli("generate", spec, "-o", "kernels")
    (tmp_path / "kernels" / "other.json").unlink()
    spec.unlink()
    assert f"kernels/other.cu: no spec makes it ({spec.name} is gone)" in gate().err


def test_files_of_a_renamed_kernel_are_orphans(gate: Callable[[], Any], cli: Cli, tmp_path: Path) -> None:
    spec = tmp_path / "specs" / "scale.yaml"
    spec.write_text(spec.read_text().replace("kernel: scale", "kernel: twice"))
    cli("generate", spec, "-o", "kernels")
    answer = gate()
    assert answer.status == 1
    assert "kernels/scale.cu: no spec makes it (scale.yaml has no such kernel)" in answer.err


@pytest.mark.slow
def test_a_header_of_variants_that_share_none_any_more_is_found(
    gate: Callable[[], Any], cli: Cli, tmp_path: Path
) -> None:
    spec = tmp_path / "specs" / "scale.yaml"
    text = spec.read_text().replace("{family: direct}", "{block: {i: $b}}")
    spec.write_text(text + "variants: {b: [64, 128]}\n")
    cli("generate", spec, "-o", "kernels")
    for suffix in (".cu", ".json"):
        (tmp_path / "kernels" / f"scale{suffix}").unlink()
    assert gate().status == 0
    spec.write_text(text + "variants: {b: [64]}\n")
    answer = gate()
    lines = [line for line in answer.err.splitlines() if "no such kernel" in line]
    assert [line.split(":")[0] for line in lines] == [
        "kernels/scale.h",
        "kernels/scale.hpp",
        *(f"kernels/scale__128{suffix}" for suffix in (".cu", ".h", ".hpp", ".json")),
    ]


def test_a_check_of_one_spec_leaves_the_others_files_alone(gate: Callable[[], Any], cli: Cli, tmp_path: Path) -> None:
    assert cli("generate", "specs/scale.yaml", "-o", "kernels", "--check").status == 0


def test_files_of_other_people_are_no_orphans(gate: Callable[[], Any], tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    (kernels / "mine.cu").write_text("// Not made by cugen\n__global__ void mine() {}\n")
    (kernels / "mine.json").write_text('{"spec_file": "gone.yaml"}')
    (kernels / "list.json").write_text("[1, 2]")
    (kernels / "broken.json").write_text("{")
    (kernels / "folder.cu").mkdir()
    (kernels / "notes.md").write_text((kernels / "scale.cu").read_text())
    (kernels / "blob.h").write_bytes(b"\xff\xfe\x00")
    assert gate().status == 0
