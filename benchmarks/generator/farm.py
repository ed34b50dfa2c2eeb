"""A build farm: what `cugen generate` of many specs costs on a cluster of this machine, the first time and again.

    python -m tests.fuzz --seed 70000 --count 400 --write /tmp/drawn
    python -m benchmarks.generator.farm docs/results/farm.json /tmp/drawn/*.yaml [--emit cubin] [--target sm_80,...]

The cache and the folder of the outputs are empty at first. The second call has both, and the manifest of the first.
Seconds are those of the clock and of all cores, so that time that other work takes on the machine can be told apart.
Then a tenth of the specs, spread evenly, is generated without a cluster, and every byte is compared.
"""

from __future__ import annotations

import argparse
import datetime
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cugen
from benchmarks.timing.figures import save

_COMPARED = 10  # one spec of so many is generated without a cluster, too


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("specs", type=Path, nargs="+")
    parser.add_argument("--emit", default="cu")
    parser.add_argument("--target", default="sm_90", help="with machine code also several, with commas")
    options = parser.parse_args()
    words = ["--emit", options.emit, "--target", options.target]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CUGEN_CACHE_DIR": f"{folder}/cache"}
        farm, alone = Path(folder) / "farm", Path(folder) / "alone"
        on_cluster = [*words, "-o", str(farm), "--scheduler", "local", "--manifest", f"{folder}/build.json"]
        first = generated(options.specs, on_cluster, environment)
        again = generated(options.specs, on_cluster, environment)
        generated(options.specs[::_COMPARED], [*words, "-o", str(alone)], environment)
        compared = sorted(alone.iterdir())
        different = [file.name for file in compared if file.read_bytes() != (farm / file.name).read_bytes()]
        files = list(farm.iterdir())
        content = {
            "date": datetime.date.today().isoformat(),
            "cugen": cugen.__version__,
            "command": f"python -m benchmarks.generator.farm {options.output} SPECS {' '.join(words)}",
            "cores": len(os.sched_getaffinity(0)),
            "specs": len(options.specs),
            "targets": len(options.target.split(",")),
            "files": len(files),
            "megabytes": sum(file.stat().st_size for file in files) / 1e6,
            "first": first,
            "again": again,
            "compared": len(compared),
            "different": different,
        }
    save(options.output, content)
    print(f"{len(options.specs)} specs: {first}, again {again}; {len(different)} of {len(compared)} files differ")
    return 1 if different else 0


def generated(specs: Sequence[Path], words: Sequence[str], environment: Mapping[str, str]) -> dict[str, Any]:
    """Seconds of the clock and of all cores of a call."""
    begun, used = time.perf_counter(), _cpu_seconds()
    subprocess.run(
        [sys.executable, "-m", "cugen", "generate", *map(str, specs), *words, "-q"], check=True, env=environment
    )
    return {"seconds": time.perf_counter() - begun, "core_seconds": _cpu_seconds() - used}


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


if __name__ == "__main__":
    sys.exit(main())
