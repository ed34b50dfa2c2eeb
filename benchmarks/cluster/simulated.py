"""GPUs and compilers that aren't there, for `benchmarks.cluster.cluster --simulated`: the cost of the search is left.

A compile and a measurement take their seconds asleep. All else is what a search does: its processes, messages and
journal. The program itself is the process from which `--scheduler local` starts workers.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any

from cugen.cluster.local import start
from cugen.schedule.lock import Schedules
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.tune import space, tuner
from cugen.tune.timing import gpus, workers
from cugen.tune.timing.gpus import Gpu
from cugen.tune.timing.prepare import Dropped, EarlierCandidates, Prepared

FAKE = Path(__file__).parents[2] / "tests" / "tune" / "fake_worker.py"
_FOLDER = "CUGEN_SIMULATED"  # variable of the folder that has what follows
_SITE, _PLAN, _SPACE = "site.json", "plan.json", "space.pickle"
_SOURCE_BYTES, _MANIFEST_BYTES = 12_000, 2_500  # of a GEMM on tensor cores
_DROPPED = 0.14  # share of the candidates that aren't timed
_CLASSES = 64  # times that candidates have
_SPEC = """\
cugen: 1
kernel: gemm
target: sm_90
params: {M: 2048, N: 2048, K: 2048}
arrays:
  A: {shape: [M, K], dtype: bfloat16}
  B: {shape: [K, N], dtype: bfloat16}
  C: {shape: [M, N], dtype: bfloat16}
compute: C[m, n] = sum(A[m, k] * B[k, n], k)
"""


@dataclass(frozen=True)
class Site:
    """A host. Seconds: of a compile, half as many to half as many more; of a measurement; of each of the two messages
    with which a timing process gets ready. They are about four times those of a host with 4 GPUs and 64 cores, so that
    two cores keep up with all else."""

    gpus: int = 4
    cpu_workers: int = 24
    compile_s: float = 3.2
    timing_s: float = 0.6
    ready_s: float = 2.0


@contextmanager
def simulation(site: Site) -> Iterator[None]:
    """A simulated host in the place of this one, for this process and those that it starts."""
    (spec,) = load_text(_SPEC)
    times = [[_mark(number), 40.0 + 10 * number] for number in range(_CLASSES)]
    plan = {"times": times, "seconds": site.timing_s, "ready_seconds": site.ready_s}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_FOLDER] = folder
        _file(_SITE).write_text(json.dumps(asdict(site)))
        _file(_PLAN).write_text(json.dumps(plan))
        _file(_SPACE).write_bytes(pickle.dumps((space.candidates(spec), space.generators_choice(spec))))
        install()
        yield


def install() -> None:
    """Replaces what needs GPUs or much time of a core."""
    site = _site()
    devices = tuple(Gpu("simulated", "sm_90", f"GPU-{number}") for number in range(site.gpus))

    def visible() -> tuple[Gpu, ...]:
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        return tuple(gpu for gpu in devices if chosen in (None, gpu.uuid))

    gpus.identified_gpus = visible
    workers.COMMAND = (sys.executable, "-S", str(FAKE), str(_file(_PLAN)))
    start.COMMAND = (sys.executable, __file__)
    start._cpu_workers = lambda cores, gpus: site.cpu_workers
    tuner.prepare, tuner._untuned, tuner._space = _prepared, _untuned, _space


def _file(name: str) -> Path:
    return Path(os.environ[_FOLDER]) / name


def _site() -> Site:
    return Site(**json.loads(_file(_SITE).read_text()))


def _mark(number: int) -> str:
    return f"time class {number:02}\n"


def _untuned(spec: Spec, capability: str, params: Mapping[str, int]) -> Prepared | Dropped:
    return _made(spec, ())


def _prepared(
    spec: Spec,
    schedules: Schedules,
    capability: str,
    params: Mapping[str, int],
    earlier: EarlierCandidates | None = None,
) -> Prepared | Dropped:
    made = _made(spec, schedules)
    return Dropped("by chance") if Random(made.digest).random() < _DROPPED else made


def _made(spec: Spec, schedules: Schedules) -> Prepared:
    digest = hashlib.sha256(repr((spec.kernel, schedules)).encode()).hexdigest()
    random = Random(digest)
    time.sleep(_site().compile_s * random.uniform(0.5, 1.5))
    text = random.randbytes(_SOURCE_BYTES // 2).hex()
    return Prepared(_mark(random.randrange(_CLASSES)) + text, text[:_MANIFEST_BYTES], digest, None)


def _space(spec: Spec, considered: int) -> Any:
    time.sleep(_site().compile_s)
    whole, choice = pickle.loads(_file(_SPACE).read_bytes())
    return whole[: 1 + considered], len(whole), choice


if __name__ in ("__main__", "__mp_main__"):  # a process that starts workers, or a worker
    install()

if __name__ == "__main__":
    from cugen.cluster.local import host

    host.main()
