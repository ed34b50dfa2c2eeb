"""Find the smallest padding or swizzle that removes the bank conflicts of each shared tile, and print it as a patch of
the spec. The patched spec was planned, analysed and run, with correct results. Layouts of arrays with which accesses to
global memory move fewer sectors are proposed, with the sectors before and after."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import DONE, NO, OWN_FAULT, WRONG_INPUT, Failure, files_of_the_user
from cugen.cli.fixed import Fixed, Outcome
from cugen.cli.specs import add_options, dynamic_params, load_one_file, settings_of
from cugen.cli.text.terminal import note, progress
from cugen.cli.values import DEFAULT, SET, Value, plain

if TYPE_CHECKING:
    from cugen.analysis.limits.fixes import Fixes
    from cugen.runtime.devices import Choice
    from cugen.runtime.verify import Run
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.editing import RowLayout
    from cugen.spec.model import Spec

_DEFAULT_EXTENT = 64  # elements, of a dynamic param without a value or a default (heuristic)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", metavar="SPEC", help="spec file")
    parser.add_argument("--kernel", metavar="NAME", help="fix only this kernel and its variants")
    add_options(parser)
    parser.add_argument("--write", action="store_true", help="overwrite the file with the patched spec")
    parser.add_argument(
        "--device",
        choices=("auto", "gpu", "cpu"),
        default="auto",
        help="device that runs the patched kernel (default: auto)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def execute(args: argparse.Namespace) -> int:
    from cugen.cli.text.fix import fix_text, json_text

    chosen = [spec.kernel for spec in load_one_file(args)]
    path = Path(args.spec)
    with files_of_the_user():
        before = path.read_bytes().decode()
    outcome = _outcome(before, chosen, args)
    if args.write and outcome.after != before:
        from cugen.emit.files import write_atomically

        with files_of_the_user():
            # Writes through a symbolic link.
            write_atomically(path.resolve(), outcome.after.encode())
    printed = json_text(outcome) if args.json else fix_text(outcome, quiet=args.quiet)
    if printed:
        print(printed)
    return DONE if outcome.cured else NO


def _outcome(text: str, chosen: Sequence[str], args: argparse.Namespace) -> Outcome:
    from cugen.analysis.limits.fixes import find_fixes
    from cugen.schedule.planner import make_plan
    from cugen.spec.editing import CannotEdit, EditMismatch, kernels_by_document, rewrite
    from cugen.spec.load import load_text

    load = partial(
        load_text, file=args.spec, folder=Path(args.spec).parent, params=settings_of(args), target=args.target
    )
    specs = {spec.kernel: spec for spec in load(text)}
    fixes_by_document: list[Fixes] = []
    changes: dict[tuple[int, str], RowLayout] = {}
    documents = [
        (number, [specs[name] for name in names])
        for number, names in enumerate(kernels_by_document(text))
        if any(name in chosen for name in names)
    ]
    for number, document in progress(documents, len(documents), "searching", quiet=args.quiet):
        fixes_by_document.append(find_fixes(document, make_plan, _given(document, args)))
        changes |= {(number, fix.array): fix.rows for fix in fixes_by_document[-1].fixes}
    try:
        after, patched = rewrite(text, changes, load)
    except CannotEdit as error:
        wanted = ", ".join(f"`{rows}` for {array}" for (_, array), rows in changes.items())
        raise Failure(
            f"error: {args.spec}: {wanted} would help, but {error}\n  = help: edit the spec by hand", NO
        ) from error
    except EditMismatch as error:
        raise Failure(
            f"error: internal error of cugen: {error}\n  = help: please report it with the spec", OWN_FAULT
        ) from error
    return _verified(fixes_by_document, {spec.kernel: spec for spec in patched}, text, after, args)


def _verified(
    fixes_by_document: Sequence[Fixes], patched: Mapping[str, Spec], before: str, after: str, args: argparse.Namespace
) -> Outcome:
    """Fixes with a verified run of every changed kernel, and layouts that help what is left."""
    from cugen.analysis.limits.layouts import propose_layouts
    from cugen.schedule.planner import make_plan

    choice = None
    documents = []
    for fixes in progress(fixes_by_document, len(fixes_by_document), "verifying", quiet=args.quiet):
        specs = [patched[spec.kernel] for spec in fixes.specs]
        runs = {}
        if fixes.fixes:
            from cugen.runtime.devices import choose

            choice = choice or choose(args.device)
            runs = {spec.kernel: _run(spec, choice, args) for spec in specs}
        left = tuple(finding for spec in specs for finding in _left(spec, args))
        proposals = propose_layouts(specs, make_plan, _given(specs, args))
        documents.append(Fixed(fixes, runs, left, proposals))
    device = choice.device.name if choice else ""
    return Outcome(args.spec, tuple(documents), before, after, device, args.write and after != before)


def _run(spec: Spec, choice: Choice, args: argparse.Namespace) -> tuple[Run, tuple[Value, ...]]:
    """Runs a kernel and verifies it. Failure if its results are wrong."""
    from cugen.kernel import generate
    from cugen.runtime.verify import verify
    from cugen.toolchain.codes import COMPILE_FAILED
    from cugen.toolchain.errors import CompileError
    from cugen.toolchain.failure import explain_failure

    kernel, values = generate(spec), _run_values(spec, args)
    note(f"{kernel.name}: compiling and running on the {choice.device.name}", quiet=args.quiet)
    try:
        result = verify(spec, kernel.source, kernel.manifest, choice.device, params=plain(values))
    except CompileError as error:
        if error.code != COMPILE_FAILED:
            raise
        raise Failure(explain_failure(error, kernel.source), OWN_FAULT) from error
    if not result.verification.passed:
        wrong = "\n  ".join(result.verification.messages)
        raise Failure(f"error: {kernel.name} has wrong results with the new tile layout:\n  {wrong}", OWN_FAULT)
    return result, values


def _left(spec: Spec, args: argparse.Namespace) -> Sequence[Diagnostic]:
    """Remaining findings of the limits, without those on registers and spills, which need a compiler."""
    from cugen.analysis.launches.facts import facts
    from cugen.analysis.limits.findings import Launch
    from cugen.analysis.limits.gate import findings
    from cugen.analysis.verdicts.dynamic import analyze_any_size
    from cugen.cli.text.quoted_source import printed_launches
    from cugen.kernel import generate

    kernel = generate(spec)
    context = kernel.context
    params = {p.name: p.value for p in spec.params if p.value is not None} | _given([spec], args)
    values = {context.symbols[name].name: value for name, value in params.items()}
    open_ = {context.symbols[p.name].name: p.multiple_of for p in spec.params if p.name not in params}
    left: list[Diagnostic] = []
    for made, source in zip(kernel.plan.kernels, printed_launches(kernel), strict=True):
        report = analyze_any_size(made, spec.target, values, open_)
        known = facts(made, context, spec.target, values, accesses=report.accesses)
        left += [finding.diagnostic for finding in findings(spec, args.spec, Launch(made, report, known), source)]
    return left


def _given(specs: Sequence[Spec], args: argparse.Namespace) -> dict[str, int]:
    """Values of dynamic params from `--set`."""
    return {name: value for spec in specs for name, value in dynamic_params(spec, args).items()}


def _run_values(spec: Spec, args: argparse.Namespace) -> tuple[Value, ...]:
    """Values of all dynamic params for a run: those of `--set`, else defaults, else chosen ones."""
    from cugen.spec.resolve.param_expressions import holds

    given = _given([spec], args)
    usual = {
        p.name: min(p.maximum // p.multiple_of, -(-max(p.minimum, _DEFAULT_EXTENT) // p.multiple_of)) * p.multiple_of
        for p in spec.params
        if p.is_dynamic
    }
    defaults = {p.name: p.default for p in spec.params if p.default is not None}
    values = usual | defaults | given
    known = {p.name: p.value for p in spec.params if p.value is not None} | values
    broken = next((r.text for r in spec.require if not holds(r.condition, known)), None)
    if broken is not None:
        tried = ", ".join(f"{name}={value}" for name, value in values.items())
        raise Failure(
            f"error: {spec.kernel} can't be run with {tried}: `{broken}` doesn't hold\n"
            "  = help: give the params values with `--set`",
            WRONG_INPUT,
        )
    origins = dict.fromkeys(usual, "chosen") | dict.fromkeys(defaults, DEFAULT) | dict.fromkeys(given, SET)
    return tuple(Value(name, value, origins[name]) for name, value in values.items())
