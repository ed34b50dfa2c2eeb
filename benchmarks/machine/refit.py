"""Fits the constants of the GEMM cost model to journals of `cugen tune`, and prints those that it would change.

    cugen tune gemms.yaml --budget 5m            # on one GPU or on several; the journals are in CUGEN_CACHE_DIR
    python -m benchmarks.machine.refit gemms.yaml [--cores tensor]

A third of the GEMMs is held back, by a hash of their sizes: only if their error falls is the fit worth keeping. Errors
are those of logarithms (root mean square) over configs that take less than 1.5 times as long as the fastest; the regret
is the time of the config that the model would take over that of the fastest, in geometric mean. Constants that the
journals don't determine stay. Kept ones go to `cugen/families/gemm/selection/cost_model.py`, with their tests: no
journal changes what cugen generates by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.families.contraction.contraction import Contraction
from cugen.families.contraction.recognition import recognise
from cugen.families.gemm.config import Cores, TileConfig
from cugen.families.gemm.problem import Problem, problem_of
from cugen.families.gemm.selection.cost_model import H200, H200_TENSOR, Calibration, predict
from cugen.families.gemm.selection.heuristic import choose_config
from cugen.machine import Device, Target, target
from cugen.plan.context import make_context
from cugen.schedule.lock import Schedules
from cugen.schedule.planner import requests
from cugen.schedule.runs import group
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_all
from cugen.spec.model import Spec
from cugen.tune.prediction import mean, timed_on
from cugen.tune.timing.prepare import with_schedules
from cugen.tune.transfer import known_device

Array = NDArray[np.float64]
CALIBRATIONS = {Cores.CUDA: H200, Cores.TENSOR: H200_TENSOR}  # of 16 and 8 bits; not float64
_SLOW = 1.5  # times of the fastest, from which configs don't count: no search takes them
_HELD_BACK = 3  # one GEMM of so many
_STAYING = 1e-4  # of the squared logarithm by which a constant changes, beside the squared error of the predictions
_ROUNDS, _FIRST_DAMPING = 40, 0.01
_LEAST_GAIN = 1e-3  # of the squared error in a round, below which the fit ends
_PROBE = 1e-3  # logarithm by which a constant is changed to find what depends on it


@dataclass(frozen=True)
class Gemm:
    """A GEMM that was timed on a device: its configs with their seconds, but for those that no search takes."""

    problem: Problem
    device: Device
    target: Target
    configs: tuple[tuple[TileConfig, float], ...]

    @property
    def is_held_back(self) -> bool:
        sizes = str((self.problem.m, self.problem.n, self.problem.k))
        return int(hashlib.md5(sizes.encode()).hexdigest(), 16) % _HELD_BACK == 0

    def predicted(self, fitted: Calibration) -> list[float]:
        """The predicted seconds of the configs; infinite where none fits."""
        predictions = (predict(self.problem, config, self.target, fitted, self.device) for config, _ in self.configs)
        return [math.inf if prediction is None else prediction.seconds for prediction in predictions]

    def regret(self, fitted: Calibration) -> float:
        predicted, times = self.predicted(fitted), [seconds for _, seconds in self.configs]
        return times[predicted.index(min(predicted))] / min(times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("specs", nargs="+", type=Path, help="specs of the GEMMs that were tuned, of static sizes")
    parser.add_argument("--cores", type=Cores, choices=tuple(CALIBRATIONS), default=Cores.CUDA, help="default: cuda")
    options = parser.parse_args()
    gemms = [gemm for file in options.specs for spec in load_all(file) for gemm in recorded(spec, options.cores)]
    fitted_to, held_back = (
        [gemm for gemm in gemms if gemm.is_held_back == is_held_back] for is_held_back in (False, True)
    )
    if not fitted_to:
        print(f"{len(held_back)} GEMMs on {options.cores.value} cores have journals, all held back", file=sys.stderr)
        return 1
    before = CALIBRATIONS[options.cores]
    after = fit(fitted_to, before)
    for name, share in (("fitted to", fitted_to), ("held back", held_back)):
        print(f"{name}: {summary(share, before, after)}")
    for name, value in changed(before, after).items():
        print(f"    {name}={value:.4g},  # {getattr(before, name):.4g} before")
    return 0


def recorded(spec: Spec, cores: Cores) -> list[Gemm]:
    """The journals of a spec, one GEMM for each device whose figures are known."""
    gemms = []
    for timed in timed_on(spec, {}):
        device, of_target = known_device(timed.device), replace(spec, target=timed.target)
        limit = _SLOW * min(timed.times.values())
        timed_configs = [
            (made, seconds) for chosen, seconds in timed.times.items() if (made := config_of(of_target, chosen))
        ]
        kept = [(made, microseconds * 1e-6) for made, microseconds in timed_configs if microseconds < limit]
        problems = {problem for (problem, config), _ in kept if config.cores == cores}
        for problem in problems if device is not None else ():
            assert device is not None
            configs = tuple((c, seconds) for (p, c), seconds in kept if p == problem and c.cores == cores)
            gemms.append(Gemm(problem, device, target(timed.target), configs))
    return gemms


def config_of(spec: Spec, schedules: Schedules) -> tuple[Problem, TileConfig] | None:
    """The problem and the config of a kernel that is one launch of the family `gemm`; None for others."""
    try:
        context = make_context(with_schedules(spec, schedules))
        launches = tuple(requests(context, group(context)))
        contraction = recognise(launches[0]) if len(launches) == 1 else None
        if not isinstance(contraction, Contraction) or contraction.request.schedule.family != "gemm":
            return None
        config = choose_config(contraction)
    except SpecError:
        return None
    return (problem_of(contraction), config) if isinstance(config, TileConfig) else None


def fit(gemms: Sequence[Gemm], before: Calibration) -> Calibration:
    """The constants that predict the GEMMs best, near those before: least squares of logarithms, by the method of
    Levenberg and Marquardt."""
    names = [field.name for field in fields(before) if isinstance(getattr(before, field.name), float)]
    names = [name for name in names if getattr(before, name) > 0]

    def changed_by(moved: Array) -> Calibration:
        values: dict[str, Any] = {
            name: float(getattr(before, name) * factor) for name, factor in zip(names, np.exp(moved), strict=True)
        }
        return replace(before, **values)

    def residuals(moved: Array) -> Array:
        errors = np.array(logarithms(gemms, changed_by(moved)))
        return np.concatenate([errors / math.sqrt(len(errors)), math.sqrt(_STAYING) * moved])

    moved, damping = np.zeros(len(names)), _FIRST_DAMPING
    now = residuals(moved)
    for _ in range(_ROUNDS):
        slopes = np.stack([(residuals(moved + row) - now) / _PROBE for row in _PROBE * np.eye(len(names))], axis=1)
        squares = slopes.T @ slopes
        step = np.linalg.solve(squares + damping * np.diag(np.diag(squares)), -slopes.T @ now)
        tried = residuals(moved + step)
        gain = 1 - tried @ tried / (now @ now)
        if gain > 0:
            moved, now, damping = moved + step, tried, damping / 4
        else:
            damping *= 4
        if 0 < gain < _LEAST_GAIN:
            break
    return changed_by(moved)


def logarithms(gemms: Sequence[Gemm], fitted: Calibration) -> list[float]:
    """The logarithms of predicted over measured times."""
    return [
        math.log(predicted / seconds)
        for gemm in gemms
        for predicted, (_, seconds) in zip(gemm.predicted(fitted), gemm.configs, strict=True)
        if predicted < math.inf
    ]


def error(gemms: Sequence[Gemm], fitted: Calibration) -> float:
    """The root mean square of the logarithms; 0 without any."""
    values = logarithms(gemms, fitted)
    return math.sqrt(sum(value**2 for value in values) / len(values)) if values else 0.0


def regret(gemms: Sequence[Gemm], fitted: Calibration) -> float:
    """The geometric mean of the GEMMs' regrets; 1 without any."""
    return mean([gemm.regret(fitted) for gemm in gemms]) or 1.0


def summary(gemms: Sequence[Gemm], before: Calibration, after: Calibration) -> str:
    if not gemms:
        return "none, so how good the fit is is unknown"
    configs = sum(len(gemm.configs) for gemm in gemms)
    return (
        f"{len(gemms)} GEMMs, {configs} configs; error {error(gemms, before):.4f} before, {error(gemms, after):.4f} "
        f"after; regret {regret(gemms, before):.4f} before, {regret(gemms, after):.4f} after"
    )


def changed(before: Calibration, after: Calibration) -> dict[str, float]:
    """The constants that are others, by name."""
    pairs = {field.name: (getattr(before, field.name), getattr(after, field.name)) for field in fields(before)}
    return {name: new for name, (old, new) in pairs.items() if new != old}


if __name__ == "__main__":
    sys.exit(main())
