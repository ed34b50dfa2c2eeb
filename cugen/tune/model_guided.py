"""A search that learns which choices pay: optuna's tree-structured Parzen estimator, over the given candidates.

The estimator proposes a point; the candidate that has most of it in common is tried, and that is what it learns from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cugen.toolchain.errors import ToolMissing
from cugen.tune.space import Candidate

_FIRST = 16  # the best guesses, before the model has its say
_LEFT = "left to the family"
Choice = int | str | bool


class ModelGuided:
    """See `Strategy`. ToolMissing where optuna isn't installed."""

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
        candidate = next(iter(self._waiting)) if self._proposed_count < _FIRST else self._proposed()
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
        """The nearest to what the model would try; of equally near ones the first."""
        trial = self._study.ask(self._distributions)
        self._study.tell(trial, state=self._optuna.trial.TrialState.FAIL)
        wanted = {name: self._values[name][trial.params[name]] for name in self._values}

        def common_features(features: dict[str, Choice]) -> int:
            return sum(features.get(name, _LEFT) == value for name, value in wanted.items())

        return max(self._waiting, key=lambda candidate: common_features(self._waiting[candidate]))

    def _distribution(self, values: Sequence[Choice]) -> Any:
        """Places in a list of values: near ones are alike where these are numbers, else they are just names."""
        positions = range(len(values))
        if all(isinstance(value, int) or value == _LEFT for value in values):
            return self._optuna.distributions.IntDistribution(0, len(values) - 1)
        return self._optuna.distributions.CategoricalDistribution(list(positions))

    def _coded(self, name: str, value: Choice) -> int:
        return self._values[name].index(value)


def _values(candidates: Sequence[Candidate]) -> dict[str, list[Choice]]:
    """Of each choice what occurs, numbers in their order; first, where some candidate has none, that it is left out."""
    names = dict.fromkeys(name for candidate in candidates for name, _ in candidate.features)
    values: dict[str, list[Choice]] = {}
    for name in names:
        given = [dict(candidate.features).get(name, _LEFT) for candidate in candidates]
        kinds = dict.fromkeys(given)
        numbers = sorted(value for value in kinds if isinstance(value, int))
        words = sorted(value for value in kinds if isinstance(value, str) and value != _LEFT)
        values[name] = [*([_LEFT] if _LEFT in kinds else []), *numbers, *words]
    return values
