"""What a GPU that nobody has timed would take, and how good that is by what was timed elsewhere."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cugen.machine import device
from cugen.schedule.lock import Entry, Lock, Schedules, Time, schedules_of_text, spec_key
from cugen.spec.load import load_text
from cugen.spec.model import Schedule, Spec
from cugen.tune.journal import Journal, Record, conditions
from cugen.tune.lockfile import schedules_text
from cugen.tune.prediction import mean, predict, timed_on
from cugen.tune.timing.gpus import Gpu

RECORDED = Path(__file__).parents[1] / "data" / "journals"
H100, H200, T4 = Gpu("NVIDIA H100 80GB HBM3", "sm_90"), Gpu("NVIDIA H200", "sm_90"), Gpu("NVIDIA T4", "sm_75")
SHAPES = ((640, 640, 640), (2048, 32, 2048), (1, 4097, 4097), (4, 50257, 768))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def recorded(cache: Path) -> Path:
    shutil.copytree(RECORDED, cache / "tune")
    return cache / "tune"


def product(m: int, n: int, k: int, target: str = "sm_90") -> Spec:
    (spec,) = load_text(f"""\
cugen: 1
kernel: product_{m}_{n}_{k}
target: {target}
params: {{M: {m}, N: {n}, K: {k}}}
arrays:
  A: {{shape: [M, K], dtype: float32}}
  B: {{shape: [K, N], dtype: float32}}
  C: {{shape: [M, N], dtype: float32}}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
""")
    return spec


def vector(size: int) -> Schedules:
    return (("y", Schedule("map", tunables=(("vector", size), ("vectors", 1)))),)


def took(spec: Spec, gpu: Gpu, **times: float) -> None:
    """Writes a journal: times of the vectors of the search, such as `v2`."""
    of = conditions(spec, gpu, {})
    journal = Journal(of.path, conditions=of)
    for name, time in times.items():
        journal.add(Record(f"{gpu.name} {name}", time, schedule=schedules_text(vector(int(name[1:])))))


@pytest.mark.slow
@pytest.mark.sampled(4)
@pytest.mark.usefixtures("recorded")
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_of_two_gpus_each_predicts_the_other_with_a_measured_regret(sizes: tuple[int, int, int]) -> None:
    prediction = predict(product(*sizes), device("H200"), {})
    assert [(v.device, v.source) for v in prediction.held_back] == [
        (H100.name, H200.name),
        (H200.name, H100.name),
    ]
    assert len(prediction.regrets) == 2
    assert all(1 <= regret < 1.03 for regret in prediction.regrets)


def test_the_regret_is_that_of_the_schedule_that_is_fastest_on_the_other_gpu(scale: Spec) -> None:
    took(scale, H100, v4=10.0, v2=6.0, v1=12.0)
    took(scale, H200, v4=5.0, v2=7.0, v1=9.0)
    validations = {v.device: v for v in predict(scale, device("H200"), {}).held_back}
    assert validations[H200.name].regret == pytest.approx(7 / 5)
    assert validations[H100.name].regret == pytest.approx(10 / 6)
    assert validations[H100.name].timed == 3


def test_the_predicted_time_is_that_of_the_source_by_the_ratio_of_the_models(scale: Spec) -> None:
    took(scale, H100, v4=10.0, v2=6.0)
    prediction = predict(scale, device("H200"), {})
    assert (prediction.schedules, prediction.source) == (vector(2), H100.name)
    assert prediction.microseconds is not None
    assert 6.0 * 3350 / 4800 <= prediction.microseconds <= 6.0


def test_the_nearest_gpu_is_the_source(scale: Spec) -> None:
    took(scale, T4, v4=1.0)
    took(scale, H100, v2=6.0)
    assert predict(scale, device("H200"), {}).source == H100.name


def test_a_gpu_that_was_timed_is_predicted_from_the_others(scale: Spec) -> None:
    took(scale, H100, v2=6.0)
    took(scale, H200, v4=5.0)
    assert predict(scale, device("H200"), {}).schedules == vector(2)


def test_a_regret_that_was_not_measured_is_unknown(scale: Spec) -> None:
    took(scale, H100, v2=6.0)
    assert predict(scale, device("H200"), {}).held_back == ()
    took(scale, H200, v4=5.0)
    assert predict(scale, device("H200"), {}).regrets == ()
    assert mean(()) is None
    assert mean((1.0, 4.0)) == 2.0


def test_where_no_gpu_was_timed_the_generator_chooses(scale: Spec) -> None:
    prediction = predict(scale, device("H200"), {})
    assert (prediction.schedules, prediction.source, prediction.microseconds) == ((), "", None)


@pytest.mark.slow
@pytest.mark.usefixtures("recorded")
def test_a_schedule_that_the_gpu_cannot_run_is_passed_over() -> None:
    text = "C: {family: gemm, block: {m: 80, n: 80}, thread: {m: 10, n: 10}, step: {k: 32}, stages: 3, split_k: 2, "
    cluster = schedules_of_text(text + "reduction: cluster}")
    spec = product(640, 640, 640)
    of = conditions(spec, H100, {})
    Journal(of.path, conditions=of).add(Record("fastest", 1.0, schedule=schedules_text(cluster)))
    assert predict(spec, device("H200"), {}).schedules == cluster
    assert "cluster" not in schedules_text(predict(product(640, 640, 640, "sm_80"), device("A100"), {}).schedules)


def test_what_failed_or_has_no_schedule_or_is_of_other_conditions_does_not_count(scale: Spec) -> None:
    of = conditions(scale, H100, {})
    journal = Journal(of.path, conditions=of)
    journal.add(Record("a", failed="it hangs", schedule=schedules_text(vector(1))))
    journal.add(Record("b", 1.0))
    journal.add(Record("c", 1.0, schedule="y: {family: of another version, sizes: [}"))
    took(replace(scale, schedules=()), H100, v2=1.0)  # another spec of this name
    earlier = of.path.with_name(f"{scale.kernel}-earlier.jsonl")
    earlier.write_text(json.dumps({"code": "d", "cold": 1.0, "schedule": schedules_text(vector(2))}) + "\n")
    assert timed_on(scale, {}) == ()


def test_a_lock_file_speaks_for_gpus_without_a_journal(scale: Spec) -> None:
    entry = Entry(scale.kernel, spec_key(scale), "sm_90", H100.name, vector(1), Time(3, 1), Time(6, 1), "0.1.0")
    lock = Lock("", (replace(entry, runner_up=(vector(2), Time(4, 1))), replace(entry, device=H200.name)))
    took(scale, H200, v2=6.0)
    assert [(timed.device, dict(timed.times)) for timed in timed_on(scale, {}, lock)] == [
        (H100.name, {vector(1): 3, vector(2): 4}),
        (H200.name, {vector(2): 6.0}),
    ]
