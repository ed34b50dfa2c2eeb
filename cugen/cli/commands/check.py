"""Check kernels against the limits of their specs: every access with its verdict, and exit status 1 if a limit is
exceeded. Nothing runs, and nothing is compiled unless a limit on registers, local memory or divergence
requires it. With `--diff OLD`, compare them with other kernels instead: exit status 1 if something is worse."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cugen.cli.checked import Checked, Outcome
from cugen.cli.checking import OF_REGISTERS, analysed, check_files
from cugen.cli.failures import DONE, NO, WRONG_INPUT, wrong_call
from cugen.cli.specs import add_lock_options, add_options, baseline_of, baselines, kernels_of, refuse, with_locks
from cugen.cli.text.terminal import note, progress

FORMATS = ("text", "json", "github", "sarif")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="spec file")
    parser.add_argument("--kernel", metavar="NAME", help="check only this kernel")
    parser.add_argument(
        "--diff",
        metavar="OLD",
        help="compare with OLD, access by access: a spec file or SPEC:KERNEL, as SPEC here may be, too, or a lock file "
        "(OLD.lock), for the same kernels with its schedules",
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
    outcome = check_files(args)
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
    from cugen.cli.text.check_diff import diff_json, diff_text

    if args.format not in ("text", "json"):
        raise wrong_call(f"`--diff` has no `--format {args.format}`", "choose text or json")
    if args.kernel and len(args.specs) > 1:
        raise wrong_call("`--kernel` chooses a kernel of one spec", "write SPEC:KERNEL")
    given = [spec for text in dict.fromkeys(args.specs) for spec in kernels_of(_with_kernel(text, args), args)]
    new, old = with_locks(given, args), baselines(args.diff, given, args)
    names = [spec.kernel for spec in old]
    pairs = [(old[baseline_of(spec.kernel, len(new), names, args.diff)], spec) for spec in new]
    comparisons = [
        compare(*(analysed(spec, args, compiles=True).compared for spec in pair))
        for pair in progress(pairs, len(pairs), "comparing", quiet=args.quiet)
    ]
    print(diff_json(comparisons) if args.format == "json" else diff_text(comparisons, quiet=args.quiet))
    return NO if any(comparison.is_worse for comparison in comparisons) else DONE


def _with_kernel(text: str, args: argparse.Namespace) -> str:
    return f"{text}:{args.kernel}" if args.kernel else text


def _unknown_registers(checked: Checked) -> Sequence[str]:
    if not checked.kernel.spec.check.is_set(*OF_REGISTERS) or checked.resources.compiler:
        return ()
    return [
        f"{checked.kernel.name}: occupancy without registers, by threads and shared memory alone: "
        f"{checked.resources.reason}"
    ]
