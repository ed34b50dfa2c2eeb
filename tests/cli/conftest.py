"""The command line in-process, and small specs to give it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cugen.cli.main import main

SPEC = """\
cugen: 1
kernel: scale
doc: y is twice x
params: {N: 40}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
schedule: {family: direct}
"""

DYNAMIC = """\
cugen: 1
kernel: shift
params: {N: {range: [0, 1000], multiple_of: 4}}
scalars: {c: {dtype: float32}}
require: [N != 8]
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = x[i] + c
"""


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit status."""

    status: int
    out: str
    err: str


Cli = Callable[..., Answer]


@pytest.fixture
def cli(capfd: pytest.CaptureFixture[str]) -> Cli:
    """Runs `cugen` with the words given; paths may be among them."""

    def run(*words: object) -> Answer:
        capfd.readouterr()
        status = main([str(word) for word in words])
        out, err = capfd.readouterr()
        return Answer(status, out, err)

    return run


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "scale.yaml"
    path.write_text(SPEC)
    return path


@pytest.fixture
def dynamic_spec(tmp_path: Path) -> Path:
    path = tmp_path / "shift.yaml"
    path.write_text(DYNAMIC)
    return path


@pytest.fixture(scope="session")
def shared_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("builds")


@pytest.fixture(autouse=True)
def own_builds(shared_builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's cache, colours and compilers' settings gets into the tests."""
    monkeypatch.setenv("CUGEN_CACHE_DIR", os.fspath(shared_builds))
    monkeypatch.delenv("NO_COLOR", raising=False)
