"""The refit of the GEMM cost model: journals give the times, and a share that is held back says how good it is."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cugen.families.gemm.config import Cores
from cugen.families.gemm.selection.cost_model import H200
from cugen.machine import device, target
from cugen.spec.load import load_text
from tests.benchmarks import benchmark

from .test_cost_model import drawn, fastest

refit = benchmark("machine.refit")
JOURNALS = Path(__file__).parents[2] / "data" / "journals"
FORGOTTEN = replace(H200, launch_seconds=2 * H200.launch_seconds, copy_instructions=H200.copy_instructions / 2)
SPEC = """\
cugen: 1
kernel: product_640_640_640
params: {M: 640, N: 640, K: 640}
arrays:
  A: {shape: [M, K], dtype: float32}
  B: {shape: [K, N], dtype: float32}
  C: {shape: [M, N], dtype: float32}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


@pytest.fixture
def journals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path))
    return Path(shutil.copytree(JOURNALS, tmp_path / "tune"))


def gemms(every: int) -> list[Any]:
    """Every so many of the shapes that were drawn for an H100, with the configs that a fit counts."""
    made = []
    for problem, configs in list(drawn("gemm_drawn_h100.csv", 11).items())[::every]:
        kept = tuple((config, seconds) for seconds, config in configs if seconds < 1.5 * fastest(configs))
        made.append(refit.Gemm(problem, device("H100"), target("sm_90"), kept))
    return made


def as_modelled(gemm: Any) -> Any:
    """The GEMM with times that are those of the model."""
    predicted = gemm.predicted(H200)
    return replace(gemm, configs=tuple((config, s) for (config, _), s in zip(gemm.configs, predicted, strict=True)))


def shares(made: list[Any]) -> tuple[list[Any], list[Any]]:
    seen, unseen = ([gemm for gemm in made if gemm.is_held_back == is_held_back] for is_held_back in (False, True))
    assert seen
    assert unseen
    return seen, unseen


def test_a_fit_mends_forgotten_constants_also_for_what_it_has_not_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit, "_ROUNDS", 8)
    seen, unseen = shares([as_modelled(gemm) for gemm in gemms(3)])
    fitted = refit.fit(seen, FORGOTTEN)
    for share in (seen, unseen):
        assert refit.error(share, fitted) < 0.5 * refit.error(share, FORGOTTEN)


@pytest.mark.slow
def test_a_fit_to_measured_times_is_as_good_as_the_constants_that_were_fitted_to_them() -> None:
    seen, unseen = shares(gemms(1))
    fitted = refit.fit(seen, FORGOTTEN)
    assert refit.error(seen, fitted) < refit.error(seen, H200)
    assert refit.error(unseen, fitted) < 0.1
    assert refit.regret(unseen, fitted) < 1.05


def test_a_constant_that_no_time_depends_on_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit, "_ROUNDS", 2)
    fitted = refit.fit(gemms(18), FORGOTTEN)
    assert "window_index_instructions" not in refit.changed(FORGOTTEN, fitted)
    assert "launch_seconds" in refit.changed(FORGOTTEN, fitted)


@pytest.mark.usefixtures("journals")
def test_journals_give_the_configs_of_both_gpus_with_their_times() -> None:
    (spec,) = load_text(SPEC)
    first, second = refit.recorded(spec, Cores.CUDA)
    assert (first.device, second.device) == (device("H100"), device("H200"))
    timed = next(
        configs for problem, configs in drawn("gemm_drawn_h100.csv", 11).items() if problem.m == first.problem.m
    )
    in_journal, in_table = ({config for config, _ in first.configs}, {config for _, config in timed})
    assert len(in_journal & in_table) > 6
    assert refit.recorded(spec, Cores.TENSOR) == []


@pytest.mark.usefixtures("journals")
def test_the_command_says_what_is_held_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "spec.yaml").write_text(SPEC)
    monkeypatch.setattr("sys.argv", ["refit.py", str(tmp_path / "spec.yaml")])
    assert refit.main() == 1
    assert "2 GEMMs on cuda cores have journals, all held back" in capsys.readouterr().err
    monkeypatch.setattr(refit, "_HELD_BACK", 2**130)
    monkeypatch.setattr(refit, "_ROUNDS", 2)
    assert refit.main() == 0
    printed = capsys.readouterr().out
    assert printed.startswith("fitted to: 2 GEMMs, 18 configs; error ")
    assert "held back: none, so how good the fit is is unknown" in printed
