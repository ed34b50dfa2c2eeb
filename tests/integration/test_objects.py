"""Objects of a Python project's library: each is compiled when it has to be, and whole."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from cugen.integrations.objects import Compiler
from cugen.toolchain.errors import ToolMissing


@pytest.fixture
def compiler(tmp_path: Path) -> Compiler:
    """A compiler that keeps a list of what it compiled, and dies half-way through a source that says so."""
    program = tmp_path / "compiler"
    program.write_text(
        "#!/bin/sh\n"
        "while [ $# -gt 0 ]; do case $1 in -c) source=$2;; -MF) rule=$2;; -o) made=$2;; esac; shift; done\n"
        'echo "$source" >> log\n'
        'echo "x: $source" > "$rule"\n'
        'echo half > "$made"\n'
        'grep -q die "$source" && kill -9 $$\n'
        'echo whole > "$made"\n'
    )
    program.chmod(0o755)
    (tmp_path / "work").mkdir()
    return Compiler((str(program),), tmp_path / "work")


@pytest.mark.skipif(shutil.which("sh") is None, reason="no `sh` here")
def test_a_killed_compiler_leaves_no_object_that_looks_up_to_date(compiler: Compiler, tmp_path: Path) -> None:
    source = tmp_path / "a.cpp"
    source.write_text("good")
    made = compiler.compile(source)
    assert compiler.compile(source).read_text() == "whole\n"
    assert (compiler.folder / "log").read_text().count("\n") == 1
    source.write_text("die")
    with pytest.raises(ToolMissing):
        compiler.compile(source)
    assert made.read_text() == "whole\n"
    source.write_text("good again")
    compiler.compile(source)
    assert (compiler.folder / "log").read_text().count("\n") == 3
    assert sorted(path.name for path in compiler.folder.iterdir()) == ["a.cpp.command", "a.cpp.d", "a.cpp.o", "log"]
