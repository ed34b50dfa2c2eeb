"""Result of a run: as the object of `--json`, and as text from that object."""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from cugen.cli.text.terminal import paint
from cugen.cli.values import Value, plain

if TYPE_CHECKING:
    from cugen.cli.resources import Resources
    from cugen.kernel import Kernel
    from cugen.runtime.devices import Choice
    from cugen.runtime.verify import Run

Content = dict[str, Any]
_CONTEXT_LINES = 2  # lines of the .cu before and after the line of a fault
_LABEL_WIDTH = 11  # characters


@dataclass(frozen=True, slots=True)
class Numbers:
    """The dynamic params and the scalars of a run."""

    params: tuple[Value, ...]
    scalars: tuple[Value, ...]


def content(
    kernel: Kernel,
    numbers: Numbers,
    choice: Choice,
    run: Run,
    resources: Resources | None,
    args: argparse.Namespace,
) -> Content:
    """Object of `--json`. Times are in milliseconds; unknown and non-finite values are null. `grid`, `block`,
    `shared_bytes` and `registers` belong to the first launch. `resources`: of a compiler, if the device has none."""
    outcome, verification = run.outcome, run.verification
    is_refused = args.nan == "error" and bool(verification.nonfinite)
    launches = _launches(kernel, plain(numbers.params), run, resources)
    return {
        "kernel": kernel.name,
        "device": choice.device.name,
        "device_reason": choice.reason,
        "target": _target(kernel, choice),
        **{key: launches[0][key] for key in ("grid", "block", "shared_bytes", "registers")},
        "launches": launches,
        "registers_reason": resources.reason if resources else "",
        "passed": verification.passed and not is_refused,
        "checked": verification.checked,
        "max_abs_error": _finite(verification.max_abs_error),
        "max_rel_error": _finite(verification.max_rel_error),
        "tolerance": _finite(verification.tolerance),
        "worst": str(verification.worst) if verification.worst else None,
        "messages": list(verification.messages),
        "nonfinite": [asdict(counts) for counts in verification.nonfinite],
        "faults": [
            {"kind": f.kind, "message": f.message, "line": f.line, "source": quoted(kernel.source, f.line)}
            for f in outcome.faults
        ],
        "time_ms": statistics.median(outcome.times_ms) if outcome.times_ms else None,
        "repeat": len(outcome.times_ms),
        "compile_ms": outcome.compile_ms,
        "seed": args.seed,
        "dynamic_params": [asdict(value) for value in numbers.params],
        "scalars": [asdict(value) for value in numbers.scalars],
        "inputs": {item.name: item.value for item in args.inputs},
    }


def text(content: Content, *, quiet: bool) -> str:
    """Text of a run: the verdict, then its details."""
    passed = content["passed"]
    verdict = paint("PASSED", "green", sys.stdout) if passed else paint("FAILED", "red", sys.stdout)
    reason = f" (no GPU: {content['device_reason']})" if content["device_reason"] else ""
    head = f"{content['kernel']}: {verdict} on the {content['device']}{reason}"
    if quiet and passed:
        return head
    rows = [("target", content["target"])]
    rows += [("launch", _launch_text(launch)) for launch in content["launches"]]
    if content["registers_reason"]:
        rows.append(("registers", f"unknown: {content['registers_reason']}"))
    rows.append(("time", _time_text(content)))
    given = ", ".join(f"{name} from {file}" for name, file in content["inputs"].items())
    rows.append(("inputs", (f"{given}; others " if given else "") + f"random (seed {content['seed']})"))
    rows += [("params", values_text(content["dynamic_params"])), ("scalars", values_text(content["scalars"]))]
    rows = [(label, value) for label, value in rows if value]
    rows.append(("checked", f"{content['checked']} of the outputs' elements against the NumPy reference"))
    rows.append(("error", _error_text(content)))
    rows += [("not finite", _counts_text(counts)) for counts in content["nonfinite"]]
    if content["worst"]:
        rows.append(("worst", content["worst"]))
    lines = [head, *(f"  {label:<{_LABEL_WIDTH}}{value}" for label, value in rows)]
    lines += [f"  {paint(message, 'red', sys.stdout)}" for message in content["messages"]]
    for fault in content["faults"]:
        lines += [f"  {line}" for line in _fault_lines(content["kernel"], fault)]
    return "\n".join(lines)


def nonfinite_finding(content: Content, nan: str) -> str:
    """Finding on NaN and infinities that the reference has too: a warning, or an error with `--nan error`."""
    from cugen.abi.codes import NOT_FINITE

    severity = "error" if nan == "error" else "warning"
    return "\n".join(
        (
            f"{severity}[{NOT_FINITE}]: {content['kernel']}: results are not finite, and neither is the reference",
            *(f"  = note: {_counts_text(counts)}" for counts in content["nonfinite"]),
            "  = help: give inputs for which all results are finite: `--input NAME=FILE`",
            f"  = explain: cugen explain {NOT_FINITE}",
        )
    )


def _counts_text(counts: Mapping[str, Any]) -> str:
    return (
        f"{counts['array']}: {counts['nan']} NaN and {counts['inf']} infinities in {counts['compared']} elements; "
        f"reference: {counts['reference_nan']} and {counts['reference_inf']}"
    )


def values_text(values: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(str(Value(**value)) for value in values)


def quoted(source: str, line: int) -> list[str]:
    """Lines of the .cu around `line`, which is marked by `>`; none if it is unknown."""
    lines = source.splitlines()
    if not 0 < line <= len(lines):
        return []
    numbers = range(max(1, line - _CONTEXT_LINES), min(len(lines), line + _CONTEXT_LINES) + 1)
    width = len(str(numbers[-1]))
    return [f"{n:>{width}} {'>' if n == line else '|'} {lines[n - 1]}".rstrip() for n in numbers]


def _launches(
    kernel: Kernel, params: Mapping[str, int], run: Run, resources: Resources | None
) -> list[dict[str, object]]:
    from cugen.abi.sizes import evaluate_all

    known = {**kernel.manifest.params, **params}
    registers = {name: compiled.registers for name, compiled in resources.kernels.items()} if resources else {}
    spills = {n: f.spill_stores + f.spill_loads for n, f in resources.kernels.items()} if resources else {}
    registers.update(run.outcome.registers)
    spills.update(run.outcome.spill_bytes)
    return [
        {
            "kernel": launch.kernel,
            "grid": list(evaluate_all(launch.grid, known)),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes + launch.dynamic_shared_bytes,
            "registers": registers.get(launch.kernel),
            "spill_bytes": spills.get(launch.kernel),
        }
        for launch in kernel.manifest.launches
    ]


def _target(kernel: Kernel, choice: Choice) -> str:
    """Architecture that the code was compiled for; on the CPU, the target that it was generated for."""
    if choice.device.name != "gpu":
        return kernel.manifest.target
    from cugen.runtime.cuda.libcuda import driver
    from cugen.runtime.gpu import target_for

    return target_for(kernel.manifest, driver().capability(0))


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def _launch_text(launch: Mapping[str, Any]) -> str:
    sizes = [" × ".join(map(str, launch[key])) for key in ("grid", "block")]
    parts = [f"grid {sizes[0]}", f"block {sizes[1]}", f"{launch['shared_bytes']} bytes of shared memory"]
    if launch["registers"] is not None:
        parts.append(f"{launch['registers']} registers")
    if launch["spill_bytes"]:
        parts.append(f"{launch['spill_bytes']} bytes of spills")
    return f"{launch['kernel']}: {', '.join(parts)}"


def _time_text(content: Content) -> str:
    took = "not measured" if content["time_ms"] is None else f"{content['time_ms']:.4g} ms"
    repeated = f" (median of {content['repeat']})" if content["repeat"] > 1 else ""
    return f"{took}{repeated}; compiled in {content['compile_ms']:.4g} ms"


def _error_text(content: Content) -> str:
    figures = [content[key] for key in ("max_abs_error", "max_rel_error", "tolerance")]
    absolute, relative, tolerance = ("not finite" if f is None else f"{f:.3g}" for f in figures)
    return f"{absolute} absolute, {relative} relative at most; rounding explains up to {tolerance}"


def _fault_lines(kernel: str, fault: Mapping[str, Any]) -> list[str]:
    if not fault["source"]:
        return []
    return [f"--> {kernel}.cu:{fault['line']}: {fault['kind']}", *fault["source"]]
