"""What a notebook shows of a kernel, of its report and of its outputs: parts of the page, without scripts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from cugen.analysis.launches.facts import Facts
from cugen.analysis.launches.sentences import Sentence
from cugen.analysis.verdicts.report import AccessReport
from cugen.html.environment import VERDICTS, environment, worst
from cugen.html.highlight import highlighted
from cugen.plan.kernel import Kernel
from cugen.spec.model import Spec

_SHOWN_ELEMENTS = 6


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the source; `verdict` and `reasons` of its accesses, empty without any."""

    number: int
    text: Markup
    verdict: str
    reasons: str


@dataclass(frozen=True, slots=True)
class _Output:
    """An output with the range of its values as text, empty without a finite one. `first`: the first elements."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: str
    high: str
    not_finite: int
    first: str


def kernel_html(
    spec: Spec, kernels: Sequence[Kernel], source: str, accesses: Mapping[int, Sequence[AccessReport]]
) -> str:
    """A kernel with its launches and its source in colours. `accesses`: the analysed ones by line of the source."""
    lines = [
        _Line(
            number,
            text,
            worst([report.verdict for report in accesses[number]]) if number in accesses else "",
            "; ".join(f"{report.text}: {report.verdict}, {report.reason}" for report in accesses.get(number, ())),
        )
        for number, text in enumerate(highlighted(source), 1)
    ]
    verdicts = _verdicts([report for reports in accesses.values() for report in reports])
    return _rendered("kernel.html", spec=spec, kernels=kernels, lines=lines, verdicts=verdicts)


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a report."""

    kernel: str
    accesses: Sequence[AccessReport]
    facts: Facts
    sentences: Sequence[Sentence]

    @property
    def verdicts(self) -> tuple[tuple[str, int], ...]:
        return _verdicts(self.accesses)


def report_html(launches: Sequence[Launch]) -> str:
    """The accesses of each launch with their costs, and its occupancy, traffic and roofline."""
    return _rendered("report.html", launches=launches)


def result_html(arrays: Mapping[str, NDArray[Any]]) -> str:
    """The outputs of a run: shapes, ranges, and first elements."""
    return _rendered("result.html", outputs=[_output(name, array) for name, array in arrays.items()])


def _verdicts(accesses: Sequence[AccessReport]) -> tuple[tuple[str, int], ...]:
    counts = Counter(report.verdict for report in accesses)
    return tuple((verdict, counts[verdict]) for verdict in VERDICTS if counts[verdict])


def _output(name: str, array: NDArray[Any]) -> _Output:
    is_exact = array.dtype.kind in "biu"
    values = array if is_exact else array.astype(np.float64)  # of ml_dtypes too

    def text(value: Any) -> str:
        return str(int(value)) if is_exact else f"{value:.6g}"

    finite = values[np.isfinite(values)]
    low, high = (text(finite.min()), text(finite.max())) if finite.size else ("", "")
    first = ", ".join(map(text, values.ravel()[:_SHOWN_ELEMENTS]))
    more = ", …" if values.size > _SHOWN_ELEMENTS else ""
    return _Output(name, array.shape, array.dtype.name, low, high, values.size - finite.size, first + more)


def _rendered(template: str, **content: Any) -> str:
    return environment().get_template(f"notebook/{template}").render(**content)
