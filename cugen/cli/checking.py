"""The static analysis of the kernels of spec files, held against the limits of their specs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from cugen.cli.checked import Checked, Outcome
from cugen.cli.failures import CANNOT_HERE, OWN_FAULT, Failure
from cugen.cli.resources import Resources, resources_of
from cugen.cli.specs import dynamic_params, known_device_of, settings_of, warn, with_locks
from cugen.cli.text.terminal import progress

if TYPE_CHECKING:
    from cugen.kernel import Kernel
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec

OF_REGISTERS = ("occupancy", "waves", "roofline")  # limits whose figures depend on registers


def check_files(args: argparse.Namespace) -> Outcome:
    """Checks all kernels of the files `args.specs`; rejected specs give their findings."""
    from cugen.spec.diagnostics import SpecError

    specs: list[tuple[str, Spec]] = []
    checked: list[Checked] = []
    refused: list[Diagnostic] = []
    for file in dict.fromkeys(args.specs):
        try:
            specs += [(file, spec) for spec in with_locks(_load(file, args), args)]
        except SpecError as error:
            refused += error.diagnostics
    for file, spec in progress(specs, len(specs), "checking", quiet=args.quiet):
        try:
            checked.append(_check(spec, file, args))
        except SpecError as error:
            refused += error.diagnostics
    return Outcome(tuple(checked), tuple(refused))


def _load(file: str, args: argparse.Namespace) -> Sequence[Spec]:
    from cugen.spec.load import load, load_all

    if args.kernel:
        return (load(file, settings_of(args), kernel=args.kernel, target=args.target),)
    return load_all(file, settings_of(args), target=args.target)


def _check(spec: Spec, file: str, args: argparse.Namespace) -> Checked:
    from cugen.analysis.limits.advice import Advisor
    from cugen.analysis.limits.arithmetic_limits import arithmetic_findings
    from cugen.analysis.limits.gate import findings
    from cugen.schedule.planner import make_plan

    checked = analysed(spec, args, compiles=spec.check.is_set("spills", "local", *OF_REGISTERS))
    if spec.check.spills is not None and not checked.resources.compiler:
        _refuse_without_compiler(checked)
    params = checked.params
    advisor = Advisor(
        spec, make_plan, {p.name: params[p.name] for p in spec.params if p.is_dynamic and p.name in params}
    )
    excesses = [
        finding
        for launch, source in zip(checked.launches, checked.printed, strict=True)
        for finding in findings(spec, file, launch, source, advisor)
    ]
    return replace(checked, file=file, findings=(*excesses, *arithmetic_findings(spec, file)))


def analysed(spec: Spec, args: argparse.Namespace, *, compiles: bool) -> Checked:
    """A kernel with its launches; with what a compiler knows of them, if it `compiles`."""
    from cugen.analysis.launches.facts import facts
    from cugen.analysis.launches.local_memory import settled_accesses
    from cugen.analysis.limits.findings import Launch
    from cugen.analysis.verdicts.dynamic import analyze_any_size
    from cugen.cli.text.quoted_source import printed_launches
    from cugen.kernel import generate
    from cugen.kernel_report import settled_by_compiler
    from cugen.schedule.lock import refused_warning

    kernel = generate(spec)
    warn(refused_warning(kernel.spec), args)
    context = kernel.context
    params = _params(spec, args)
    values = {context.symbols[name].name: value for name, value in params.items()}
    open_ = {context.symbols[p.name].name: p.multiple_of for p in spec.params if p.name not in params}
    device = known_device_of(spec, args.device_name)
    resources = _compiled(kernel) if compiles else Resources({})
    is_reported = len(open_) == sum(param.is_dynamic for param in spec.params)  # else some have values of `--set`
    launches = []
    for n, made in enumerate(kernel.plan.kernels):
        report = kernel.reports[n] if is_reported else analyze_any_size(made, spec.target, values, open_)
        taken = resources.kernels.get(made.name)
        known = facts(made, context, spec.target, values, device=device, resources=taken, accesses=report.accesses)
        if spec.check.mixed_warps is not None:
            with _rejected_sources(kernel):
                known = settled_by_compiler(kernel, made, known)
        report = replace(report, accesses=settled_accesses(report.accesses, known.local))
        launches.append(Launch(made, report, known))
    return Checked(kernel, spec.file, params, tuple(launches), printed_launches(kernel), resources, ())


def _params(spec: Spec, args: argparse.Namespace) -> dict[str, int]:
    """Known params: those of the spec, and dynamic ones with a value of `--set`."""
    fixed = {param.name: param.value for param in spec.params if param.value is not None}
    return fixed | dynamic_params(spec, args)


def _compiled(kernel: Kernel) -> Resources:
    with _rejected_sources(kernel):
        return resources_of(kernel)


def _refuse_without_compiler(checked: Checked) -> NoReturn:
    from cugen.toolchain.codes import TOOL_MISSING

    name, reason = checked.kernel.name, checked.resources.reason
    raise Failure(f"error[{TOOL_MISSING}]: `check.spills` of {name} needs a CUDA compiler: {reason}", CANNOT_HERE)


@contextmanager
def _rejected_sources(kernel: Kernel) -> Iterator[None]:
    """Failure if the compiler rejects the source."""
    from cugen.toolchain.errors import CompileError
    from cugen.toolchain.failure import explain_failure

    try:
        yield
    except CompileError as error:
        raise Failure(explain_failure(error, kernel.source), OWN_FAULT) from error
