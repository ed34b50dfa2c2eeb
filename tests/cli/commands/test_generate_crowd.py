"""Many processes on one folder at once, and processes that are killed: no reader ever finds half a file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

_SPEC = """\
cugen: 1
kernel: {name}
params: {{N: $n}}
arrays:
  x: {{shape: [N], dtype: float32}}
  y: {{shape: [N], dtype: float32}}
compute: y[i] = {factor} * x[i]
variants: {{n: [10, 20]}}
"""

# Starts many runs of the command as processes of their own, forked from one that has imported everything: 200 cold
# starts would take minutes and all of a small machine's memory. Prints what readers found meanwhile.
_CROWD = """
import itertools, json, os, random, signal, sys, time
from pathlib import Path
from cugen.cli.main import main
import cugen.kernel, cugen.analysis.verdicts.comments, cugen.emit.host.variants, cugen.schedule.planner

what, count, out, old, new, expected = sys.argv[1:]
count, out, random = int(count), Path(out), random.Random(1)
texts = json.loads(Path(expected).read_text())
whole = {name: {bytes.fromhex(text) for text in versions} for name, versions in texts.items()}
words = [(old,), (new,), (old, "--write", "always"), (new, "--write", "always")]
torn, temporaries, failed, killed = set(), 0, 0, 0


def look():
    for entry in os.scandir(out):
        if not entry.name.endswith(".tmp") and Path(entry).read_bytes() not in whole[entry.name]:
            torn.add(entry.name)


def temporary_files():
    return sum(entry.name.endswith(".tmp") for entry in os.scandir(out))


def generate(words):
    return main(["generate", *words, "-o", str(out), "-q", "--no-analysis"])


def die_before_rename(number):
    renames, rename = itertools.count(1), os.replace

    def replace(*paths):
        if next(renames) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        rename(*paths)

    os.replace = replace


def start(words, gate=None, renames=None):
    child = os.fork()
    if child:
        return child
    if gate:
        os.close(gate[1])
        os.read(gate[0], 1)  # until the parent opens it
    if renames is not None:
        die_before_rename(renames)
    os._exit(generate(words))


generate(words[3])  # loads what is left to load
generate(words[0])
if what == "at once":
    gate = os.pipe()
    children = {start(words[n % 4], gate) for n in range(count)}
    os.close(gate[1])
    while children:
        look()
        child, status = os.waitpid(-1, os.WNOHANG)
        children.discard(child)
        failed += status != 0
else:
    began = time.perf_counter()
    os.waitpid(start(words[3]), 0)
    usual = time.perf_counter() - began
    for n in range(count):
        # Every other one in the midst of writing one of the eleven files, the others whenever it may be.
        child = start(words[2 + n // 2 % 2], renames=None if n % 2 else random.randint(1, 11))
        if n % 2:
            time.sleep(random.uniform(0, 1.2 * usual))
            os.kill(child, signal.SIGKILL)
        killed += os.waitpid(child, 0)[1] == signal.SIGKILL
        look()
        temporaries = max(temporaries, temporary_files())
print(json.dumps({"torn": sorted(torn), "temporaries": temporaries, "failed": failed, "killed": killed}))
"""


def _generate(*words: object) -> None:
    command = [sys.executable, "-m", "cugen", "generate", *map(str, words), "-q", "--no-analysis"]
    subprocess.run(command, check=True, timeout=60)


def _contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


class _Setting:
    """Two versions of a spec and what each gives."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.specs = {}
        self.whole: dict[str, Mapping[str, bytes]] = {}
        for name, factor in (("old", 2), ("new", 3)):
            path = folder / name / "scale.yaml"
            path.parent.mkdir()
            path.write_text(_SPEC.format(name="scale", factor=factor))
            self.specs[name] = path
            _generate(path, "-o", folder / f"{name}_alone")
            self.whole[name] = _contents(folder / f"{name}_alone")
        assert self.whole["old"].keys() == self.whole["new"].keys()
        assert len(self.whole["old"]) == 11  # four files of each variant, two headers for both, and the launch header

    def play(self, what: str, count: int) -> dict[str, object]:
        expected = self.folder / "expected.json"
        names = self.whole["old"]
        expected.write_text(json.dumps({name: [self.whole[v][name].hex() for v in self.whole] for name in names}))
        words = [what, count, self.out, self.specs["old"], self.specs["new"], expected]
        command = [sys.executable, "-c", _CROWD, *map(str, words)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300, check=True)
        outcome: dict[str, object] = json.loads(done.stdout)
        return outcome


@pytest.fixture
def setting(tmp_path: Path) -> _Setting:
    return _Setting(tmp_path)


@pytest.mark.slow
def test_200_processes_at_once_leave_whole_files_and_nothing_else(setting: _Setting) -> None:
    outcome = setting.play("at once", 200)
    assert (outcome["torn"], outcome["failed"]) == ([], 0)
    assert _contents(setting.out).keys() == setting.whole["old"].keys()
    for name in ("new", "old"):
        _generate(setting.specs[name], "-o", setting.out)
        assert _contents(setting.out) == setting.whole[name]


@pytest.mark.slow
def test_200_processes_killed_at_random_moments_leave_whole_files_and_the_next_cleans_up(setting: _Setting) -> None:
    outcome = setting.play("kill", 200)
    assert outcome["torn"] == []
    assert isinstance(outcome["killed"], int)
    assert outcome["killed"] >= 100
    assert outcome["temporaries"] != 0
    _generate(setting.specs["new"], "-o", setting.out)
    assert _contents(setting.out) == setting.whole["new"]  # and no temporary file


@pytest.mark.slow
def test_temporary_files_of_unknown_processes_are_removed_after_a_day(setting: _Setting) -> None:
    _generate(setting.specs["old"], "-o", setting.out)
    young, old = (setting.out / f".scale__n_10.cu.{digit * 16}.cugen.tmp" for digit in "01")
    foreign = setting.out / ".scale__n_10.cu.0123456789abcdef.tmp"
    rule = setting.folder / "rules" / f".scale.d.{'2' * 16}.cugen.tmp"
    rule.parent.mkdir()
    for path in (young, old, foreign, rule):
        path.write_text("half a ker")
    for path in (old, foreign, rule):
        os.utime(path, (time.time() - 2 * 86400,) * 2)
    _generate(setting.specs["old"], "-o", setting.out, "--depfile", rule.with_name("scale.d"))
    assert [path.exists() for path in (young, old, foreign, rule)] == [True, False, True, False]


@pytest.mark.slow
def test_workers_end_when_the_one_that_they_work_for_is_killed(tmp_path: Path) -> None:
    spec = tmp_path / "many.yaml"
    spec.write_text(_SPEC.format(name="many", factor=2).replace("[10, 20]", str(list(range(1, 400)))))
    command = [sys.executable, "-m", "cugen", "generate", str(spec), "-o", str(tmp_path / "out"), "--jobs", "2", "-q"]
    parent = subprocess.Popen(command)
    workers: list[int] = []
    deadline = time.monotonic() + 60
    while len(workers) < 2 and time.monotonic() < deadline:
        workers = [int(word) for word in Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text().split()]
        time.sleep(0.01)
    time.sleep(0.5)  # both have begun
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    while any(Path(f"/proc/{pid}").exists() for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(workers) == 2
    assert [pid for pid in workers if Path(f"/proc/{pid}").exists()] == []
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())
