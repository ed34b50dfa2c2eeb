"""`cugen tune` and what takes its file: the whole way from a spec to a kernel with a tuned schedule."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cugen.abi.errors import RunError
from cugen.runtime.cuda.choice import without_pycuda
from cugen.tune.timing import gpus, workers
from cugen.tune.timing.gpus import Gpu
from tests.tune.scale import FAKE, SCALE

from ..conftest import Answer, Cli

BLOCK = """\
# Schedules that `cugen tune` found: a block for each kernel and device, by name. `cugen generate` takes them from here.
cugen_lock: 1
kernels:

- kernel: scale
  spec: "HASH"
  target: sm_90
  device: NVIDIA H200
  schedule:
    y: {family: map, vector: 2, vectors: 1}
  sums: in another order
  time_us: {cold: 5, warm: 2.5}
  untuned_us: {cold: 10, warm: 5}
  runner_up:
    schedule: {}
    time_us: {cold: 10, warm: 5}
  cugen: "VERSION"
"""
PRODUCT = """\
cugen: 1
kernel: product_{0}_{1}_{2}
params: {{M: {0}, N: {1}, K: {2}}}
arrays:
  A: {{shape: [M, K], dtype: float32}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


@pytest.fixture(autouse=True)
def own_cache(own_builds: None, unshared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", os.fspath(unshared_cache))


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "scale.yaml"
    path.write_text(SCALE)
    return path


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One GPU whose worker makes up times; the file that says which."""
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"times": [["Vector<float, 2>", 5.0], ["Vector<float, 4>", 10.0]]}))
    monkeypatch.setattr(gpus, "gpus", lambda: (Gpu("NVIDIA H200", "sm_90"), Gpu("NVIDIA T4", "sm_75")))
    monkeypatch.setattr(workers, "COMMAND", (sys.executable, str(FAKE), str(plan)))
    return plan


def tuned(cli: Cli, spec: Path, *words: str) -> Answer:
    return cli("tune", spec, "--jobs", 1, "--no-resume", "--device-name", "NVIDIA H200", *words)


def test_the_winner_goes_to_the_lock_and_into_the_kernel(cli: Cli, spec: Path, machine: Path, tmp_path: Path) -> None:
    cli("generate", spec, "-o", tmp_path / "out")
    answer = tuned(cli, spec)
    assert answer.status == 0, answer.err
    assert answer.out.startswith("scale: 5 µs on NVIDIA H200, 2.00 times as fast as untuned\n")
    assert answer.err.startswith(without_pycuda())
    assert "best 5 µs, untuned 10 µs" in answer.err
    lock = tmp_path / "cugen.lock"
    normal = re.sub('spec: "[0-9a-f]{16}"', 'spec: "HASH"', lock.read_text())
    assert re.sub(r"cugen: .*\n\Z", 'cugen: "VERSION"\n', normal) == BLOCK

    made = cli("generate", spec, "-o", tmp_path / "out", "--depfile", tmp_path / "out" / "d")
    assert (made.status, made.err) == (0, "")
    source = (tmp_path / "out" / "scale.cu").read_text()
    assert "// schedule  from cugen.lock: NVIDIA H200, 5 µs, 2.00 times as fast as untuned" in source
    assert "Vector<float, 2>" in source
    assert str(lock) in (tmp_path / "out" / "d").read_text()
    assert "up to date" in cli("generate", spec, "-o", tmp_path / "out").err
    assert cli("generate", spec, "-o", tmp_path / "out", "--check").status == 0
    assert "untuned; sums are taken in another order; found by cugen" in " ".join(cli("inspect", spec).out.split())
    lock.unlink()
    assert cli("generate", spec, "-o", tmp_path / "out", "--check").status == 1


@pytest.mark.slow
def test_a_spec_without_a_target_is_tuned_for_the_gpu_and_generated_for_it_only_if_asked(
    cli: Cli, spec: Path, machine: Path, tmp_path: Path
) -> None:
    spec.write_text(SCALE.replace("target: sm_90\n", ""))
    answer = tuned(cli, spec)
    assert "target: sm_90a, of this device (the spec names none)\n" in answer.err
    assert "  target: sm_90a\n" in (tmp_path / "cugen.lock").read_text()
    made = cli("generate", spec, "-o", tmp_path / "out")
    assert (made.status, "warning[CG2109]" in made.err) == (0, True)
    assert "Vector<float, 4>" in (tmp_path / "out" / "scale.cu").read_text()
    made = cli("generate", spec, "-o", tmp_path / "out", "--target", "sm_90a")
    assert (made.status, made.err) == (0, "")
    assert "Vector<float, 2>" in (tmp_path / "out" / "scale.cu").read_text()


def test_the_generators_own_choice_is_said_where_it_wins(cli: Cli, spec: Path, machine: Path) -> None:
    machine.write_text(json.dumps({"times": [["Vector<float, 4>", 10.0]]}))
    head, schedule, *_ = tuned(cli, spec).out.splitlines()
    assert head == "scale: the generator's own choice is the fastest on NVIDIA H200, 10 µs"
    assert schedule == "  y: {family: map, vectors: 1}"


def test_an_unknown_device_is_a_wrong_call_and_none_is_the_machines(
    cli: Cli, spec: Path, machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = cli("tune", spec, "--device-name", "NVIDIA B200")
    assert answer.status == 2
    assert "it has NVIDIA H200, NVIDIA T4" in answer.err

    def none() -> None:
        raise RunError("CG5011", "the CUDA driver (libcuda.so.1) is not installed", "cugen doctor says what is missing")

    monkeypatch.setattr(gpus, "gpus", none)
    answer = cli("tune", spec)
    assert answer.status == 3
    assert "cugen doctor" in answer.err


def test_a_generators_choice_that_is_wrong_ends_with_1(cli: Cli, spec: Path, machine: Path, tmp_path: Path) -> None:
    machine.write_text(json.dumps({"times": [], "wrong": ["Vector<float, 4>"]}))
    answer = tuned(cli, spec)
    assert answer.status == 1
    assert "3 of 9 elements differ" in answer.err
    assert not (tmp_path / "cugen.lock").exists()


def test_the_other_kernels_are_tuned_where_one_cannot_be(cli: Cli, spec: Path, machine: Path, tmp_path: Path) -> None:
    machine.write_text(json.dumps({"times": [["Vector<float, 2>", 5.0]], "die": [") wild("]}))
    spec.write_text(SCALE.replace("kernel: scale", "kernel: wild") + "---\n" + SCALE)
    answer = tuned(cli, spec)
    assert answer.status == 1
    assert "error: wild: the generator's own choice can't be timed: the process died" in answer.err
    assert (tmp_path / "cugen.lock").read_text().count("- kernel:") == 1


def test_a_broken_lock_is_found_before_the_search(cli: Cli, spec: Path, machine: Path, tmp_path: Path) -> None:
    (tmp_path / "cugen.lock").write_text("cugen_lock: 1\nkernels:\n<<<<<<< HEAD\n")
    for answer in (tuned(cli, spec), cli("generate", spec, "--check"), cli("inspect", spec)):
        assert answer.status == 2
        assert f"--> {tmp_path / 'cugen.lock'}:3:1" in answer.err


def test_a_schedule_that_no_longer_fits_is_a_warning_each_time_it_is_met(cli: Cli, spec: Path, tmp_path: Path) -> None:
    from cugen.schedule.lock import spec_key
    from cugen.spec.load import load

    text = BLOCK.replace("HASH", spec_key(load(spec))).replace("vector: 2", "vector: 16")
    (tmp_path / "mine.lock").write_text(text)
    answer = cli("generate", spec, "-o", tmp_path, "--lock", tmp_path / "mine.lock")
    assert answer.status == 0
    assert "warning[CG2105]: the schedule of mine.lock for `scale` on NVIDIA H200 no longer fits" in answer.err
    assert "no longer fits" in (tmp_path / "scale.cu").read_text()
    spec.write_text(SCALE.replace("4096", "8192"))
    answer = cli("generate", spec, "-o", tmp_path, "--lock", tmp_path / "mine.lock")
    assert "warning[CG2107]" in answer.err


@pytest.mark.slow
def test_a_build_that_has_nothing_to_do_stays_light_with_a_lock(cli: Cli, spec: Path, machine: Path) -> None:
    tuned(cli, spec)
    words = ["generate", str(spec), "-o", str(spec.parent)]
    assert cli(*words).status == 0
    code = (
        "import sys\nfrom cugen.cli.main import main\n"
        f"assert main({words}) == 0\nprint({{'sympy', 'numpy', 'jinja2'}} & set(sys.modules))"
    )
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert (done.stdout, done.stderr) == ("set()\n", "1 kernel up to date\n")
        for record in (Path(os.environ["CUGEN_CACHE_DIR"]) / "outlines").rglob("*.json"):
            record.unlink()  # then the spec and the lock are read again


@pytest.mark.parametrize("budget", ["0", "s", "-3", "5 minutes", "1d"])
def test_a_budget_is_a_time(cli: Cli, spec: Path, budget: str) -> None:
    answer = cli("tune", spec, f"--budget={budget}")
    assert answer.status == 2
    assert "expected a time such as 90s or 5m" in answer.err


def test_an_untried_gpu_is_predicted_from_what_others_took(cli: Cli, spec: Path, machine: Path) -> None:
    assert tuned(cli, spec).status == 0
    answer = cli("tune", spec, "--predict", "H100")
    assert answer.status == 0, answer.err
    assert re.fullmatch(
        r"scale: about \S+ µs on H100, as the nearest that was timed: NVIDIA H200\n"
        r"  y: {family: map, vector: 2, vectors: 1}\n"
        r"  regret: unknown: it is measured where a kernel was timed on two GPUs\n",
        answer.out,
    )


def test_a_prediction_needs_a_known_gpu_of_the_target(cli: Cli, spec: Path) -> None:
    assert "unknown device 'H9'" in cli("tune", spec, "--predict", "H9").err
    answer = cli("tune", spec, "--predict", "A100")
    assert answer.status == 2
    assert "`--predict A100`: A100 is sm_80, scale is for sm_90" in answer.err


@pytest.mark.slow
def test_the_measured_regrets_of_several_kernels_are_summed_up(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path))
    shutil.copytree(Path(__file__).parents[2] / "data" / "journals", tmp_path / "tune")
    specs = []
    for sizes in ((2048, 32, 2048), (4, 50257, 768)):
        specs.append(tmp_path / f"{sizes[0]}.yaml")
        specs[-1].write_text(PRODUCT.format(*sizes))
    answer = cli("tune", *specs, "--predict", "H100", "--target", "sm_90")
    assert answer.out.count("regret: 1.0") == 4
    assert re.search(
        r"^4 predictions were measured: regret 1\.0\d\d in geometric mean, 1\.0\d\d at most$", answer.out, re.M
    )
