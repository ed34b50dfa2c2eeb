"""Files on disk: whole or not at all, and honest about whether they are current."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.abi.manifest import Manifest
from cugen.emit import files
from tests.drawn import examples

RELEASE = Path(__file__).parents[1] / "data" / "release_0_1" / "generated"


def texts(
    source: str = "int x;\n", header: str = "#pragma once\n", typed: str = "class X;\n", input_hash: str = "one"
) -> files.Texts:
    def sha(text: str) -> str:
        return hashlib.sha256(text.encode()).hexdigest()

    manifest = Manifest(
        kernel="k",
        version="1",
        spec_file="k.yaml",
        spec_hash="",
        target="sm_90",
        params={"M": 3},
        arguments=(),
        workspace=(),
        uploads=(),
        launches=(),
        source_hash=sha(source),
        header_hash=sha(header),
        typed_header_hash=sha(typed),
        input_hash=input_hash,
    )
    return files.Texts("k", source, header, manifest.to_json(), typed)


def test_what_was_written_is_current_for_its_input_and_for_no_other(tmp_path: Path) -> None:
    files.write(tmp_path, texts())
    assert files.is_current(tmp_path, "k", "one")
    assert not files.is_current(tmp_path, "k", "another")


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_an_edit_of_any_file_makes_the_set_stale(tmp_path: Path, suffix: str) -> None:
    files.write(tmp_path, texts())
    path = tmp_path / f"k{suffix}"
    path.write_text(path.read_text() + " ")
    assert not files.is_current(tmp_path, "k", "one")


@pytest.mark.parametrize("suffix", files.SUFFIXES)
def test_a_file_that_is_gone_makes_the_set_stale(tmp_path: Path, suffix: str) -> None:
    files.write(tmp_path, texts())
    (tmp_path / f"k{suffix}").unlink()
    assert not files.is_current(tmp_path, "k", "one")


@pytest.mark.parametrize("content", ["", "{}", "[]", "null", '{"manifest_hash": 1}', "\udcff"])
def test_a_manifest_that_is_none_of_ours_is_stale_and_not_an_error(tmp_path: Path, content: str) -> None:
    files.write(tmp_path, texts())
    (tmp_path / "k.json").write_bytes(content.encode(errors="surrogateescape"))
    assert not files.is_current(tmp_path, "k", "one")


def test_a_changed_number_in_the_manifest_is_seen(tmp_path: Path) -> None:
    files.write(tmp_path, texts())
    path = tmp_path / "k.json"
    path.write_text(path.read_text().replace('"M": 3', '"M": 4'))
    assert not files.is_current(tmp_path, "k", "one")
    assert [(d.path.name, d.state) for d in files.differences(tmp_path, texts())] == [("k.json", "edited by hand")]


def test_only_files_whose_bytes_differ_are_written(tmp_path: Path) -> None:
    assert [path.name for path in files.write(tmp_path, texts())] == ["k.cu", "k.h", "k.hpp", "k.json"]
    assert files.write(tmp_path, texts()) == ()
    assert [path.name for path in files.write(tmp_path, texts(source="int y;\n"))] == ["k.cu", "k.json"]
    assert len(files.write(tmp_path, texts(source="int y;\n"), always=True)) == 4


def test_a_file_that_is_left_alone_keeps_its_time(tmp_path: Path) -> None:
    files.write(tmp_path, texts())
    os.utime(tmp_path / "k.cu", (1, 1))
    files.write(tmp_path, texts())
    assert (tmp_path / "k.cu").stat().st_mtime == 1
    files.write(tmp_path, texts(), always=True)
    assert (tmp_path / "k.cu").stat().st_mtime > 1


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(tmp_path, texts())

    def refuse(source: object, target: object) -> None:
        raise OSError("no")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="no"):
        files.write(tmp_path, texts(source="int y;\n"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["k.cu", "k.h", "k.hpp", "k.json"]
    assert (tmp_path / "k.cu").read_text() == "int x;\n"


def test_files_have_the_mode_that_the_umask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        files.write(tmp_path, texts())
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "k.cu").stat().st_mode) == 0o640


def test_a_link_is_replaced_and_what_it_points_to_stays(tmp_path: Path) -> None:
    elsewhere = tmp_path / "precious"
    elsewhere.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "k.cu").symlink_to(elsewhere)
    files.write(folder, texts())
    assert elsewhere.read_text() == "mine"
    assert not (folder / "k.cu").is_symlink()


@pytest.mark.parametrize("stem", ["../k", "a/k", "/k"])
def test_a_stem_that_leaves_the_folder_is_refused(tmp_path: Path, stem: str) -> None:
    with pytest.raises(ValueError, match="stem"):
        files.paths(tmp_path, stem)


def test_a_difference_says_whether_the_spec_or_a_hand_made_it(tmp_path: Path) -> None:
    assert {d.state for d in files.differences(tmp_path, texts())} == {"missing"}
    files.write(tmp_path, texts())
    assert list(files.differences(tmp_path, texts())) == []
    newer = texts(source="int y;\n", input_hash="two")
    assert {d.path.suffix: d.state for d in files.differences(tmp_path, newer)} == {".cu": "stale", ".json": "stale"}
    (tmp_path / "k.cu").write_text("int z;\n")
    assert {d.path.suffix: d.state for d in files.differences(tmp_path, texts())} == {".cu": "edited by hand"}


@pytest.mark.skipif(shutil.which("patch") is None, reason="no `patch` here")
@pytest.mark.parametrize(
    "edited",
    [
        pytest.param("int x;\nint y;\n", id="line added"),
        pytest.param("no newline at the end", id="no line end"),
        pytest.param("\n", id="emptied"),
        pytest.param("int x;\r\n", id="crlf"),
    ],
)
def test_a_diff_is_a_patch_that_mends_the_file(tmp_path: Path, edited: str) -> None:
    files.write(tmp_path, texts())
    (tmp_path / "k.cu").write_bytes(edited.encode())
    diff = "".join(d.diff for d in files.differences(tmp_path, texts()))
    command = ["patch", "--binary", "-s", str(tmp_path / "k.cu")]
    subprocess.run(command, input=diff.encode(), check=True, timeout=60)
    assert (tmp_path / "k.cu").read_bytes() == b"int x;\n"


# What a path may be made of: all that Make gives a meaning and its syntax can still express.
_NAMES = st.text(st.sampled_from("ab1.-_ $#:\\é"), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..") and not name.endswith(("\\", " ")) and not name.startswith((" ", ":"))
)


@pytest.mark.skipif(shutil.which("make") is None, reason="no `make` here")
@settings(max_examples=examples(40), deadline=None)
@given(_NAMES)
def test_make_finds_a_dependency_of_any_name_and_rebuilds_for_it(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        dependency = Path(folder, name)
        dependency.touch()
        rule = files.make_rule([Path("target")], [name])
        Path(folder, "Makefile").write_text(rule + "\ttouch $@\n")

        def make() -> str:
            command = ["make", "--no-print-directory"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
            return done.stdout

        os.utime(dependency, (1, 1))
        assert "touch" in make()
        assert "up to date" in make()
        os.utime(dependency, (2e9, 2e9))
        assert "touch" in make()


def test_a_rule_names_each_dependency_once() -> None:
    rule = files.make_rule([Path("o/k.cu"), Path("o/k.h")], ["s.yaml", "t.j2", "s.yaml"])
    assert rule == "o/k.cu o/k.h: \\\n  s.yaml \\\n  t.j2\n"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("a\nb", id="line feed"),
        pytest.param("a ", id="blank at the end"),
        pytest.param("a\\", id="backslash at the end"),
        pytest.param("a\rb", id="carriage return"),
    ],
)
def test_a_path_that_make_cannot_say_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="depfile"):
        files.make_rule([Path("k.cu")], [path])


def test_a_manifest_of_0_1_is_stale_and_tells_edited_files(tmp_path: Path) -> None:
    for suffix in (".cu", ".h", ".json"):
        shutil.copy(RELEASE / f"softmax{suffix}", tmp_path)
    content = json.loads((tmp_path / "softmax.json").read_text())
    assert "typed_header_hash" not in content
    assert not files.is_current(tmp_path, "softmax", content["input_hash"])
    (tmp_path / "softmax.cu").write_text("int x;\n")
    expected = files.Texts("softmax", "int y;\n", "int y;\n", "{}\n", "int y;\n")
    assert [(d.path.name, d.state) for d in files.differences(tmp_path, expected)] == [
        ("softmax.cu", "edited by hand"),
        ("softmax.h", "stale"),
        ("softmax.json", "stale"),
        ("softmax.hpp", "missing"),
    ]


def header(folder: Path, text: str = "#pragma once\n", input_hash: str = "1" * 64) -> files.File:
    path, _ = files.header_paths(folder, "k")
    return files.File(path, files.stamped(text, input_hash).encode())


def test_a_header_by_itself_is_current_for_its_input_and_for_no_other(tmp_path: Path) -> None:
    made = header(tmp_path / "new")
    assert not files.is_current_text(made.path, "1" * 64)
    assert files.write_file(made) == (tmp_path / "new" / "k.h",)
    assert files.is_current_text(made.path, "1" * 64)
    assert not files.is_current_text(made.path, "2" * 64)
    assert files.write_file(made) == ()
    assert files.write_file(made, always=True) == (tmp_path / "new" / "k.h",)


@given(st.integers(0), st.characters(codec="ascii", categories=("L", "N", "P", "Zs")))
def test_no_edited_character_of_a_header_goes_unseen(position: int, character: str) -> None:
    text = header(Path()).content.decode()
    position %= len(text)
    edited = text[:position] + character + text[position + 1 :]
    with tempfile.TemporaryDirectory() as name:
        made = header(Path(name))
        made.path.write_text(edited)
        assert files.is_current_text(made.path, "1" * 64) is (edited == text)
        states = [difference.state for difference in files.file_differences(made)]
        assert states == ([] if edited == text else ["edited by hand"])


def test_a_header_tells_missing_stale_and_edited_apart(tmp_path: Path) -> None:
    def states(expected: files.File) -> list[tuple[str, str]]:
        return [(d.path.name, d.state) for d in files.file_differences(expected)]

    made = header(tmp_path)
    assert states(made) == [("k.h", "missing")]
    files.write_file(made)
    assert states(made) == []
    assert states(header(tmp_path, "#pragma twice\n", "2" * 64)) == [("k.h", "stale")]
    made.path.write_bytes(made.content + b"// mine\n")
    assert states(made) == [("k.h", "edited by hand")]


@pytest.mark.parametrize("stem", ["../k", "a/k", "/k"])
def test_a_header_stays_in_its_folder(tmp_path: Path, stem: str) -> None:
    with pytest.raises(ValueError, match="stem"):
        files.header_paths(tmp_path, stem)


@pytest.mark.slow
def test_of_processes_that_write_one_shared_file_one_writes_it(tmp_path: Path) -> None:
    """Whoever compiled with the first copy would be rebuilt for the second."""
    program = (
        "import sys, time; from pathlib import Path; from cugen.emit import files\n"
        "time.sleep(max(0, float(sys.argv[2]) - time.time()))\n"
        "print(len(files.write_shared(files.File(Path(sys.argv[1]), b'x' * 100000))))\n"
    )
    for content in (None, b"old"):  # missing, and of another version
        path = tmp_path / "cugen_launch.hpp"
        if content is not None:
            path.write_bytes(content)
        words = [sys.executable, "-c", program, str(path), str(time.time() + 1)]
        running = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(6)]
        assert sorted(process.communicate(timeout=60)[0] for process in running) == ["0\n"] * 5 + ["1\n"]
        assert path.read_bytes() == b"x" * 100000
        assert os.listdir(tmp_path) == [path.name]


def test_a_file_that_can_not_be_written_is_named_and_not_its_temporary_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as refusal:
        files.write_atomically(tmp_path / "missing" / "page.html", b"")
    assert refusal.value.filename == str(tmp_path / "missing" / "page.html")
