"""Hardware counters of every gallery kernel, compared with the predictions of its plan for the compiled code.

    python -m benchmarks.machine.counters capture DIR [KERNEL ...]   on a machine with a GPU and Nsight Compute
    python -m benchmarks.machine.counters compare DIR FILE           without a GPU: compares them, and writes FILE
    python -m benchmarks.machine.counters play SPECS [KERNEL ...]    launches each kernel once; profiled by `capture`

DIR gets the counters as Nsight Compute prints them, those of each instruction, the cubins with their sources, and a
description of the machine. FILE, such as docs/results/counters_h200.json, has predicted and measured values of each
launch, of each access as written and as compiled, and of each MMA on tensor cores. The exit status is 1 if
one differs.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import functools
import io
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cugen
from cugen.compiled.accesses import CompiledAccess
from cugen.compiled.kernels import CompiledKernel, compiled_kernels
from cugen.compiled.mmas import CompiledMma
from cugen.compiled.predictions import ASYNC_METRICS, METRICS, predictions
from cugen.compiled.sass import Instruction
from cugen.compiled.tensor_copies import CompiledCopy
from cugen.emit.resources import data_folder
from cugen.kernel import Kernel, generate
from cugen.machine.requests.async_copies import L1_BYPASS_BYTES
from cugen.runtime.gpu import GpuDevice, target_for
from cugen.runtime.inputs import draw, known_params
from cugen.runtime.verify import make_job
from cugen.spec.load import load_all
from cugen.spec.model import Spec
from cugen.toolchain.cuda import compile_cubin, compile_ptx

DYNAMIC = 1000  # value of dynamic params, rounded down to their `multiple_of`
TIMEOUT_SECONDS = 500
PAIRED = (
    "of two copies of which each lane runs one, the profiler counts the sectors of one alone; the launch has them all"
)
ALL_METRICS = (*METRICS, *ASYNC_METRICS)
VERDICTS = ("equal", "different", "not predicted", "not measured")
PER_INSTRUCTION = {
    "executed": "Instructions Executed",
    "lanes": "Predicated-On Thread Instructions Executed",
    "wavefronts": "L1 Wavefronts Shared",
    "sectors": "L2 Theoretical Sectors Global",
}

Figures = Mapping[str, Mapping[str, int]]  # by instruction address and metric name


def kernels(specs: Path, names: tuple[str, ...] = ()) -> Iterator[Kernel]:
    """Kernels of a folder's specs in file order, or those with the given names."""
    for path in sorted(specs.glob("*.yaml")):
        for spec in load_all(path):
            if not names or spec.kernel in names:
                yield generate(spec)


def sizes(spec: Spec) -> dict[str, int]:
    """Value of each dynamic param."""
    dynamic = [p for p in spec.params if p.is_dynamic]
    return {p.name: max(min(p.maximum, DYNAMIC) // p.multiple_of * p.multiple_of, p.minimum) for p in dynamic}


def play(specs: Path, names: tuple[str, ...]) -> None:
    """Launches each kernel once."""
    device = GpuDevice()
    chosen = list(kernels(specs, names))
    if not chosen:
        raise SystemExit(f"no kernel of {specs} is named {' or '.join(names)}" if names else f"no spec is in {specs}")
    for kernel in chosen:
        dynamic = sizes(kernel.spec)
        inputs = draw(kernel.spec, known_params(kernel.spec, dynamic), seed=1)
        outcome = device.run(make_job(kernel.source, kernel.manifest, inputs, dynamic, repeat=0))
        for fault in outcome.faults:
            raise SystemExit(f"{kernel.name}: {fault.kind}: {fault.message}")


def profile(report: Path, specs: Path, names: tuple[str, ...]) -> list[str]:
    """Profiles `play` with Nsight Compute into a report. Returns the command line."""
    line = ["ncu", "--clock-control", "none", "--section", "SourceCounters", "--metrics", ",".join(ALL_METRICS)]
    line += ["-o", str(report), sys.executable, "-m", "benchmarks.machine.counters", "play", str(specs), *names]
    _ncu(line)
    return line


def _ncu(line: list[str]) -> str:
    done = subprocess.run(line, capture_output=True, text=True, timeout=TIMEOUT_SECONDS)
    if done.returncode:
        raise SystemExit(f"ncu ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


def capture(folder: Path, specs: Path, names: tuple[str, ...] = ()) -> None:
    """Profiles the kernels and writes counters.csv, instructions.json, cubins.zip and machine.json."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "counters.ncu-rep"
        line = profile(report, specs, names)
        imported = ["ncu", "--import", str(report), "--csv"]
        (folder / "counters.csv").write_text(
            _ncu([*imported, "--page", "raw", "--print-units", "base", "--metrics", ",".join(ALL_METRICS)])
        )
        table = _ncu([*imported, "--page", "source"])
        (folder / "instructions.json").write_text(json.dumps(read_instructions(table)))
    import pycuda.driver as driver

    driver.init()
    device = driver.Device(0)
    capability = "sm_{}{}".format(*device.compute_capability())
    with zipfile.ZipFile(folder / "cubins.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for kernel in kernels(specs, names):
            target = target_for(kernel.manifest, capability)
            cubin = compile_cubin(kernel.source, kernel.manifest.kernel, target)
            archive.writestr(f"{kernel.name}.cubin", cubin.image)
            archive.writestr(f"{kernel.name}.ptx", compile_ptx(kernel.source, kernel.manifest.kernel, target))
            archive.writestr(f"{kernel.name}.cu", kernel.source)
            archive.writestr(f"{kernel.name}.json", json.dumps(list(kernel.access_lines().items())))
    version = subprocess.run(["ncu", "--version"], capture_output=True, text=True, check=True).stdout
    machine = {
        "device": device.name(),
        "capability": capability,
        "driver": driver.get_driver_version(),
        "compiler": cubin.compiler,
        "profiler": re.findall(r"Version (\S+)", version)[-1],
        "date": datetime.date.today().isoformat(),
        "python": platform.python_version(),
        "cugen": cugen.__version__,
        "command": " ".join(
            [*line[: line.index("-o")], "python", "-m", "benchmarks.machine.counters", "play", "specs"]
        ),
    }
    (folder / "machine.json").write_text(json.dumps(machine, indent=1) + "\n")


def read_counters(text: str) -> dict[str, dict[str, int]]:
    """Counters by kernel and metric, from Nsight Compute's raw CSV page, which has a row of units below the names."""
    lines = text.splitlines()
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise ValueError("no table of Nsight Compute: " + " ".join(lines[-3:]))
    counts: dict[str, dict[str, int]] = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines[start:]))):
        if row["ID"]:
            name = row["Kernel Name"].partition("(")[0]
            counts[name] = {metric: int(float(row[metric].replace(",", ""))) for metric in ALL_METRICS if metric in row}
    return counts


def read_instructions(text: str) -> dict[str, dict[str, dict[str, int]]]:
    """Instruction metrics of Nsight Compute's source page, by kernel and instruction address."""
    counts: dict[str, dict[str, dict[str, int]]] = {}
    names: list[str] = []
    first = 0
    for row in csv.reader(text.splitlines()):
        if row[:1] == ["Kernel Name"]:
            kernel = counts.setdefault(row[1].partition("(")[0], {})
            first = 0
        elif row[:1] == ["Address"]:
            names = row
        elif row and row[0].startswith("0x"):
            values = dict(zip(names, row, strict=False))
            first = first or int(row[0], 16)
            figures = {name: int(values[column]) for name, column in PER_INSTRUCTION.items() if column in values}
            kernel[str(int(row[0], 16) - first)] = figures
    return counts


def as_compiled(
    kernel: Kernel, image: bytes, ptx: str, lines: Mapping[int, int], target: str
) -> tuple[CompiledKernel, ...]:
    """Compiled launches of a cubin and its PTX. `lines`: source lines of the accesses."""
    symbols = kernel.context.symbols
    known = known_params(kernel.spec, sizes(kernel.spec))
    params = {symbols[name].name: value for name, value in known.items()}
    return compiled_kernels(kernel.plan, kernel.spec, lines, image, ptx, target, params)


def compare(folder: Path, specs: Path, output: Path | None) -> int:
    """Writes predicted and measured values, and returns the number of differences."""
    machine = json.loads((folder / "machine.json").read_text())
    counters = read_counters((folder / "counters.csv").read_text())
    instructions = json.loads((folder / "instructions.json").read_text())
    rows: list[dict[str, Any]] = []
    stale = []
    with zipfile.ZipFile(folder / "cubins.zip") as archive:
        names = tuple(name.removesuffix(".cubin") for name in archive.namelist() if name.endswith(".cubin"))
        for kernel in kernels(specs, names):
            if _code(archive.read(f"{kernel.name}.cu").decode()) != _code(kernel.source):
                stale.append(kernel.name)
                continue
            lines = dict(json.loads(archive.read(f"{kernel.name}.json")))
            image = archive.read(f"{kernel.name}.cubin")
            ptx = archive.read(f"{kernel.name}.ptx").decode()
            for launch in as_compiled(kernel, image, ptx, lines, machine["capability"]):
                rows.append(launch_row(launch, counters.get(launch.kernel, {}), instructions.get(launch.kernel, {})))
    summary: dict[str, Any] = {
        "counters": _verdicts([row for launch in rows for row in launch["counters"].values()]),
        "accesses": _verdicts(
            [access["figures"][name] for launch in rows for access in launch["accesses"] for name in access["figures"]]
        ),
        "mmas": _verdicts([m["executions"] for launch in rows for m in launch["mmas"]]),
        "copies": _verdicts([c["executions"] for launch in rows for c in launch["copies"]]),
        "unexplained instructions": sum(len(launch["unexplained"]) for launch in rows),
        "changed since the counters were read": stale,
    }
    if output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(_text({**machine, "summary": summary, "kernels": rows}))
    for launch_found in rows:
        for metric, row in launch_found["counters"].items():
            if row["verdict"] != "equal":
                print(launch_found["kernel"], metric, json.dumps(row))
        for access in launch_found["accesses"]:
            for name, row in access["figures"].items():
                if row["verdict"] != "equal":
                    print(launch_found["kernel"], access["array"], "line", access["line"], name, json.dumps(row))
        for row in (*launch_found["mmas"], *launch_found["copies"]):
            if row["executions"]["verdict"] != "equal":
                print(launch_found["kernel"], json.dumps(row))
    print(json.dumps(summary))
    return len(stale) + sum(
        int(summary[part][bad])
        for part in ("counters", "accesses", "mmas", "copies")
        for bad in ("different", "not measured")
    )


def launch_row(launch: CompiledKernel, counters: Mapping[str, int], instructions: Figures) -> dict[str, Any]:
    """Predicted and measured values of a launch and its accesses, and its unexplained instructions."""
    rows = {}
    for metric, prediction in predictions(launch).items():
        unplanned = sum(instructions.get(str(address), {}).get("executed", 0) for address in prediction.uncounted)
        value = None if prediction.value is None else prediction.value + unplanned
        rows[metric] = _row(value, counters.get(metric), prediction.reason)
        if prediction.uncounted:
            rows[metric]["of these the compiler's own, as measured"] = unplanned
    return {
        "kernel": launch.kernel,
        "counters": rows,
        "accesses": [_access_row(access, instructions) for access in launch.accesses if access.space != "constant"],
        "mmas": [_executions_row(mma, instructions) for mma in launch.mmas],
        "copies": [_executions_row(copy, instructions) for copy in launch.copies],
        "unexplained": [f"{i.address:#x} {i.opcode}, line {i.line}" for i in launch.unexplained],
    }


def _access_row(access: CompiledAccess, instructions: Figures) -> dict[str, Any]:
    measured = [instructions[str(i.address)] for i in access.instructions if str(i.address) in instructions]
    rows = {}
    for name in ("lanes", "wavefronts" if access.space == "shared" else "sectors"):
        predicted = None if access.compiled is None else sum(getattr(t, name) for t in access.compiled)
        predicted = access.lanes if name == "lanes" else predicted
        known = len(measured) == len(access.instructions)
        reason = access.reason
        if name == "sectors" and access.written_bytes == L1_BYPASS_BYTES and any(map(_is_chosen, access.instructions)):
            predicted, reason = None, PAIRED
        rows[name] = _row(predicted, sum(m[name] for m in measured) if known else None, reason)
    return {
        "array": access.access.array.symbol,
        "kind": f"{access.space} {access.access.kind}",
        "line": access.line,
        "as written": {"bytes": access.written_bytes, "executions": access.written.warps if access.written else None},
        "as compiled": {
            "instructions": len(access.instructions),
            "bytes": sorted({i.bytes for i in access.instructions}),
            "executions": access.executions,
            "changes": list(access.changes),
        },
        "figures": rows,
    }


def _executions_row(compiled: CompiledMma | CompiledCopy, instructions: Figures) -> dict[str, Any]:
    measured = [instructions[str(i.address)] for i in compiled.instructions if str(i.address) in instructions]
    known = len(measured) == len(compiled.instructions)
    executed = sum(m["executed"] for m in measured) if known else None
    return {
        "opcode": sorted({i.opcode for i in compiled.instructions}),
        "line": compiled.line,
        "instructions": len(compiled.instructions),
        "executions": _row(compiled.executions, executed, compiled.reason),
    }


def _is_chosen(instruction: Instruction) -> bool:
    return instruction.kind == "async_copy" and bool(instruction.predicate)


def _verdicts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in VERDICTS}


def _row(predicted: int | None, measured: int | None, reason: str) -> dict[str, Any]:
    row: dict[str, Any] = {"predicted": predicted, "measured": measured}
    if measured is None:
        return {**row, "verdict": "not measured"}
    if predicted is None:
        return {**row, "verdict": "not predicted", "reason": reason}
    return {**row, "verdict": "equal" if predicted == measured else "different"}


def _code(source: str) -> list[str]:
    """Source lines without comments and empty lines."""
    return [code for line in source.splitlines() if (code := line.partition("//")[0].rstrip())]


def _text(result: Mapping[str, Any]) -> str:
    """JSON text with one figure per line."""
    text = json.dumps(result, indent=1, ensure_ascii=False)
    return (
        re.sub(r"\{\n\s+\"(?:predicted|bytes|instructions)\"[^{}]*\}", lambda m: re.sub(r"\n\s*", " ", m[0]), text)
        + "\n"
    )


@functools.cache
def missing() -> str:
    """Reason why counters can't be read on this machine; empty if they can."""
    from cugen.runtime.gpu import available

    return available() or ("" if shutil.which("ncu") else "Nsight Compute (ncu) is not on PATH")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    capturing = commands.add_parser("capture")
    capturing.add_argument("folder", type=Path)
    capturing.add_argument("names", nargs="*")
    comparing = commands.add_parser("compare")
    comparing.add_argument("folder", type=Path)
    comparing.add_argument("output", type=Path, nargs="?")
    playing = commands.add_parser("play")
    playing.add_argument("specs", type=Path)
    playing.add_argument("names", nargs="*")
    for command in (capturing, comparing):
        command.add_argument(
            "--specs", type=Path, default=data_folder("specs"), help="folder of specs (default: the gallery)"
        )
    options = parser.parse_args()
    if options.command == "play":
        play(options.specs, tuple(options.names))
        return 0
    if options.command == "capture":
        if reason := missing():
            raise SystemExit(f"no counters can be read here: {reason}")
        capture(options.folder, options.specs, tuple(options.names))
        return 0
    return 1 if compare(options.folder, options.specs, options.output) else 0


if __name__ == "__main__":
    sys.exit(main())
