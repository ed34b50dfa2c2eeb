"""Times the kernels of spec files on the GPU, beside PyTorch's eager functions and the price of the model.

    python -m benchmarks.operators.spec_files OUTPUT.json FILE.yaml [FILE.yaml ...] [--seconds 120]

It is a quick look at many specs. Kernels are planned and compiled in parallel, and each is run a few times with cold
caches. Its results are compared with PyTorch's where PyTorch has words for the spec; `cugen bench` compares them with
the reference. The kernels furthest behind come again at the end: behind PyTorch, then behind the model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.timing.cold_times import TORCH, cold_times, defaults
from benchmarks.timing.figures import about, save
from cugen.analysis.launches.price import plan_prices, total
from cugen.analysis.totals.budget import Unknown
from cugen.bench.measure import OURS
from cugen.bench.session import Session, session
from cugen.kernel import Kernel, generate
from cugen.runtime.gpu import target_for
from cugen.runtime.inputs import known_params
from cugen.spec.load import load_text
from cugen.toolchain.cuda import compile_cubin

_SAMPLES, _BUDGET_US = 7, 5e3  # of a contender
_SHOWN = 40  # kernels at the end


@dataclass(frozen=True)
class Prepared:
    """A planned and compiled spec: its `kernel`, or the `error`; the seconds of planning; seconds of the model and of
    its bound, None where a count is unknown."""

    name: str
    kernel: Kernel | None
    planning: float = 0.0
    predicted: float | None = None
    bound: float | None = None
    error: str = ""


def prepared(capability: str, text: str) -> Prepared:
    """Plans and compiles a document of one kernel; its errors are a row, too."""
    started = time.perf_counter()
    name = text.strip().splitlines()[0]
    try:
        (spec,) = load_text(text)
        name = spec.kernel
        kernel = generate(spec.for_device(capability), remarks="none")
        planning = time.perf_counter() - started
        compile_cubin(kernel.source, kernel.name, target_for(kernel.manifest, capability))
    except Exception as error:
        return Prepared(name, None, time.perf_counter() - started, error=f"{type(error).__name__}: {error}")
    try:
        price = total(plan_prices(kernel.plan, known_params(kernel.spec, defaults(kernel.spec))))
    except Unknown as why:
        return Prepared(name, kernel, planning, error=str(why))
    return Prepared(name, kernel, planning, price.seconds, price.bound_seconds)


def row(opened: Session, made: Prepared) -> dict[str, Any]:
    """Medians in microseconds with cold caches."""
    kernel = made.kernel
    figures: dict[str, Any] = {"name": made.name, "planning_s": made.planning}
    if kernel is None:
        return figures | {"error": made.error}
    figures["launches"] = [f"{launch.name} {launch.family}" for launch in kernel.plan.kernels]
    figures["predicted_us"] = made.predicted and made.predicted * 1e6
    figures["bound_us"] = made.bound and made.bound * 1e6
    figures["unknown"] = made.error
    measured = cold_times(opened, {OURS: kernel}, samples=_SAMPLES, budget_us=_BUDGET_US)
    times = {"us": measured.us[OURS], "torch_us": measured.us.get(TORCH)}
    return figures | times | {"difference": measured.difference, "absent": measured.absent}


def ratio(above: float | None, below: float | None) -> float:
    """0 where either is missing."""
    return above / below if above and below else 0.0


def printed(figures: dict[str, Any]) -> str:
    if "us" not in figures:
        return f"{figures['name']:36} {figures['error'].splitlines()[0][:150]}"
    shown = {
        key: "-" if figures[key] is None else f"{figures[key]:.1f}" for key in ("torch_us", "predicted_us", "bound_us")
    }
    eager = ratio(figures["torch_us"], figures["us"])
    return (
        f"{figures['name']:36} {figures['us']:10.1f} us, predicted {shown['predicted_us']:>9}, bound"
        f" {shown['bound_us']:>9}, eager {shown['torch_us']:>9} ({eager:5.2f})  {'; '.join(figures['launches'])}"
        f"  {figures['absent'][:90]}"
    )


def worst(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those without a time, those behind PyTorch, and those behind the model, the furthest behind first."""
    failed = [figures for figures in rows if "us" not in figures]
    timed = [figures for figures in rows if "us" in figures]
    behind_eager = sorted(
        (figures for figures in timed if 0 < ratio(figures["torch_us"], figures["us"]) < 1.05),
        key=lambda figures: ratio(figures["torch_us"], figures["us"]),
    )
    behind_model = sorted(timed, key=lambda figures: -ratio(figures["us"], figures["predicted_us"]))
    return failed + behind_eager + behind_model[:_SHOWN]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="time no kernel after this time")
    args = parser.parse_args()
    started = time.perf_counter()
    texts = [text for file in args.files for text in file.read_text().split("\n---\n") if text.strip()]
    rows: list[dict[str, Any]] = []
    with session() as opened:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            for made in pool.map(partial(prepared, opened.capability), texts):
                if time.perf_counter() - started > args.seconds:
                    pool.shutdown(cancel_futures=True)
                    print(f"{len(texts) - len(rows)} kernels were not timed, from {made.name} on")
                    break
                try:
                    rows.append(row(opened, made))
                except Exception as error:  # of a kernel, of PyTorch's memory
                    rows.append({"name": made.name, "error": f"{type(error).__name__}: {error}"})
                print(printed(rows[-1]), flush=True)
        content = about(opened.device)
    print("furthest behind:")
    for figures in worst(rows):
        print(printed(figures))
    save(args.output, content | {"cases": rows})
    return 0


if __name__ == "__main__":
    sys.exit(main())
