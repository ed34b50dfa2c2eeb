"""Explain a diagnostic code: the cause, a spec that causes it, and a corrected spec. For a spec file that has the
diagnostic, show where, and what cures it there."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import DONE, refused, wrong_call
from cugen.cli.text.layout import fit, paragraphs
from cugen.cli.text.terminal import has_colour, note, paint, paint_findings, show
from cugen.emit.resources import explanations
from cugen.spec.nearest import nearest

if TYPE_CHECKING:
    from cugen.cli.checked import Outcome
    from cugen.spec.diagnostics import Diagnostic

_INLINE_CODE = re.compile(r"`([^`]+)`")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PAGE_LINK = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(docs/[^)#]+)(?:#[^)]*)?\)")
_CODE_LINK = re.compile(r"\[(CG\d+)\]\(\1\.md\)")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code", metavar="CODE", nargs="?", help="diagnostic code such as CG1048 (default: list all codes)"
    )
    parser.add_argument("spec", metavar="SPEC", nargs="?", help="spec file whose own case is shown, with its cure")


def execute(args: argparse.Namespace) -> int:
    known = explanations()
    if args.code is None:
        for path in known.values():
            with path.open(encoding="utf-8") as file:
                show(file.readline().removeprefix("#").strip())
        return DONE
    code = _normal(args.code)
    if code not in known:
        if Path(args.code).is_file():
            raise wrong_call(
                f"`{args.code}` is a file, and a code comes first",
                f"`cugen check {args.code}` names codes; `cugen explain CODE {args.code}` shows one in this file",
            )
        similar = nearest(code, known)
        help = f"did you mean `{similar}`?" if similar else "`cugen explain` lists all codes with their titles"
        raise wrong_call(f"unknown code `{args.code}`", help)
    page = _without_links(known[code].read_text(encoding="utf-8"))
    if args.spec is not None:
        outcome, findings = _findings(args.spec)
        if cases := [finding for finding in findings if finding.code == code]:
            print(_styled(page.partition("\n## ")[0].rstrip()))
            print("\n".join(_cases(code, cases, outcome, args.spec)))
            return DONE
        if any(finding.code == "CG1001" for finding in findings):
            raise refused(findings, gnu=args.gnu)
        others = ", ".join(dict.fromkeys(finding.code for finding in findings))
        note(f"{args.spec} has no {code}" + (f", but {others}" if others else ""), quiet=args.quiet)
    print(_styled(page), end="")
    return DONE


def _findings(file: str) -> tuple[Outcome, list[Diagnostic]]:
    """All that `check` and `generate` say about a file."""
    from cugen.cli.checking import check_files
    from cugen.kernel_price import price_warnings
    from cugen.kernel_types import type_warnings
    from cugen.schedule.lock import refused_warning

    call = argparse.Namespace(
        specs=[file], kernel=None, settings=[], target=None, lock=None, device_name="", quiet=True, gnu=False
    )
    outcome = check_files(call)
    findings = list(outcome.diagnostics)
    for checked in outcome.kernels:
        kernel = checked.kernel
        findings += (*refused_warning(kernel.spec), *price_warnings(kernel), *type_warnings(kernel))
    return outcome, findings


def _cases(code: str, cases: Sequence[Diagnostic], outcome: Outcome, file: str) -> Iterator[str]:
    """The findings of a file with this code, then the cure of each."""
    from cugen.analysis.limits.codes import BANK_CONFLICTS

    yield _styled(f"\n## In {file}")
    for case in cases:
        finding, _, _ = replace(case, help="").render().rpartition("\n")  # without its line on this command
        yield f"\n{paint_findings(finding, sys.stdout)}"
    yield _styled("\n## The cure\n")
    cures = list(_layouts(outcome, file)) if code == BANK_CONFLICTS else []
    cures = cures or [f"line {case.span.line}: {case.help}" if case.span.line else case.help for case in cases]
    yield from (fit(f"- {cure}", sys.stdout) for cure in dict.fromkeys(cures))


def _layouts(outcome: Outcome, file: str) -> Iterator[str]:
    """The paddings and swizzles that remove bank conflicts."""
    from cugen.analysis.limits.fixes import find_fixes
    from cugen.schedule.planner import make_plan

    for checked in outcome.kernels:
        for fix in find_fixes([checked.kernel.spec], make_plan, {}).fixes:
            before, after = (sum(cost.wavefronts for cost in costs) for costs in zip(*fix.costs, strict=True))
            yield (
                f"`{fix.rows}` for {fix.array} of {checked.kernel.name}: {before:,} → {after:,} wavefronts; "
                f"`cugen fix {file} --write` verifies and writes it"
            )


def _without_links(page: str) -> str:
    """Markdown with the title of each link, and the page where it leads."""
    return _CODE_LINK.sub(r"\1", _PAGE_LINK.sub(r'"\1" in \2', page))


def _normal(code: str) -> str:
    """Normalises pasted codes to `CG1048`: `cg1048`, `1048`, `error[CG1048]:`, `warning[CG1048]`."""
    code = code.strip().upper().removeprefix("ERROR").removeprefix("WARNING").strip("[]: ")
    return f"CG{code}" if code.isdigit() else code


def _styled(text: str) -> str:
    """Markdown unchanged, or for a terminal: filled to its width, and coloured without marks."""
    text = paragraphs(text, sys.stdout)
    if not has_colour(sys.stdout):
        return text
    parts = (_code(part) if number % 2 else _prose(part) for number, part in enumerate(text.split("```")))
    return "".join(parts)


def _code(text: str) -> str:
    """What is between two fences, without the name of its language."""
    _, *lines = text.rstrip("\n").split("\n")
    return "\n".join(f"    {paint(line, 'green', sys.stdout)}" if line else "" for line in lines)


def _prose(text: str) -> str:
    """Headings in bold, and code in colours, also where a line ends in it."""
    text = _INLINE_CODE.sub(lambda code: paint(code[1], "green", sys.stdout), text)
    return _HEADING.sub(lambda heading: paint(heading[1], "bold", sys.stdout), text)
