"""What every test folder may use."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, settings

from cugen.runtime.cpu import build
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.spec.types import DTYPES
from cugen.toolchain.errors import ToolMissing
from tests import ci_cases

# A slow machine is no failure, and what fails here must fail again elsewhere. `.ci/run` draws more examples with
# `--hypothesis-profile=full`; `--hypothesis-profile=search` looks for what nobody has seen yet.
settings.register_profile("full", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("project", settings.get_profile("full"), max_examples=25)
settings.register_profile("search", deadline=None, max_examples=3000)
settings.load_profile("project")

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
MAX_ID = 48  # characters of a parametrised text in a test's id
MAX_TEXT = 100  # characters of a text that is shown in an id

GC_THRESHOLD = 50_000  # objects that are made until the garbage collector looks at them; 700 by default

COLLECTED = pytest.StashKey[tuple[str, ...]]()

Golden = Callable[[Path, str], None]
Part = Callable[[Path, str, str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the files that tests compare with, such as generated/, in place of comparing",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Where Python is told to write no bytecode, it goes to pytest's cache: each worker would rewrite all tests, and
    each of the hundreds of interpreters that tests start would compile cugen, again."""
    if sys.dont_write_bytecode and hasattr(config, "cache"):
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(config.cache.mkdir("bytecode"))
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # The default lane's runs on the CPU device are short: optimising takes longer than it saves. Commands that tests
    # start, and all tests in CI, whose profile is `full`, build kernels as users do.
    if config.getoption("markexpr") == "not slow" and not config.getoption("--hypothesis-profile"):
        for kind in (build.Kind.FAST, build.Kind.SANITIZED):
            build._FLAGS[kind] = ("-Og", *build._FLAGS[kind][1:])


@pytest.fixture
def golden(pytestconfig: pytest.Config) -> Golden:
    """Compares a text with a file; with `--update-golden` it writes the file instead."""

    def compare(path: Path, text: str) -> None:
        if pytestconfig.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            pytest.fail(f"{path.name} is stale; if the change is meant, run pytest --update-golden")

    return compare


@pytest.fixture
def golden_part(golden: Golden) -> Part:
    """Compares a text with what stands in a Markdown file between `<!-- name -->` and `<!-- end -->`."""

    def compare(path: Path, name: str, text: str) -> None:
        before, mark, after_mark = path.read_text().partition(f"<!-- {name} -->\n")
        assert mark, f"{path.name} has no part {name}"
        _, end, after = after_mark.partition("<!-- end -->")
        assert end, f"the part {name} of {path.name} has no end"
        golden(path, f"{before}{mark}{text}{end}{after}")

    return compare


# Sizes (M, N): one element, primes, one less and one more than the tiles, all divisible, known at launch alone.
_SHAPES: Mapping[str, tuple[tuple[int, int], ...]] = {
    "one": ((1, 1),),
    "prime": ((37, 131),),
    "below": ((31, 255),),
    "above": ((33, 257),),
    "even": ((64, 256),),
    "bounded": ((8, 8), (40, 264)),
    "dynamic": ((0, 0), (1, 1), (3, 0), (37, 131), (64, 256)),
}
_PARAMS = {"bounded": "{range: [8, 300], multiple_of: 8}", "dynamic": "dynamic"}
_BOUNDARIES = ("zero", "clamp", "wrap", "reflect", "symmetric", "{value: 1}")


@dataclass(frozen=True)
class OperatorCase:
    """One operator of `data/operators.yaml` for an element type and a class of shapes."""

    operator: Mapping[str, Any]
    dtype: str
    shape: str
    boundary: str

    def __str__(self) -> str:
        return f"{self.operator['name']}-{self.dtype}-{self.shape}"

    def spec(self) -> Spec:
        (m, n), *_ = _SHAPES[self.shape]
        declaration = _PARAMS.get(self.shape)
        if declaration == "dynamic" and self.operator.get("nonempty"):
            declaration = "{range: [1, 1000000]}"
        params = {"M": declaration or m, "N": declaration or n}
        result = "int32" if self.dtype == "bool" else self.dtype
        lines = ["cugen: 1", f"kernel: {self.operator['name']}", "params:"]
        lines += [f"  {name}: {value}" for name, value in params.items()]
        lines.append("arrays:")
        for name, text in self.operator["arrays"].items():
            for mark, value in (("$T", self.dtype), ("$O", result), ("$B", self.boundary)):
                text = text.replace(mark, value)
            shape, dtype, *more = text.split("; ")
            lines.append(f"  {name}: {{{', '.join([f'shape: {shape}', f'dtype: {dtype}', *more])}}}")
        indices = [f"  {name}: {extent}" for name, extent in self.operator.get("indices", {}).items()]
        lines += ["indices:", *indices] if indices else []
        lines += ["compute: |", *(f"  {line}" for line in self.operator["compute"].strip().split("\n"))]
        (spec,) = load_text("\n".join(lines))
        return spec

    def sizes(self) -> Iterator[dict[str, int]]:
        """The values of the dynamic params, one after another."""
        for m, n in _SHAPES[self.shape]:
            if self.shape not in _PARAMS:
                yield {}
            elif (m and n) or not self.operator.get("nonempty"):
                yield {"M": m, "N": n}


@cache
def _operator_cases() -> list[OperatorCase]:
    """Every operator for every type that it has a meaning for and every class of shapes."""
    operators = yaml.safe_load((Path(__file__).parent / "data" / "operators.yaml").read_text())
    kinds = {"floats": lambda dtype: dtype.is_float, "integers": lambda dtype: dtype.is_integer}
    return [
        OperatorCase(operator, name, shape, _BOUNDARIES[(position + number) % len(_BOUNDARIES)])
        for operator in operators
        for position, (name, dtype) in enumerate(DTYPES.items())
        if kinds.get(operator.get("types", ""), lambda dtype: True)(dtype)
        for number, shape in enumerate(_SHAPES)
    ]


def _one_each(cases: list[OperatorCase]) -> list[OperatorCase]:
    """One for each operator, the types and the classes of shapes in equal parts."""
    by_operator: dict[str, list[OperatorCase]] = {}
    for case in cases:
        by_operator.setdefault(case.operator["name"], []).append(case)
    uses: Counter[str] = Counter()
    chosen = []
    for cases_of_operator in by_operator.values():
        case = min(cases_of_operator, key=lambda case: uses[case.dtype] + uses[case.shape])
        uses.update((case.dtype, case.shape))
        chosen.append(case)
    assert uses.keys() == {*DTYPES, *_SHAPES}
    return chosen


def _covering(cases: list[OperatorCase]) -> list[OperatorCase]:
    """A few of them for each operator, which together meet every type with every class of shapes."""
    wanted = {(case.dtype, case.shape): None for case in cases}
    by_operator: dict[str, list[OperatorCase]] = {}
    for case in cases:
        by_operator.setdefault(case.operator["name"], []).append(case)
    chosen: list[OperatorCase] = []
    while wanted:
        for cases_of_operator in by_operator.values():
            case = next((c for c in cases_of_operator if (c.dtype, c.shape) in wanted), None)
            if case is not None:
                chosen.append(case)
                del wanted[case.dtype, case.shape]
    return chosen


def _pairs(cases: list[OperatorCase]) -> list[OperatorCase]:
    """For each operator, a case for every type and one for every class of shapes."""
    chosen: list[OperatorCase] = []
    met: dict[tuple[str, str], None] = {}
    for case in cases:
        name = case.operator["name"]
        is_due = list(_SHAPES)[list(DTYPES).index(case.dtype) % len(_SHAPES)] == case.shape
        if is_due and ((name, case.dtype) not in met or (name, case.shape) not in met):
            met |= {(name, case.dtype): None, (name, case.shape): None}
            chosen.append(case)
    return chosen


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks as `quick` what `data/quick.yaml` lists, as `slow` what `covering` leaves out, and `sampled` but for cases
    that the list names, and as `exhaustive` the slow cases of a test but for those of `ci_cases`, unless it is marked
    `whole`."""
    lists = yaml.safe_load((Path(__file__).parent / "data" / "quick.yaml").read_text())
    quick = tuple(f"tests/{entry}" for entries in lists.values() for entry in entries)
    config.stash[COLLECTED] = tuple(item.nodeid for item in items)
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in by_test.values():
        if (sampled := cases[0].get_closest_marker("sampled")) is not None:
            (step,) = sampled.args
            for number, item in enumerate(item for item in cases if item.nodeid not in quick):
                if number % step:
                    item.add_marker(pytest.mark.slow)
        if cases[0].get_closest_marker("covering") is not None:
            fast = [item for item in cases if item.get_closest_marker("slow") is None]
            default = ci_cases.chosen([_values(item) for item in fast], minimum=1)
            for number, item in enumerate(fast):
                if number not in default:
                    item.add_marker(pytest.mark.slow)
        slow = [item for item in cases if item.get_closest_marker("slow") is not None]
        fast = [item for item in cases if item.get_closest_marker("slow") is None]
        for item in fast:
            if item.nodeid.startswith(quick):
                item.add_marker(pytest.mark.quick)
        if cases[0].get_closest_marker("whole") is None:
            run = ci_cases.chosen([_values(item) for item in slow], [_values(item) for item in fast])
            for number, item in enumerate(slow):
                if number not in run:
                    item.add_marker(pytest.mark.exhaustive)


def _values(item: pytest.Item) -> ci_cases.Values:
    """The parameters of a case with their values, or the places of these in their list where they can't be hashed."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return frozenset()
    return frozenset(
        (name, (type(value), value) if _is_hashable(value) else callspec.indices[name])
        for name, value in callspec.params.items()
    )


def _is_hashable(value: object) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collection makes objects that stay, of which the garbage collector frees nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """The modules and tests stay until the end: the garbage collector need not look at them again and again. Kernels
    are made of many small objects without cycles: it runs at times only."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD, *gc.get_threshold()[1:])


def pytest_make_parametrize_id(val: object) -> str | None:
    """A text of a few lines on one, and cut if it is long, so that an id can be read and given to `pytest -k`.

    What is longer than MAX_TEXT, such as a whole spec, needs an `id` of its own."""
    if not isinstance(val, str) or len(val) > MAX_TEXT or (len(val) <= MAX_ID and "\n" not in val):
        return None
    line = "; ".join(stripped for line in val.split("\n") if (stripped := line.strip())) or "line breaks"
    shortened = line if len(line) <= MAX_ID else f"{line[: MAX_ID - 3].rstrip()}..."
    return shortened.encode("unicode_escape").decode("ascii")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`operator_case`: on a GPU every case, one for every pair of type and shape without the mark `slow`; else one for
    every pair of operator and type, of operator and shape, and of type and shape, and one of each operator without the
    mark. `static_operator_case`: those of the pairs whose sizes are known and divide, or are prime."""
    if "operator_case" in metafunc.fixturenames:
        cases = _operator_cases()
        fast = {str(case) for case in _covering(cases)}
        if "gpu" not in metafunc.module.__name__:
            single = _one_each(cases)
            some = fast | {str(case) for case in (*_pairs(cases), *single)}
            fast = {str(case) for case in single}
            cases = [case for case in cases if str(case) in some]
        params = [
            pytest.param(case, id=str(case), marks=() if str(case) in fast else pytest.mark.slow) for case in cases
        ]
        metafunc.parametrize("operator_case", params)
    if "static_operator_case" in metafunc.fixturenames:
        cases = [case for case in _pairs(_operator_cases()) if case.shape in ("even", "prime")]
        metafunc.parametrize("static_operator_case", cases, ids=str)


@pytest.fixture
def collected(pytestconfig: pytest.Config) -> tuple[str, ...]:
    """The ids of all tests of the folders that pytest was given, whether they run or not."""
    return pytestconfig.stash[COLLECTED]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser for all tests of a process, in which Playwright can run once."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("NO BROWSER, NOT TESTED: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def shared_builds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of builds that is none of the user's but for the runtime of the CPU device; all workers share it."""
    folder = tmp_path_factory.getbasetemp()
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "shared_builds"
    with suppress(ToolMissing):
        built = build._runtime(build.Kind.FAST).path.parent
        entry = shared / built.parent.name / built.name
        entry.parent.mkdir(parents=True, exist_ok=True)
        copied = Path(shutil.copytree(built, folder / "copied_build"))
        with suppress(OSError):  # another worker's is there
            copied.rename(entry)
    return shared


@pytest.fixture(scope="session")
def unshared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of this worker alone: searches of one spec that start over remove each other's journal."""
    return tmp_path_factory.getbasetemp() / "cache"


@pytest.fixture(scope="session")
def block_16x16() -> Callable[..., list[list[int | None]]]:
    """One list of addresses for each of the 8 warps of a 16×16 block; `element(tx, ty)` is an index of floats."""

    def build(element: Callable[[int, int], int]) -> list[list[int | None]]:
        return [[4 * element(t % 16, t // 16) for t in range(start, start + 32)] for start in range(0, 256, 32)]

    return build
