"""Pages of small specs and of the gallery."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sympy
from numpy.typing import NDArray

from cugen.analysis.totals.affine import evaluator
from cugen.analysis.totals.sites import THREAD, Site, sites
from cugen.kernel import generate
from cugen.kernel_report import analyze
from cugen.report.page import Launch, Page, page
from cugen.spec.load import load_all, load_text

ROOT = Path(__file__).parents[2]


PageOf = Callable[..., Page]
PagesOf = Callable[[str], tuple[Page, ...]]


@pytest.fixture(scope="session")
def page_of() -> PageOf:
    """The page of the only kernel of a spec's text."""

    def made(text: str, **params: int) -> Page:
        (spec,) = load_text(text)
        kernel = generate(spec)
        return page(kernel, analyze(kernel, params=params), params)

    return made


@cache
def _gallery(file: str) -> tuple[Page, ...]:
    kernels = (generate(spec) for spec in load_all(ROOT / "specs" / file))
    return tuple(page(kernel, analyze(kernel)) for kernel in kernels)


@pytest.fixture(scope="session")
def gallery_pages() -> PagesOf:
    """The pages of a file of the gallery."""
    return _gallery


@pytest.fixture(scope="session")
def in_node() -> Callable[[str, str, list[Any]], list[Any]]:
    """The answers of a program to cases, in the Node.js of Playwright's package. It requires a script of the page's
    folder as `process.argv[1]`, and maps `cases`."""
    from playwright._impl._driver import compute_driver_executable

    node, _ = compute_driver_executable()

    def answers(script: str, expression: str, cases: list[Any]) -> list[Any]:
        program = (
            "const script = require(process.argv[1]);"
            'const cases = JSON.parse(require("fs").readFileSync(0, "utf8"));'
            f"process.stdout.write(JSON.stringify(cases.map({expression})));"
        )
        done = subprocess.run(
            [node, "-e", program, str(ROOT / "templates" / "report" / "scripts" / script)],
            input=json.dumps(cases),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        answered: list[Any] = json.loads(done.stdout)
        assert len(answered) == len(cases)
        return answered

    return answers


@pytest.fixture(scope="session")
def sites_of() -> Callable[[Page, Launch], tuple[Site, ...]]:
    """The accesses of a launch whose params have values."""

    def sites_in(page: Page, launch: Launch) -> tuple[Site, ...]:
        known = {s.name: int(page.kernel.spec.param(name).value) for name, s in page.kernel.context.symbols.items()}
        return sites(launch.planned, known)

    return sites_in


@pytest.fixture(scope="session")
def accessed() -> Callable[..., tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The elements that the threads of a block access, as subscripts, and the thread of each; a walk over all threads
    and iterations but those of the counters that `fixed` has."""

    def walk(
        site: Site, block: tuple[int, int, int], fixed: Mapping[sympy.Symbol, int]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        loops = [counter for counter in site.counters if counter.symbol not in fixed]
        axes = np.indices([*block[::-1], *(counter.count for counter in loops)]).reshape(3 + len(loops), -1)
        values: dict[sympy.Symbol, Any] = dict(fixed)
        values |= dict(zip((*reversed(THREAD), *(counter.symbol for counter in loops)), axes, strict=True))
        ranges = {name: (0, int(np.max(value))) for name, value in values.items()}
        x, y, z = (values[axis] for axis in THREAD)

        def value(expr: Any) -> NDArray[np.int64]:
            return np.broadcast_to(evaluator(expr, ranges)(values), x.shape)

        compared = {"<": np.less, "==": np.equal, "!=": np.not_equal}
        active = np.ones(x.shape, bool)
        for predicate in site.predicates:
            holds = np.all([compared[operator](value(d), 0) for d, operator in predicate.terms], axis=0)
            active &= holds != predicate.negated
        first = np.stack([value(s.xreplace(site.definitions))[active] for s in site.access.subscripts], axis=1)
        consecutive = np.array([stride == 1 for stride in site.access.array.strides], int)
        steps = range(site.access.width)
        threads = (x + block[0] * (y + block[1] * z))[active]
        return np.concatenate([first + step * consecutive for step in steps]), np.concatenate([threads for _ in steps])

    return walk


class Tab:
    """A tab that collects errors."""

    def __init__(self, browser: Any, folder: Path) -> None:
        self.page = browser.new_page(viewport={"width": 1280, "height": 900})
        self.folder = folder
        self.server = "file:"
        self.errors: list[str] = []
        self.page.on("console", lambda message: self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", self._requested)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith(("file:", self.server)):
            self.errors.append(f"connects to {request.url}")

    def open(self, text: str) -> Any:
        path = self.folder / "page.html"
        path.write_text(text)
        self.page.goto(path.as_uri())
        return self.page


@pytest.fixture
def tab(browser: Any, tmp_path: Path) -> Iterator[Tab]:
    opened = Tab(browser, tmp_path)
    yield opened
    opened.page.close()
    assert opened.errors == []
