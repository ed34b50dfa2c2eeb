"""The static analysis of the kernels of spec files, held against the limits of their specs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from cugen.cli.checked import Checked, Outcome
from cugen.cli.failures import CANNOT_HERE, OWN_FAULT, Failure
from cugen.cli.resources import Resources, resources_of
from cugen.cli.specs import dynamic_params, settings_of, with_locks
from cugen.cli.text.terminal import progress

if TYPE_CHECKING:
    from cugen.kernel import Kernel
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec


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
    from cugen.analysis.launches.facts import facts
    from cugen.analysis.launches.local_memory import settled_accesses
    from cugen.analysis.limits.advice import Advisor
    from cugen.analysis.limits.gate import Launch, findings
    from cugen.analysis.verdicts.dynamic import analyze_any_size
    from cugen.cli.text.quoted_source import printed_launches
    from cugen.kernel import generate
    from cugen.kernel_report import settled_by_compiler
    from cugen.schedule.planner import make_plan

    kernel = generate(spec)
    context = kernel.context
    params = _params(spec, args)
    values = {context.symbols[name].name: value for name, value in params.items()}
    open_ = {context.symbols[p.name].name: p.multiple_of for p in spec.params if p.name not in params}
    resources = _resources(kernel)
    is_reported = len(open_) == sum(param.is_dynamic for param in spec.params)  # else some have values of `--set`
    launches = []
    for n, made in enumerate(kernel.plan.kernels):
        report = kernel.reports[n] if is_reported else analyze_any_size(made, spec.target, values, open_)
        taken = resources.kernels.get(made.name)
        known = facts(made, context, spec.target, values, resources=taken, accesses=report.accesses)
        if spec.check.mixed_warps is not None:
            with _rejected_sources(kernel):
                known = settled_by_compiler(kernel, made, known)
        report = replace(report, accesses=settled_accesses(report.accesses, known.local))
        launches.append(Launch(made, report, known))
    printed = printed_launches(kernel)
    advisor = Advisor(
        spec, make_plan, {p.name: params[p.name] for p in spec.params if p.is_dynamic and p.name in params}
    )
    excesses = [
        finding
        for launch, source in zip(launches, printed, strict=True)
        for finding in findings(spec, file, launch, source, advisor)
    ]
    return Checked(kernel, file, params, tuple(launches), printed, resources, tuple(excesses))


def _params(spec: Spec, args: argparse.Namespace) -> dict[str, int]:
    """Known params: those of the spec, and dynamic ones with a value of `--set`."""
    fixed = {param.name: param.value for param in spec.params if param.value is not None}
    return fixed | dynamic_params(spec, args)


def _resources(kernel: Kernel) -> Resources:
    """Compiled resources, if a limit requires them. Failure if no compiler is installed for a limit on spills."""
    from cugen.toolchain.codes import TOOL_MISSING

    check = kernel.spec.check
    if check.spills is None and check.local is None and check.occupancy is None:
        return Resources({})
    with _rejected_sources(kernel):
        resources = resources_of(kernel)
    if check.spills is not None and not resources.compiler:
        raise Failure(
            f"error[{TOOL_MISSING}]: `check.spills` of {kernel.name} needs a CUDA compiler: {resources.reason}",
            CANNOT_HERE,
        )
    return resources


@contextmanager
def _rejected_sources(kernel: Kernel) -> Iterator[None]:
    """Failure if the compiler rejects the source."""
    from cugen.toolchain.errors import CompileError
    from cugen.toolchain.failure import explain_failure

    try:
        yield
    except CompileError as error:
        raise Failure(explain_failure(error, kernel.source), OWN_FAULT) from error
