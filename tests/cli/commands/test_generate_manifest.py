"""`cugen generate --manifest`: one file for all kernels, by which machine code is made of what has changed only."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.cli.generation import kernels
from cugen.toolchain import cuda

from ..conftest import SPEC, Answer, Cli


@pytest.fixture
def build(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / "cache"))
    return Build(cli, tmp_path, monkeypatch)


class Build:
    """Three specs, and calls that make machine code of them."""

    def __init__(self, cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._cli, self.folder, self.made = cli, folder, list[str]()
        self.specs = [folder / f"{name}.yaml" for name in ("a", "b", "c")]
        for file in self.specs:
            file.write_text(SPEC.replace("kernel: scale", f"kernel: {file.stem}"))
        make = kernels._generate
        monkeypatch.setattr(
            kernels, "_generate", lambda work, **words: self.made.append(work.spec.kernel) or make(work, **words)
        )

    def __call__(self, *words: object) -> Answer:
        self.made.clear()
        manifest = ("--manifest", self.folder / "out" / "build.json")
        answer = self._cli("generate", *self.specs, "--emit", "cubin", "-o", self.folder / "out", *manifest, *words)
        assert answer.status == 0, answer.err
        return answer

    @property
    def kernels(self) -> dict[str, dict[str, dict[str, str]]]:
        content = json.loads((self.folder / "out" / "build.json").read_text())
        return dict(content["kernels"])


def test_the_manifest_has_the_files_of_all_kernels_by_hash(build: Build) -> None:
    assert build().out.splitlines()[-1] == f"wrote {build.folder / 'out' / 'build.json'}"
    for name, kernel in build.kernels.items():
        assert kernel["spec"] == f"../{name}.yaml"
        assert list(kernel["files"]) == [f"{name}.cubin", f"{name}.json"]
        for file, digest in kernel["files"].items():
            assert hashlib.sha256((build.folder / "out" / file).read_bytes()).hexdigest() == digest
    assert list(build.kernels) == ["a", "b", "c"]


def test_what_is_current_is_not_made_again(build: Build) -> None:
    build()
    before = build.kernels
    assert build().out == ""
    assert (build.made, build.kernels) == ([], before)


def test_a_changed_spec_a_changed_file_and_a_missing_one_are_made_again(build: Build) -> None:
    build()
    before = build.kernels
    build.specs[0].write_text(build.specs[0].read_text().replace("2 * x", "3 * x"))
    (build.folder / "out" / "b.cubin").write_bytes(b"changed")
    build()
    assert build.made == ["a", "b"]
    now = build.kernels
    assert (now["b"], now["c"]) == (before["b"], before["c"])
    assert now["a"]["inputs"] != before["a"]["inputs"]
    (build.folder / "out" / "c.json").unlink()
    build()
    assert build.made == ["c"]


@pytest.mark.slow
def test_another_target_or_another_compiler_is_another_build(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    build()
    build("--target", "sm_80")
    assert build.made == ["a", "b", "c"]
    later = tuple(replace(compiler, version=f"{compiler.version}.1") for compiler in cuda.compilers())
    monkeypatch.setattr(cuda, "compilers", lambda: later)
    build("--target", "sm_80")
    assert build.made == ["a", "b", "c"]


def test_without_a_manifest_machine_code_is_made_each_time(build: Build, cli: Cli) -> None:
    build()
    build.made.clear()
    assert cli("generate", *build.specs, "--emit", "cubin", "-o", build.folder / "out").status == 0
    assert build.made == ["a", "b", "c"]
