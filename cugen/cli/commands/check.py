"""Check kernels against the limits of their specs: every access with its verdict, and exit status 1 if a limit is
exceeded. Nothing runs, and nothing is compiled unless a limit on registers, local memory or divergence
requires it."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cugen.cli.checked import Checked, Outcome
from cugen.cli.checking import check_files
from cugen.cli.failures import DONE, NO, WRONG_INPUT
from cugen.cli.specs import add_lock_options, add_options, refuse
from cugen.cli.text.terminal import note

FORMATS = ("text", "json", "github", "sarif")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="spec file")
    parser.add_argument("--kernel", metavar="NAME", help="check only this kernel")
    add_options(parser)
    add_lock_options(parser)
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="text (default), one JSON object, GitHub workflow annotations, or SARIF 2.1.0",
    )


def execute(args: argparse.Namespace) -> int:
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


def _unknown_registers(checked: Checked) -> Sequence[str]:
    if checked.kernel.spec.check.occupancy is None or checked.resources.compiler:
        return ()
    return [
        f"{checked.kernel.name}: occupancy without registers, by threads and shared memory alone: "
        f"{checked.resources.reason}"
    ]
