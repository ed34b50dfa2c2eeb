"""Check kernels against the limits of their specs: every access with its verdict, and exit status 1 if a limit is
exceeded. Nothing runs, and nothing is compiled unless a limit on registers, local memory or divergence
requires it. With `--diff OLD`, compare them with other kernels instead: exit status 1 if something is worse."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from cugen.cli.checked import Checked, Outcome
from cugen.cli.failures import CANNOT_HERE, DONE, NO, OWN_FAULT, WRONG_INPUT, Failure, wrong_call
from cugen.cli.resources import Resources, resources_of
from cugen.cli.specs import add_lock_options, add_options, dynamic_params, refuse, settings_of, with_locks
from cugen.cli.text.terminal import note, progress

if TYPE_CHECKING:
    from cugen.kernel import Kernel
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec

_OF_REGISTERS = ("occupancy", "waves", "roofline")  # limits whose figures depend on registers
FORMATS = ("text", "json", "github", "sarif")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="spec file")
    parser.add_argument("--kernel", metavar="NAME", help="check only this kernel")
    parser.add_argument(
        "--diff",
        metavar="OLD",
        help="compare with OLD, a spec file or SPEC:KERNEL, access by access; here SPEC may be SPEC:KERNEL, too",
    )
    add_options(parser)
    add_lock_options(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text (default), one JSON object, GitHub workflow annotations, or SARIF 2.1.0",
    )


def execute(args: argparse.Namespace) -> int:
    if args.diff is not None:
        return _diff(args)
    outcome = _outcome(args)
    if args.format == "text":
        refuse(outcome.refused)
        for checked in outcome.kernels:
            for line in _unknown_registers(checked):
                note(line, quiet=args.quiet)
    text = _formatted(outcome, args)
    if text:
        print(text)
    if outcome.refused:
        return WRONG_INPUT
    return DONE if outcome.passed else NO


def _formatted(outcome: Outcome, args: argparse.Namespace) -> str:
    match args.format:
        case "json":
            from cugen.cli.text.check_json import json_text

            return json_text(outcome)
        case "github":
            from cugen.cli.text.check_github import github_text

            return github_text(outcome.diagnostics)
        case "sarif":
            from cugen.cli.text.check_sarif import sarif_text

            return sarif_text(outcome)
    from cugen.cli.text.check import check_text

    return check_text(outcome, quiet=args.quiet, gnu=args.gnu)


def _diff(args: argparse.Namespace) -> int:
    """Compares each kernel with that of `--diff`."""
    from cugen.analysis.launches.comparison import compare
    from cugen.cli.baselines import baseline_of, baseline_specs
    from cugen.cli.text.check_diff import diff_json, diff_text

    if args.format not in ("text", "json"):
        raise wrong_call(f"`--diff` has no `--format {args.format}`", "choose text or json")
    if args.kernel and len(args.specs) > 1:
        raise wrong_call("`--kernel` chooses a kernel of one spec", "write SPEC:KERNEL")
    given = [spec for text in dict.fromkeys(args.specs) for spec in baseline_specs(_with_kernel(text, args), args)]
    new, old = with_locks(given, args), with_locks(baseline_specs(args.diff, args), args)
    names = [spec.kernel for spec in old]
    pairs = [(old[baseline_of(spec.kernel, len(new), names, args.diff)], spec) for spec in new]
    comparisons = [
        compare(*(_analysed(spec, args, compiles=True).compared for spec in pair))
        for pair in progress(pairs, len(pairs), "comparing", quiet=args.quiet)
    ]
    print(diff_json(comparisons) if args.format == "json" else diff_text(comparisons, quiet=args.quiet))
    return NO if any(comparison.is_worse for comparison in comparisons) else DONE


def _with_kernel(text: str, args: argparse.Namespace) -> str:
    return f"{text}:{args.kernel}" if args.kernel else text


def _outcome(args: argparse.Namespace) -> Outcome:
    """Checks all kernels of all files; rejected specs give their findings."""
    from cugen.spec.diagnostics import SpecError

    checked: list[Checked] = []
    refused: list[Diagnostic] = []
    for file in dict.fromkeys(args.specs):
        try:
            for spec in with_locks(_load(file, args), args):
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

    checked = _analysed(spec, args, compiles=spec.check.is_set("spills", "local", *_OF_REGISTERS))
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


def _analysed(spec: Spec, args: argparse.Namespace, *, compiles: bool) -> Checked:
    """A kernel with its launches; with what a compiler knows of them, if it `compiles`."""
    from cugen.analysis.launches.facts import facts
    from cugen.analysis.launches.local_memory import settled_accesses
    from cugen.analysis.limits.findings import Launch
    from cugen.analysis.verdicts.dynamic import analyze_any_size
    from cugen.cli.text.quoted_source import printed_launches
    from cugen.kernel import generate
    from cugen.kernel_report import settled_by_compiler

    kernel = generate(spec)
    context = kernel.context
    params = _params(spec, args)
    values = {context.symbols[name].name: value for name, value in params.items()}
    open_ = {context.symbols[p.name].name: p.multiple_of for p in spec.params if p.name not in params}
    resources = _compiled(kernel) if compiles else Resources({})
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


def _unknown_registers(checked: Checked) -> Sequence[str]:
    if not checked.kernel.spec.check.is_set(*_OF_REGISTERS) or checked.resources.compiler:
        return ()
    return [
        f"{checked.kernel.name}: occupancy without registers, by threads and shared memory alone: "
        f"{checked.resources.reason}"
    ]
