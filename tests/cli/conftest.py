"""The command line in-process, and small specs to give it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from cugen.cli.main import main
from cugen.schedule.lock import Entry, Lock, Time, spec_key
from cugen.spec.load import load_all
from cugen.spec.model import Schedule
from cugen.tune import lockfile

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


@pytest.fixture
def locked(tmp_path: Path) -> Callable[[str, int], Path]:
    """A spec that leaves its schedule open, with `cugen.lock`, and a lock file of a name with another vector width."""
    spec = tmp_path / "open.yaml"
    spec.write_text(SPEC.replace("{N: 40}", "{N: 4096}").replace("schedule: {family: direct}\n", ""))

    def write(name: str, vector: int) -> Path:
        (known,) = load_all(spec)
        schedules = (("y", Schedule("map", tunables=(("vector", vector),))),)
        key, time = spec_key(known), Time(5, 4)
        entry = Entry(known.kernel, key, known.target, "NVIDIA H200", schedules, time, time, "0.1.0")
        path = tmp_path / name
        path.write_text(lockfile.text(Lock(str(path), (entry,))))
        return path

    write("cugen.lock", 4)
    return write


@pytest.fixture(autouse=True)
def own_builds(shared_builds: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's cache, colours and compilers' settings gets into the tests."""
    monkeypatch.setenv("CUGEN_CACHE_DIR", os.fspath(shared_builds))
    monkeypatch.delenv("NO_COLOR", raising=False)
