"""`cugen generate` with an internal error at one of several specs: it is told, and the others are made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cugen.kernel

from ..conftest import SPEC, Cli


@pytest.fixture
def specs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Three specs, of which the second one has an internal error."""
    made = cugen.kernel.generate

    def generate(spec: Any, **options: Any) -> Any:
        if spec.kernel in ("b", "b__32"):
            raise ValueError("surprise")
        return made(spec, **options)

    monkeypatch.setattr(cugen.kernel, "generate", generate)
    files = [tmp_path / f"{name}.yaml" for name in "abc"]
    for file in files:
        file.write_text(SPEC.replace("kernel: scale", f"kernel: {file.stem}"))
    return files


def kernels(folder: Path) -> set[str]:
    return {path.stem for path in folder.glob("*.cu")}


@pytest.mark.parametrize("words", [(), ("--jobs", "2")], ids=["in this process", "in processes"])
def test_the_others_are_made_and_the_status_says_so(
    cli: Cli, specs: list[Path], tmp_path: Path, words: tuple[str, ...]
) -> None:
    answer = cli("generate", *specs, "-o", tmp_path / "out", *words)
    assert answer.status == 4
    assert "error: internal error of cugen: ValueError: surprise\n" in answer.err
    assert f"  --> {specs[1]}, kernel `b`\n" in answer.err
    assert "Traceback" not in answer.err
    assert kernels(tmp_path / "out") == {"a", "c"}
    again = cli("generate", *specs, "-o", tmp_path / "out", *words)
    assert (again.status, again.out) == (4, "")


def test_debug_has_the_traceback_of_the_process_that_failed(cli: Cli, specs: list[Path], tmp_path: Path) -> None:
    answer = cli("generate", *specs, "-o", tmp_path / "out", "--jobs", "2", "--debug")
    assert answer.err.index("Traceback") < answer.err.index('raise ValueError("surprise")') < answer.err.index("  --> ")


def test_a_refused_spec_is_told_too_and_nothing_is_written(cli: Cli, specs: list[Path], tmp_path: Path) -> None:
    specs[2].write_text(specs[2].read_text().replace("family: direct", "family: tiled"))
    answer = cli("generate", *specs, "-o", tmp_path / "out")
    assert answer.status == 2
    assert answer.err.index("internal error") < answer.err.index(f"--> {specs[2]}:")
    assert not (tmp_path / "out").exists()


def test_the_manifest_has_the_others(cli: Cli, specs: list[Path], tmp_path: Path) -> None:
    manifest = tmp_path / "out" / "build.json"
    assert cli("generate", *specs, "-o", tmp_path / "out", "--manifest", manifest).status == 4
    assert set(json.loads(manifest.read_text())["kernels"]) == {"a", "c"}


def test_a_header_of_variants_and_the_umbrella_wait_for_all(cli: Cli, specs: list[Path], tmp_path: Path) -> None:
    text = specs[1].read_text().replace("{family: direct}", "{family: direct, block: {i: $size}}")
    specs[1].write_text(text + "variants: {size: [64, 32]}\n")
    assert cli("generate", *specs, "-o", tmp_path / "out", "--umbrella", "all").status == 4
    assert kernels(tmp_path / "out") == {"a", "b__64", "c"}
    assert not (tmp_path / "out" / "b.h").exists()
    assert not (tmp_path / "out" / "all.h").exists()


def test_a_check_tells_what_is_stale_too(cli: Cli, specs: list[Path], tmp_path: Path) -> None:
    cli("generate", *specs, "-o", tmp_path / "out")
    (tmp_path / "out" / "a.cu").write_text("")
    answer = cli("generate", *specs, "-o", tmp_path / "out", "--check")
    assert answer.status == 4
    assert f"{tmp_path / 'out' / 'a.cu'}: " in answer.err
    assert "internal error" in answer.err
