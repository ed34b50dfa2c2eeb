"""Building an executable with the host C++ compiler."""

import subprocess
from pathlib import Path

import pytest

from cugen.toolchain import host
from cugen.toolchain.errors import CompileError, ToolMissing

HELLO = '#include "greeting.h"\n#include <cstdio>\nint main() { std::puts(GREETING); }\n'


def output_of(built: host.Built) -> str:
    return subprocess.run([built.path], capture_output=True, text=True, check=True, timeout=60).stdout


def test_a_source_with_a_header_becomes_a_program_that_runs() -> None:
    built = host.build({"main.cpp": HELLO, "greeting.h": '#define GREETING "hello"\n'}, "main.cpp", ["-std=c++17"])
    assert output_of(built) == "hello\n"
    assert not built.cached


def test_the_same_build_again_comes_from_the_cache() -> None:
    sources = {"main.cpp": HELLO, "greeting.h": '#define GREETING "hello"\n'}
    first = host.build(sources, "main.cpp", [])
    second = host.build(sources, "main.cpp", [])
    assert second.cached
    assert second.path == first.path


@pytest.mark.parametrize("changed", ["header", "flags", "include folder"])
def test_whatever_decides_the_outcome_decides_the_cache_entry(changed: str, tmp_path: Path) -> None:
    (tmp_path / "greeting.h").write_text('#define GREETING "from the folder"\n')
    paths = [host.build({"main.cpp": HELLO}, "main.cpp", [], [tmp_path]).path]
    sources, flags = {"main.cpp": HELLO}, []
    if changed == "header":
        sources["greeting.h"] = '#define GREETING "hello"\n'
    elif changed == "flags":
        flags.append("-O1")
    else:
        (tmp_path / "greeting.h").write_text('#define GREETING "changed"\n')
    built = host.build(sources, "main.cpp", flags, [tmp_path])
    assert not built.cached
    assert built.path not in paths


def test_a_prefix_header_is_compiled_once_and_changes_nothing(tmp_path: Path, cache_folder: Path) -> None:
    (tmp_path / "common.h").write_text("#pragma once\n#include <cstdio>\n#define GREETING LOCAL\n")
    prefix = host.PrefixHeader("common.h", tmp_path, ("-O1",))
    source = '#include <common.h>\n#define LOCAL "%s"\nint main() { std::puts(GREETING); }\n'
    for name in ("one", "two"):
        built = host.build({"main.cpp": source % name}, "main.cpp", ["-O1"], [tmp_path], prefix)
        assert output_of(built) == f"{name}\n"
    compiled = list(cache_folder.rglob("*.gch"))
    assert len(compiled) == ("clang" not in host.compiler().version)
    for path in compiled:
        path.unlink()
    plain = host.build({"main.cpp": source % "three"}, "main.cpp", ["-O1"], [tmp_path], prefix)
    assert output_of(plain) == "three\n"


def test_what_is_wrong_with_a_prefix_header_is_said_by_the_build(tmp_path: Path) -> None:
    (tmp_path / "common.h").write_text("#error not today\n")
    prefix = host.PrefixHeader("common.h", tmp_path, ())
    with pytest.raises(CompileError, match="not today") as caught:
        host.build({"main.cpp": "#include <common.h>\nint main() {}\n"}, "main.cpp", [], [tmp_path], prefix)
    assert caught.value.source_name == "main.cpp"


def test_a_cuda_source_can_be_read_as_cpp_with_a_header_forced_in() -> None:
    sources = {"k.cu": "__global__ void f() {}\nint main() { f(); }\n", "shim.h": "#define __global__\n"}
    built = host.build(sources, "k.cu", ["-include", "shim.h", "-x", "c++"])
    assert output_of(built) == ""


def test_objects_are_linked_into_a_program() -> None:
    call = host.build({"call.cpp": "int answer();\nint main() { return answer() - 42; }\n"}, "call.cpp", ["-c"])
    callee = host.build({"answer.cpp": "int answer() { return 42; }\n"}, "answer.cpp", ["-c"])
    assert output_of(host.link((call.path, callee.path), ["-pthread"])) == ""
    assert host.link((call.path, callee.path), ["-pthread"]).cached
    with pytest.raises(CompileError, match="answer"):
        host.link((call.path,), [])


def test_a_refused_source_names_its_own_file_and_line() -> None:
    with pytest.raises(CompileError) as caught:
        host.build({"bad.cpp": "int main() {\n  return missing;\n}\n"}, "bad.cpp", [])
    assert "bad.cpp:2:" in caught.value.output
    assert caught.value.source_name == "bad.cpp"
    assert caught.value.code == "CG4001"


def test_a_failed_build_leaves_nothing_in_the_cache(cache_folder: Path) -> None:
    with pytest.raises(CompileError):
        host.build({"bad.cpp": "no"}, "bad.cpp", [])
    assert [path for path in cache_folder.rglob("*") if path.is_file()] == []


def test_cxx_names_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    path = host.compiler().path
    monkeypatch.setenv("CXX", f"{path} -DGREETING=1")
    assert host.compiler().command == (path, "-DGREETING=1")


def test_a_missing_compiler_is_named_with_its_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ToolMissing, match=r"(?s)no-such-compiler.*help: install a C\+\+17 compiler"):
        host.compiler()


@pytest.mark.parametrize(
    ("script", "how"),
    [
        ("exit 1", r"it ended with exit status 1, without a message"),
        ("kill -9 $$", r"it ended with signal 9, without a message"),
        ("exit 0", r"it ended with exit status 0, without a message and without a result"),
    ],
)
def test_a_compiler_that_says_nothing_is_no_fault_of_the_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, how: str
) -> None:
    path = tmp_path / "compiler"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    with pytest.raises(ToolMissing, match=rf"(?s)compiler` doesn't compile empty.cpp: {how}.*help: install"):
        host.build({"empty.cpp": "int main() {}\n"}, "empty.cpp", [])


def test_a_file_that_is_no_program_cannot_be_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "compiler"
    path.write_text("no program")
    path.chmod(0o755)
    monkeypatch.setenv("CXX", str(path))
    with pytest.raises(ToolMissing, match="can't be started: Exec format error"):
        host.compiler()


def test_a_variable_that_is_no_command_is_quoted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", '"g++')
    with pytest.raises(ToolMissing, match=r'`"g\+\+` of CXX is no command: No closing quotation'):
        host.compiler()


def test_without_any_compiler_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ToolMissing, match="apt install g"):
        host.compiler()
