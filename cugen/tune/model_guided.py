"""Model-guided search: optuna's tree-structured Parzen estimator (TPE) over the given candidates.

The estimator proposes a point; the candidate that shares the most features with it is timed, and its time is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cugen.toolchain.errors import ToolMissing
from cugen.tune.space import Candidate

_STARTUP_CANDIDATES = 16  # timed in order before the first proposal of the model (heuristic)
_LEFT = "left to the family"
Choice = int | str | bool


class ModelGuided:
    """`Strategy` that follows a TPE model. Raises ToolMissing if optuna isn't installed."""

    is_adaptive = True

    def __init__(self, candidates: Sequence[Candidate], seed: int) -> None:
        try:
            import optuna
        except ImportError as error:
            raise ToolMissing("optuna, for `--strategy model`", "pip install 'cugen[tune]'") from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        self._optuna = optuna
        self._waiting = {candidate: dict(candidate.features) for candidate in candidates}
        self._values = _values(candidates)
        self._distributions = {name: self._distribution(values) for name, values in self._values.items()}
        sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0, multivariate=True)
        self._study = optuna.create_study(sampler=sampler)
        self._features = {candidate: dict(candidate.features) for candidate in candidates}
        self._proposed_count = 0

    def ask(self) -> Candidate | None:
        if not self._waiting:
            return None
        candidate = next(iter(self._waiting)) if self._proposed_count < _STARTUP_CANDIDATES else self._proposed()
        self._proposed_count += 1
        del self._waiting[candidate]
        return candidate

    def tell(self, candidate: Candidate, time: float | None) -> None:
        if time is None or candidate not in self._features:
            return
        point = {name: self._coded(name, self._features[candidate].get(name, _LEFT)) for name in self._values}
        self._study.add_trial(
            self._optuna.trial.create_trial(params=point, distributions=self._distributions, value=time)
        )

    def _proposed(self) -> Candidate:
        """The candidate with the most features of the model's proposal; the first of equal ones."""
        trial = self._study.ask(self._distributions)
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        wanted = {name: self._values[name][trial.params[name]] for name in self._values}

        def common_features(features: dict[str, Choice]) -> int:
            return sum(features.get(name, _LEFT) == value for name, value in wanted.items())

        return max(self._waiting, key=lambda candidate: common_features(self._waiting[candidate]))

    def _distribution(self, values: Sequence[Choice]) -> Any:
        """Distribution over the indices of a list of values: ordinal for numbers, else categorical."""
        positions = range(len(values))
        if all(isinstance(value, int) or value == _LEFT for value in values):
            return self._optuna.distributions.IntDistribution(0, len(values) - 1)
        return self._optuna.distributions.CategoricalDistribution(list(positions))

    def _coded(self, name: str, value: Choice) -> int:
        return self._values[name].index(value)


def _values(candidates: Sequence[Candidate]) -> dict[str, list[Choice]]:
    """Values of each feature over all candidates: `_LEFT` first if some candidate lacks it, then sorted numbers, then
    words."""
    names = dict.fromkeys(name for candidate in candidates for name, _ in candidate.features)
    values: dict[str, list[Choice]] = {}
    for name in names:
        given = [dict(candidate.features).get(name, _LEFT) for candidate in candidates]
        kinds = dict.fromkeys(given)
        numbers = sorted(value for value in kinds if isinstance(value, int))
        words = sorted(value for value in kinds if isinstance(value, str) and value != _LEFT)
        values[name] = [*([_LEFT] if _LEFT in kinds else []), *numbers, *words]
    return values
