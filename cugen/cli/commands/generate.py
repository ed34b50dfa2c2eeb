"""Write <stem>.cu, .h, .hpp and .json for each kernel of the specs, or machine code. Variants of one computation also
get a <name>.h and .hpp, whose launchers select one of them. Files that are up to date are not touched."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import DONE, NO, failure_of, files_of_the_user, wrong_call
from cugen.cli.generation.emission import Emission, embed_paths, emission, program_path
from cugen.cli.generation.emission import add_arguments as add_emission
from cugen.cli.generation.headers import launch_header, umbrella_headers, variants_headers
from cugen.cli.generation.kernels import Generated, Work, generate_all
from cugen.cli.generation.outlines import LOCK, Outline
from cugen.cli.generation.selection import Selection, load_specific, select
from cugen.cli.generation.up_to_date import UpToDate
from cugen.cli.numbers import positive
from cugen.cli.outputs import refuse_no_file, refuse_no_folder, refuse_unwritable
from cugen.cli.parallel.scheduler import add_scheduler_option
from cugen.cli.specs import add_lock_options, add_options, add_template_option
from cugen.cli.text.terminal import note, paint_findings
from cugen.emit import build_manifest, files
from cugen.emit.inputs import REMARKS_MODES, input_files
from cugen.emit.orphans import orphans

if TYPE_CHECKING:
    from cugen.spec.model import Spec
    from cugen.spec.siblings import Siblings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("specs", metavar="SPEC", nargs="*", help="spec file")
    parser.add_argument(
        "-o", "--output", metavar="DIR", default=".", type=Path, help="output folder (default: current folder)"
    )
    add_options(parser)
    add_lock_options(parser)
    add_emission(parser)
    parser.add_argument(
        "--depfile", metavar="FILE", type=Path, help="write the dependencies of the files as a Make rule"
    )
    parser.add_argument(
        "--manifest",
        metavar="FILE",
        type=Path,
        help="write one JSON file with the hashes of all kernels' files; the next call makes machine code only of what "
        "has changed",
    )
    parser.add_argument(
        "--write",
        choices=("if-changed", "always"),
        default="if-changed",
        help="skip unchanged files (default), or write all files",
    )
    parser.add_argument(
        "--remarks",
        choices=REMARKS_MODES,
        default="worst",
        help="accesses with their cost beside them: those that are not ideal, with the others listed in the head "
        "(worst, default), all, or none, without analysis",
    )
    parser.add_argument(
        "--no-analysis", action="store_const", dest="remarks", const="none", help="same as --remarks none"
    )
    parser.add_argument("--jobs", metavar="N", type=positive, default=1, help="number of processes (default: 1)")
    add_scheduler_option(parser)
    add_template_option(parser)
    only = parser.add_mutually_exclusive_group()
    only.add_argument(
        "--check", action="store_true", help="write nothing; print a diff of stale files, and exit 1 if there is one"
    )
    only.add_argument("--list", action="store_true", help="write nothing; print the paths of the files")
    only.add_argument(
        "--watch", action="store_true", help="generate again whenever a spec or a file of it changes, until Ctrl-C"
    )


def execute(args: argparse.Namespace) -> int:
    options = emission(args)
    if not args.specs and (options.kinds != ("launch",) or args.watch):
        raise wrong_call("no spec is given", "only `--emit launch` needs none")
    return _watch(options, args) if args.watch else _execute(options, args, {})


def _watch(options: Emission, args: argparse.Namespace) -> int:
    """Generates after each change of a spec, its tables, lock file and templates. Errors are printed."""
    from cugen.emit.watched import states, wait_for_change

    given = [Path(file) for file in args.specs]
    given += [Path(args.lock or file.parent / LOCK) for file in given]
    templates = [Path(args.templates)] if args.templates else []
    read: dict[Path, None] = {}
    try:
        while True:
            of_templates = [file for folder in templates for file in (folder, *sorted(folder.glob("*.j2")))]
            watched = list(dict.fromkeys((*given, *of_templates, *read)))
            before = states(watched)
            note("generating", quiet=args.quiet)
            try:
                _execute(options, args, read)
            except Exception as error:
                if (failure := failure_of(error, gnu=args.gnu)) is None:
                    raise
                note(paint_findings(failure.text, sys.stderr))
            if new := [file for file in read if file not in watched]:
                watched, before = [*watched, *new], (*before, *states(new))
            note("waiting for a change, or Ctrl-C", quiet=args.quiet)
            wait_for_change(watched, before)
    except KeyboardInterrupt:
        note("ended", quiet=args.quiet)
    return DONE


def _execute(options: Emission, args: argparse.Namespace, read: dict[Path, None]) -> int:
    """Generates or checks once. Adds the files that the specs name to `read`."""
    _refuse_wrong_paths(args)
    # `--check` doesn't trust the hashes in the files that it checks, and machine code has none but in a manifest.
    every = args.check or args.write == "always" or (options.is_rebuilt and not (args.list or args.manifest))
    existing = UpToDate(options, args, build_manifest.read(args.manifest) if args.manifest else {})
    selected = select({} if every else existing.recalled(), args)
    read.update(dict.fromkeys(Path(file) for kernel in selected.kernels for file in kernel.dependencies))
    outputs = selected.outputs(options, args)
    if args.list:
        print("\n".join(map(str, outputs)))
        return DONE
    stale = [group for group in selected.loaded_groups if every or not existing.has_headers(group)]
    needed = {spec.kernel for group in stale for spec in group.specs}
    wanted = [spec for spec in selected.specs if every or spec.kernel in needed or not existing.is_current(spec)]
    specific = load_specific(selected.loaded_files, options, args)
    if wanted and not args.check:
        _refuse_unwritable_paths(args)
    generated = generate_all([Work(spec, tuple(specific[spec.kernel])) for spec in wanted], options, args)
    if not generated.made:
        generated.report()
    others = _others(generated, stale, selected, options, args)
    header_path = args.output / files.LAUNCH_HEADER
    shared = launch_header(header_path, every=every) if options.has_launch_header else []
    if args.check:
        known = [*outputs, *_possible(selected.stems, args.output), *(file.path for file in shared)]
        status = _check(generated, [*others, *shared], known, options, args)
    else:
        status = _write(generated, others, shared, selected, outputs, existing)
    generated.report()
    return status


def _others(
    generated: Generated, stale: Sequence[Siblings], selected: Selection, options: Emission, args: argparse.Namespace
) -> list[files.File]:
    """The files beside those of single kernels' sources."""
    whole = [group for group in stale if not any(spec.kernel in generated.faults for spec in group.specs)]
    headers = variants_headers(whole, generated.made, options, args)
    if args.umbrella and not generated.faults:
        headers += umbrella_headers(selected.stems, generated.made, headers, options, args)
    return [*headers, *(file for result in generated.made for file in result.compiled)]


def _possible(stems: Sequence[str], folder: Path) -> Iterator[Path]:
    """Files of other calls, which belong to the specs, too."""
    for stem in stems:
        yield from embed_paths(folder, stem)
        yield from (program_path(folder, stem, kind) for kind in files.PROGRAMS)


def _write(
    generated: Generated,
    others: Sequence[files.File],
    shared: Sequence[files.File],
    selected: Selection,
    outputs: Sequence[Path],
    existing: UpToDate,
) -> int:
    options, args = existing.options, existing.args
    texts = [result.texts for result in generated.made]
    with files_of_the_user():
        files.remove_abandoned(args.output)
        if args.depfile:  # before the outputs: whoever finds them up to date knows on what they depend
            _write_depfile(args.depfile, outputs, selected.kernels)
        always = args.write == "always"
        always_shared = always and options.owns_launch_header
        written = chain(
            (path for file in shared for path in files.write_shared(file, always=always_shared)),
            (path for t in texts for path in files.write(args.output, t, always=always, suffixes=options.suffixes)),
            (path for file in others for path in files.write_file(file, always=always)),
        )
        changed = False
        for path in written:
            changed = True
            if not args.quiet:
                print(f"wrote {path}")
        if args.manifest:
            kept = [k for k in selected.kernels if k.kernel not in generated.faults or k.kernel in existing.before]
            if existing.write_manifest(kept, {text.stem for text in texts}) and not args.quiet:
                print(f"wrote {args.manifest}")
    if not changed and not generated.faults:
        note(f"{_counted(selected.kernels)} up to date", quiet=args.quiet)
    return DONE


def _refuse_wrong_paths(args: argparse.Namespace) -> None:
    refuse_no_folder("-o", args.output, args.output)
    for option, path in (("--manifest", args.manifest), ("--depfile", args.depfile)):
        if path is not None:
            refuse_no_file(option, path)


def _refuse_unwritable_paths(args: argparse.Namespace) -> None:
    refuse_unwritable("-o", args.output, args.output)
    for option, path in (("--manifest", args.manifest), ("--depfile", args.depfile)):
        if path is not None:
            refuse_unwritable(option, path, path.parent)


def _check(
    generated: Generated,
    others: Sequence[files.File],
    outputs: Sequence[Path],
    options: Emission,
    args: argparse.Namespace,
) -> int:
    texts = [result.texts for result in generated.made]
    with files_of_the_user():
        stale = [difference for made in texts for difference in files.differences(args.output, made, options.suffixes)]
        stale += [difference for file in others for difference in files.file_differences(file)]
    for file in others:
        if file.reserve:
            note(f"{file.path}: {file.reserve}", quiet=args.quiet)
    outlived = list(orphans(args.output, outputs, list(map(Path, args.specs)))) if args.specs else []
    for difference in (*stale, *outlived):
        sys.stdout.write(difference.diff)
        note(f"{difference.path}: {difference.state}", quiet=args.quiet)
    if stale:
        note("`cugen generate` rewrites them", quiet=args.quiet)
    if outlived:
        note("delete files that belong to no spec", quiet=args.quiet)
    if stale or outlived:
        return NO
    note(f"{_counted(texts)} up to date", quiet=args.quiet)
    return DONE


def _write_depfile(path: Path, outputs: Sequence[Path], specs: Sequence[Spec | Outline]) -> None:
    """Writes the Make rule. Its targets don't include the .hpp files of kernels, which are written along with the .h:
    Ninja refuses a target that the build file doesn't declare, and those written for 0.1 declare none."""
    targets = [output for output in outputs if output.suffix != ".hpp" or output.name == files.LAUNCH_HEADER]
    try:
        rule = files.make_rule(targets, input_files(specs))
    except ValueError as error:
        raise wrong_call(str(error)) from error
    path.parent.mkdir(parents=True, exist_ok=True)
    files.remove_abandoned(path.parent)
    files.write_atomically(path, rule.encode())


def _counted(kernels: Sequence[object]) -> str:
    return f"{len(kernels)} kernel{'s' * (len(kernels) > 1)}" if kernels else files.LAUNCH_HEADER
