"""Run times of cugen's commands, with their goals.

    python -m benchmarks.generator.generator [--record]

Figures are wall times of new processes, with interpreter start, except for the last one: the kernel time that `cugen
run` reports. Figures below a second are the median of five. `--record` writes docs/results/generator.json and .md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import cugen
from cugen.emit.resources import data_folder

_CUGEN = (sys.executable, "-m", "cugen")
_RUNS = 5  # of which the median counts
_VARIANTS = 200  # kernels of one spec
_SPECS = 1000  # spec files
_RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
_PRODUCT = data_folder("specs") / "matmul_tiled.yaml"


@dataclass(frozen=True, slots=True)
class Took:
    """Wall time and CPU time of a command, in seconds."""

    clock: float
    processors: float | None


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure with its goal for the wall time, in seconds."""

    what: str
    command: str
    took: Took
    goal: float


def main() -> int:
    """Prints the table. Returns 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--record", action="store_true", help="write docs/results/generator.json and .md")
    args = parser.parse_args()
    about = {"machine": _machine(), "date": datetime.date.today().isoformat(), "version": cugen.__version__}
    print("; ".join(about.values()))
    figures = []
    with tempfile.TemporaryDirectory(prefix="cugen-benchmark-") as folder:
        os.environ["CUGEN_CACHE_DIR"] = str(Path(folder) / "cache")
        for figure in _figures(Path(folder)):
            took = (
                f"{figure.took.clock:8.3f} s, of processors {_text(figure.took.processors):>6} (goal {figure.goal:g})"
            )
            print(f"{took}  {figure.what}: cugen {figure.command}", flush=True)
            figures.append(figure)
    if args.record:
        results = {
            **about,
            "command": "python -m benchmarks.generator.generator --record",
            "figures": [*map(asdict, figures)],
        }
        (_RESULTS / "generator.json").write_text(json.dumps(results, indent=2) + "\n")
        (_RESULTS / "generator.md").write_text(page(results))
    return 0 if all(figure.took.clock <= figure.goal for figure in figures) else 1


def page(results: Mapping[str, Any]) -> str:
    """Page with the results."""
    rows = "\n".join(
        f"| {figure['what']} | `cugen {figure['command']}` | {_text(figure['took']['clock'])} "
        f"| {_text(figure['took']['processors'])} | {figure['goal']:g} |"
        for figure in results["figures"]
    )
    return f"""# Run times of cugen's commands

{results["machine"]}; {results["date"]}; cugen {results["version"]}; `{results["command"]}`.

| what | command | wall time, s | CPU time, s | goal, s |
|---|---|---:|---:|---:|
{rows}

Wall times of processes, with interpreter start, and their CPU times, which two cores share with `--jobs 2`; the last
figure is the time of the kernel. On a shared machine wall times exceed CPU times. Unchanged specs aren't parsed: their
outlines are cached by a hash of all inputs, and the files on disk are compared with their hashes.
"""


def _text(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.2f}"


def _figures(folder: Path) -> Iterator[Figure]:
    yield Figure("help", "--help", _median("--help"), 0.2)

    command = ("generate", str(_PRODUCT), "-o", str(folder / "one"))
    cold = _middle([_seconds("generate", str(_PRODUCT), "-o", str(folder / str(n))) for n in range(_RUNS)])
    _seconds(*command)
    yield Figure("generate, nothing to do", "generate SPEC", _median(*command), 0.2)
    yield Figure("generate one kernel", "generate SPEC", cold, 0.8)

    variants = folder / "variants.yaml"
    sizes = ", ".join(str(100 + 7 * n) for n in range(_VARIANTS))
    text = _PRODUCT.read_text().replace("M: 1000", "M: $m")
    variants.write_text(f"{text}\nvariants: {{m: [{sizes}]}}\n")
    took = _seconds("generate", str(variants), "-o", str(folder / "variants"), "--jobs", "2")
    made = len(list((folder / "variants").glob("*.cu")))
    if made != _VARIANTS:
        raise SystemExit(f"{made} kernels were made, not {_VARIANTS}")
    yield Figure(f"generate {_VARIANTS} kernels", "generate SPEC --jobs 2", took, 15.0)

    yield from _many(folder / "many")

    run = ("run", str(_PRODUCT), "--device", "cpu", "--json")
    _output(*run)
    report = json.loads(_output(*run, "--repeat", "3"))
    if not report["passed"]:
        raise SystemExit("the product is wrong")
    yield Figure("1000×513×777 product on the CPU", "run SPEC --device cpu", Took(report["time_ms"] / 1e3, None), 3.0)


def _many(folder: Path) -> Iterator[Figure]:
    """Figures of `_SPECS` spec files, as in a library of kernels."""
    folder.mkdir()
    text = _PRODUCT.read_text()
    paths = [folder / f"product_{n:04}.yaml" for n in range(_SPECS)]
    for n, path in enumerate(paths):
        path.write_text(
            text.replace("kernel: matmul_tiled", f"kernel: {path.stem}").replace("M: 1000", f"M: {100 + n}")
        )
    words = ("generate", *map(str, paths), "-o", str(folder / "out"), "--jobs", "2")
    yield Figure(f"generate {_SPECS} specs", "generate SPEC… --jobs 2", _seconds(*words), 60.0)
    if (made := len(list((folder / "out").glob("*.cu")))) != _SPECS:
        raise SystemExit(f"{made} kernels were made, not {_SPECS}")
    yield Figure(f"nothing to do for {_SPECS} specs", "generate SPEC… --jobs 2", _median(*words), 1.0)
    seconds = []
    for n in range(_RUNS):
        changed = paths[n * 100]
        changed.write_text(changed.read_text().replace("N: 777", f"N: {500 + n}"))
        seconds.append(_seconds(*words))
    yield Figure(f"one of {_SPECS} specs changed", "generate SPEC… --jobs 2", _middle(seconds), 1.5)


def _median(*words: str) -> Took:
    return _middle([_seconds(*words) for _ in range(_RUNS)])


def _middle(times: Sequence[Took]) -> Took:
    return Took(statistics.median(t.clock for t in times), statistics.median(t.processors or 0 for t in times))


def _seconds(*words: str) -> Took:
    start, busy = time.perf_counter(), _processors()
    _output(*words)
    return Took(time.perf_counter() - start, _processors() - busy)


def _processors() -> float:
    """CPU seconds of all terminated child processes."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _output(*words: str) -> str:
    done = subprocess.run([*_CUGEN, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"`cugen {' '.join(words)}` ended with status {done.returncode}")
    return done.stdout


def _machine() -> str:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        named = [line.split(":", 1)[1].strip() for line in information.read_text().splitlines() if "model name" in line]
        model = named[0] if named else model
    return f"{model}, {cores} cores; Python {platform.python_version()}"


if __name__ == "__main__":
    sys.exit(main())
