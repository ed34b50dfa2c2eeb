"""Limiting hardware units of the cases that miss a goal, from Nsight Compute.

    python -m benchmarks.memory.limits capture FIGURES OUTPUT   profiles every case of FIGURES that missed a goal
    python -m benchmarks.memory.limits play NAME [NAME ...]     launches the cases once; profiled by `capture`

FIGURES and OUTPUT are docs/results/memory_bound_h200.json and limits_h200.json there, or products_h200.json and
product_limits_h200.json, with the same `--lock FILE` as for products.py. Shares are percent of peak: DRAM
bandwidth, issue slots, each arithmetic pipe, the data path of shared memory and L1; and of the time in which an SM is
active.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.gemm import products_cases
from benchmarks.memory import memory_bound_cases
from benchmarks.timing.cases import Case
from benchmarks.timing.page_parts import verdict
from cugen.bench.buffers import Buffers
from cugen.bench.session import session
from cugen.kernel import generate
from cugen.runtime.call.callable import GpuFunction
from cugen.runtime.inputs import known_params
from cugen.schedule import lock
from cugen.spec.load import load_text

METRICS = {
    "gpu__time_duration.sum": "time_us",
    "dram__bytes_read.sum": "dram_read_bytes",
    "dram__bytes_write.sum": "dram_written_bytes",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "memory_percent",
    "smsp__issue_active.avg.pct_of_peak_sustained_active": "issue_percent",
    "sm__inst_executed_pipe_alu.avg.pct_of_peak_sustained_active": "alu_percent",
    "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active": "fma_percent",
    "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active": "special_function_percent",
    "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_active": "load_store_percent",
    "l1tex__data_pipe_lsu_wavefronts.avg.pct_of_peak_sustained_active": "l1_data_percent",
    "sm__cycles_active.avg.pct_of_peak_sustained_elapsed": "active_percent",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps_percent",
    "smsp__inst_executed.sum": "warp_instructions",
    "launch__grid_size": "blocks",
    "launch__block_size": "threads_per_block",
    "launch__registers_per_thread": "registers",
    "launch__waves_per_multiprocessor": "waves",
}
_UNITS = {"nsecond": 1e-3, "usecond": 1.0, "msecond": 1e3, "second": 1e6, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6}
_BYTES = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


def missed(figures: Path) -> list[str]:
    """Names of the cases that miss a required goal."""
    rows = json.loads(figures.read_text())["cases"]
    return [row["name"] for row in rows if any(verdict(row, goal)[1] == "missed" for goal in row["goals"])]


def cases() -> dict[str, Case]:
    """Cases of all lists, by name."""
    return {case.name: case for case in (*memory_bound_cases.cases(), *products_cases.cases())}


def play(names: list[str], tuned: Path | None) -> None:
    """Launches each case once, on random inputs."""
    chosen = cases()
    with session() as opened:
        for name in names:
            (spec,) = load_text(chosen[name].spec, file=f"{name}.yaml")
            if tuned:
                spec = lock.apply(spec, lock.read(tuned), opened.device)
            kernel = generate(spec, remarks="none")
            buffers = Buffers(opened, spec, kernel.manifest, known_params(spec, {}), 1)
            run = GpuFunction(kernel.source, kernel.manifest)
            run(stream=opened.stream, **buffers.arrays(0))
            opened.synchronize()
            buffers.release()


def capture(figures: Path, output: Path, tuned: Path | None) -> None:
    """Profiles the cases separately, since their kernels may have equal names."""
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=True).stdout
    chosen = cases()
    given = ["--lock", str(tuned)] if tuned else []
    rows: list[dict[str, Any]] = []
    for name in missed(figures):
        command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--metrics", ",".join(METRICS)]
        (spec,) = load_text(chosen[name].spec)
        command += [
            "--kernel-name",
            f"regex:^{spec.kernel}",
            sys.executable,
            "-m",
            "benchmarks.memory.limits",
            "play",
            name,
            *given,
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        launches = [] if done.returncode else read(done.stdout)
        rows.append({"name": name, "launches": launches})
        if not launches:
            rows[-1]["message"] = (done.stdout + done.stderr)[-300:]
        print(json.dumps(rows[-1]), flush=True)
        content = {
            "profiler": version.split("Version ")[-1].strip(),
            "date": datetime.date.today().isoformat(),
            "command": " ".join(["python -m benchmarks.memory.limits capture", str(figures), str(output), *given]),
            "cases": rows,
        }
        output.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read(text: str) -> list[dict[str, Any]]:
    """Rows of the launches from Nsight Compute's raw CSV page, whose second line has the units."""
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    units, *launches = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    rows = []
    for launch in launches:
        row: dict[str, Any] = {"kernel": launch["Kernel Name"].partition("(")[0]}
        for metric, name in METRICS.items():
            if launch.get(metric) not in (None, "", "n/a"):
                scale = _UNITS.get(units[metric], 1.0) if name == "time_us" else _BYTES.get(units[metric], 1)
                row[name] = round(float(launch[metric].replace(",", "")) * scale, 2)
        rows.append(row)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    capturing = commands.add_parser("capture")
    capturing.add_argument("figures", type=Path)
    capturing.add_argument("output", type=Path)
    playing = commands.add_parser("play")
    playing.add_argument("names", nargs="+")
    for each in (capturing, playing):
        each.add_argument("--lock", type=Path, metavar="FILE", help="lock file with schedules of `cugen tune`")
    options = parser.parse_args()
    if options.command == "play":
        play(options.names, options.lock)
    else:
        capture(options.figures, options.output, options.lock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
