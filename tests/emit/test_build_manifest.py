"""The manifest of a build: what it says of files, and when it says nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from cugen.emit.build_manifest import built, inputs_of, read, text


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "build" / name for name in ("b.json", "b.cubin")]
    paths[0].parent.mkdir()
    for path in paths:
        path.write_text(path.name)
    return paths


def test_what_is_written_is_read_with_paths_from_the_manifests_folder(files: list[Path], tmp_path: Path) -> None:
    kernel = built(str(tmp_path / "specs" / "b.yaml"), "hash", files, tmp_path / "build")
    assert (kernel.spec, list(kernel.files)) == ("../specs/b.yaml", ["b.cubin", "b.json"])
    path = tmp_path / "build" / "build.json"
    path.write_text(text({"b": kernel, "a": kernel}))
    assert list(read(path).items()) == [("a", kernel), ("b", kernel)]


def test_a_kernel_is_current_with_the_same_inputs_and_files(files: list[Path], tmp_path: Path) -> None:
    kernel = built("b.yaml", "hash", files, tmp_path)
    assert kernel.is_of("hash", files, tmp_path)
    assert not kernel.is_of("another", files, tmp_path)
    assert not kernel.is_of("hash", files[:1], tmp_path)
    files[1].write_text("changed")
    assert not kernel.is_of("hash", files, tmp_path)
    files[1].unlink()
    assert not kernel.is_of("hash", files, tmp_path)


def test_inputs_are_those_of_the_sources_and_all_others() -> None:
    assert len({inputs_of("a"), inputs_of("b"), inputs_of("a", "sm_80"), inputs_of("a", "sm_80", "nvrtc 13.0")}) == 4


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{",
        "7",
        '{"cugen_build": 2, "kernels": {}}',
        '{"cugen_build": 1}',
        '{"cugen_build": 1, "kernels": [1]}',
        '{"cugen_build": 1, "kernels": {"a": {}}}',
        '{"cugen_build": 1, "kernels": {"a": 7}}',
    ],
)
def test_what_is_damaged_or_of_another_version_says_nothing(tmp_path: Path, content: str) -> None:
    path = tmp_path / "build.json"
    assert read(path) == {}
    path.write_text(content)
    assert read(path) == {}
