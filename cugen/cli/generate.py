"""Write <stem>.cu, <stem>.h and <stem>.json for each kernel of the specs. Files that are current are left alone."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import DONE, NO, files_of_the_user, wrong_call
from cugen.cli.specs import add_options, load_files, refuse
from cugen.cli.terminal import note, progress
from cugen.emit import files
from cugen.emit.inputs import input_files, input_hash

if TYPE_CHECKING:
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec

_CHUNKS_PER_JOB = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="+", help="a spec's file")
    parser.add_argument("-o", "--output", metavar="DIR", default=".", type=Path, help="where to write (default: here)")
    add_options(parser)
    parser.add_argument("--depfile", metavar="FILE", type=Path, help="write what the files depend on, as a Make rule")
    parser.add_argument(
        "--write",
        choices=("if-changed", "always"),
        default="if-changed",
        help="leave files whose bytes would be the same (default), or write them all",
    )
    parser.add_argument("--jobs", metavar="N", type=_positive, default=1, help="processes for several kernels")
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--check", action="store_true", help="write nothing; print how the files differ and exit 1 where they do"
    )
    only.add_argument("--list", action="store_true", help="write nothing; print the files that would be made")


def execute(args: argparse.Namespace) -> int:
    specs = load_files(args.specs, args)
    _refuse_equal_stems(specs)
    outputs = [path for spec in specs for path in files.paths(args.output, spec.kernel)]
    if args.list:
        print("\n".join(map(str, outputs)))
        return DONE
    # A gate doesn't trust the hashes in the files that it checks.
    every = args.check or args.write == "always"
    wanted = [s for s in specs if every or not files.is_current(args.output, s.kernel, input_hash(s))]
    texts = _generate_all(wanted, args)
    if args.check:
        return _check(texts, args)
    with files_of_the_user():
        for made in texts:
            for path in files.write(args.output, made, always=args.write == "always"):
                if not args.quiet:
                    print(f"wrote {path}")
        if args.depfile:
            _write_depfile(args.depfile, outputs, specs)
    if not wanted:
        note(f"{len(specs)} kernel{'s' * (len(specs) > 1)} up to date", quiet=args.quiet)
    return DONE


def _refuse_equal_stems(specs: Sequence[Spec]) -> None:
    first: dict[str, Spec] = {}
    for spec in specs:
        if spec.kernel in first:
            one, other = first[spec.kernel].dependencies[0], spec.dependencies[0]
            raise wrong_call(
                f"two kernels are called `{spec.kernel}`: in {one} and in {other}",
                "give one of them another name, or generate them into different folders",
            )
        first[spec.kernel] = spec


def _generate_all(specs: Sequence[Spec], args: argparse.Namespace) -> list[files.Texts]:
    """The texts of all kernels; Failure with every finding where one is refused."""
    made: list[files.Texts] = []
    findings: list[Diagnostic] = []
    for result in progress(_results(specs, args.jobs), len(specs), "generating", quiet=args.quiet):
        if isinstance(result, files.Texts):
            made.append(result)
        else:
            findings += result
    refuse(findings)
    return made


def _results(specs: Sequence[Spec], jobs: int) -> Iterator[files.Texts | tuple[Diagnostic, ...]]:
    if jobs == 1 or len(specs) < 2:
        yield from map(_generate, specs)
        return
    from concurrent.futures import ProcessPoolExecutor

    chunk = max(1, len(specs) // (jobs * _CHUNKS_PER_JOB))
    with ProcessPoolExecutor(min(jobs, len(specs))) as pool:
        yield from pool.map(_generate, specs, chunksize=chunk)


def _generate(spec: Spec) -> files.Texts | tuple[Diagnostic, ...]:
    """The texts, or why there are none; an exception of ours wouldn't survive the way between processes."""
    from cugen.kernel import generate
    from cugen.spec.diagnostics import SpecError

    try:
        kernel = generate(spec)
    except SpecError as error:
        return error.diagnostics
    return files.Texts(spec.kernel, kernel.source, kernel.header, kernel.manifest.to_json())


def _check(texts: Sequence[files.Texts], args: argparse.Namespace) -> int:
    found = [difference for made in texts for difference in files.differences(args.output, made)]
    for difference in found:
        sys.stdout.write(difference.diff)
        note(f"{difference.path}: {difference.state}", quiet=args.quiet)
    if found:
        note("`cugen generate` writes them anew", quiet=args.quiet)
        return NO
    note(f"{len(texts)} kernel{'s' * (len(texts) > 1)} up to date", quiet=args.quiet)
    return DONE


def _write_depfile(path: Path, outputs: Sequence[Path], specs: Sequence[Spec]) -> None:
    try:
        rule = files.make_rule(outputs, (file for spec in specs for file in input_files(spec)))
    except ValueError as error:
        raise wrong_call(str(error)) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, rule.encode())


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, not {text}")
    return number
