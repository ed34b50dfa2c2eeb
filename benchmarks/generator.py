"""How long people and build systems wait for cugen itself, each figure beside its goal.

    python benchmarks/generator.py

Every figure is the median of fresh processes, interpreter start included, except for the last one, which is the time
of the kernel as `cugen run` reports it, once compiled.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cugen.emit.resources import data_folder

_CUGEN = (sys.executable, "-m", "cugen")
_REPEAT = 5
_VARIANTS = 200
_PRODUCT = data_folder("specs") / "matmul_tiled.yaml"


@dataclass(frozen=True, slots=True)
class Figure:
    """Seconds."""

    what: str
    command: str
    took: float
    goal: float


def main() -> int:
    """Prints the table; 1 where a goal is missed."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    print(f"{_machine()}; {datetime.date.today().isoformat()}; {' '.join(('python', *sys.argv))}\n")
    print("| what | command | seconds | goal | |\n|---|---|---:|---:|---|")
    met = True
    with tempfile.TemporaryDirectory(prefix="cugen-benchmark-") as folder:
        for figure in _figures(Path(folder)):
            within = figure.took <= figure.goal
            met = met and within
            verdict = "met" if within else "**missed**"
            print(
                f"| {figure.what} | `cugen {figure.command}` | {figure.took:.3f} | {figure.goal:g} | {verdict} |",
                flush=True,
            )
    return 0 if met else 1


def _figures(folder: Path) -> Iterator[Figure]:
    yield Figure("help", "--help", _median("--help"), 0.2)

    one = ("generate", str(_PRODUCT), "-o", str(folder / "one"))
    cold = [_seconds("generate", str(_PRODUCT), "-o", str(folder / str(n))) for n in range(_REPEAT)]
    _seconds(*one)
    yield Figure("generate, nothing to do", "generate SPEC", _median(*one), 0.2)
    yield Figure("generate one kernel", "generate SPEC", statistics.median(cold), 0.8)

    variants = folder / "variants.yaml"
    sizes = ", ".join(str(100 + 7 * n) for n in range(_VARIANTS))
    text = _PRODUCT.read_text().replace("M: 1000", "M: $m")
    variants.write_text(f"{text}\nvariants: {{m: [{sizes}]}}\n")
    took = _seconds("generate", str(variants), "-o", str(folder / "variants"), "--jobs", "2")
    made = len(list((folder / "variants").glob("*.cu")))
    if made != _VARIANTS:
        raise SystemExit(f"{made} kernels were made, not {_VARIANTS}")
    yield Figure(f"generate {_VARIANTS} kernels", "generate SPEC --jobs 2", took, 15.0)

    run = ("run", str(_PRODUCT), "--device", "cpu", "--json")
    _output(*run)
    report = json.loads(_output(*run, "--repeat", "3"))
    if not report["passed"]:
        raise SystemExit("the product is wrong")
    yield Figure("1000×513×777 product on the CPU", "run SPEC --device cpu", report["time_ms"] / 1e3, 3.0)


def _median(*words: str) -> float:
    return statistics.median(_seconds(*words) for _ in range(_REPEAT))


def _seconds(*words: str) -> float:
    start = time.perf_counter()
    _output(*words)
    return time.perf_counter() - start


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
