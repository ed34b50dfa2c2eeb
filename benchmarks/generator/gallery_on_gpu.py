"""Verification of the gallery on the GPU, also under the four tools of compute-sanitizer.

    python -m benchmarks.generator.gallery_on_gpu docs/results/gallery_h200.json

The file holds, for each kernel, its launches, registers, time and error, and each tool's summary of the whole gallery.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import platform
import re
import shutil
import statistics
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.timing.figures import about, save
from cugen.emit.resources import data_folder
from cugen.kernel import generate
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.load import load_all

DYNAMIC = 1000  # value of dynamic params, rounded down to their `multiple_of`
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
PARTS = 4  # of the gallery, at once under each tool


def run_gallery(repeat: int, part: int = 0, parts: int = 1) -> list[dict[str, Any]]:
    """Runs every `parts`-th spec of the gallery from `part` on; returns a row for each kernel."""
    device = GpuDevice()
    rows = []
    for path in sorted(data_folder("specs").glob("*.yaml"))[part::parts]:
        for spec in load_all(path):
            kernel = generate(spec)
            sizes = {
                p.name: min(max(DYNAMIC, p.minimum), p.maximum) // p.multiple_of * p.multiple_of
                for p in spec.params
                if p.value is None
            }
            run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=sizes, seed=1, repeat=repeat)
            verification, outcome = run.verification, run.outcome
            rows.append(
                {
                    "kernel": spec.kernel,
                    "families": [k.family for k in kernel.plan.kernels],
                    "registers": dict(outcome.registers),
                    "spill_bytes": dict(outcome.spill_bytes),
                    "median_ms": statistics.median(outcome.times_ms) if outcome.times_ms else None,
                    "passed": verification.passed,
                    "checked": verification.checked,
                    "max_abs_error": verification.max_abs_error,
                    "tolerance": verification.tolerance,
                    "messages": [*verification.messages, *(f"{f.kind}: {f.message}" for f in outcome.faults)],
                }
            )
            print("ok  " if verification.passed else "FAIL", spec.kernel, *rows[-1]["messages"], flush=True)
    return rows


def sanitize(tool: str, part: int) -> dict[str, Any]:
    """Runs a part of the gallery under one tool of compute-sanitizer."""
    command = [
        "compute-sanitizer",
        "--tool",
        tool,
        sys.executable,
        "-m",
        "benchmarks.generator.gallery_on_gpu",
        "--part",
        str(part),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=560)
    summary = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: .*", done.stdout + done.stderr)
    clean = done.returncode == 0 and bool(summary) and all(re.search(r"SUMMARY: 0 ", s) for s in summary)
    kernels = len(re.findall(r"^ok  ", done.stdout, re.MULTILINE))
    tail = "" if clean else (done.stdout + done.stderr)[-3000:]
    return {"tool": tool, "part": part, "kernels": kernels, "clean": clean, "summary": summary, "tail": tail}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", nargs="?", type=Path)
    parser.add_argument("--part", type=int, metavar="P", help=f"one of {PARTS} parts of the gallery, and no figures")
    options = parser.parse_args()
    if options.part is not None:
        return 0 if all(row["passed"] for row in run_gallery(1, options.part, PARTS)) else 1
    rows = run_gallery(repeat=50)
    tools = []
    if shutil.which("compute-sanitizer"):
        with concurrent.futures.ThreadPoolExecutor() as pool:
            tools = list(pool.map(sanitize, *zip(*product(TOOLS, range(PARTS)), strict=True)))
    import pycuda.driver as driver

    device = driver.Device(0)
    known = {
        "capability": list(device.compute_capability()),
        "driver": driver.get_driver_version(),
        "python": platform.python_version(),
    }
    if options.output:
        save(options.output, about(device.name()) | known | {"kernels": rows, "sanitizer": tools})
    for tool in tools:
        clean = "clean" if tool["clean"] else "NOT CLEAN"
        print(tool["tool"], f"part {tool['part']}", f"{tool['kernels']} kernels", clean, *tool["summary"])
        if tool["tail"]:
            print(tool["tail"])
    return 0 if all(row["passed"] for row in rows) and all(tool["clean"] for tool in tools) else 1


if __name__ == "__main__":
    sys.exit(main())
