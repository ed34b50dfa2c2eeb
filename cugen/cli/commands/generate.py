"""Write <stem>.cu, .h, .hpp and .json for each kernel of the specs, or machine code. Variants of one computation also
get a <name>.h and .hpp, whose launchers select one of them. Files that are up to date are not touched."""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.emission import Emission, embed_paths, emission, is_current_embed, program_path, umbrella_text
from cugen.cli.emission import add_arguments as add_emission
from cugen.cli.failures import DONE, NO, failure_of, files_of_the_user, wrong_call
from cugen.cli.numbers import positive
from cugen.cli.outlines import LOCK, Outline, OutlinedFile, OutlinedGroup, recall, record_location, remember
from cugen.cli.outputs import refuse_no_file, refuse_no_folder, refuse_unwritable
from cugen.cli.parallel.generation import Made, Work, generate_all
from cugen.cli.parallel.scheduler import add_scheduler_option
from cugen.cli.specs import (
    add_lock_options,
    add_options,
    add_template_option,
    load_files,
    templates_of,
    with_locks,
)
from cugen.cli.text.terminal import note, paint_findings
from cugen.emit import build_manifest, files
from cugen.emit.inputs import (
    REMARKS_MODES,
    input_files,
    input_hash,
    launch_input_hash,
    program_input_hash,
    shared_input_hash,
)
from cugen.emit.orphans import orphans

if TYPE_CHECKING:
    from cugen.emit.build_manifest import Built
    from cugen.emit.host.variants import Entry
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
    before = build_manifest.read(args.manifest) if args.manifest else {}
    current = {} if every else _recall_current(options, args, before)
    specs, groups = _load([file for file in dict.fromkeys(args.specs) if file not in current], args)
    kernels: list[Spec | Outline] = [*specs, *(kernel for outlined in current.values() for kernel in outlined.specs)]
    shared: list[Siblings | OutlinedGroup] = [*groups, *(g for outlined in current.values() for g in outlined.groups)]
    read.update(dict.fromkeys(Path(file) for kernel in kernels for file in kernel.dependencies))
    _refuse_equal_stems(kernels, shared)
    order = {file: position for position, file in enumerate(args.specs)}
    kernels.sort(key=lambda kernel: order[kernel.dependencies[0]])
    shared.sort(key=lambda group: order[group.specs[0].dependencies[0]])
    outputs = [path for kernel in kernels for path in options.paths(args.output, kernel.kernel)]
    for api in options.apis:
        outputs += [path for group in shared for path in files.header_paths(args.output, f"{group.name}{api.suffix}")]
        outputs += [args.output / f"{args.umbrella}{api.suffix}.h"] if args.umbrella else []
    launch_header = args.output / files.LAUNCH_HEADER
    _refuse_equal_files([*outputs, launch_header])
    if options.owns_launch_header:
        outputs.append(launch_header)
    if args.list:
        print("\n".join(map(str, outputs)))
        return DONE
    stale = [group for group in groups if every or not _are_current_headers(group, options, args)]
    needed = {spec.kernel for group in stale for spec in group.specs}
    wanted = [spec for spec in specs if every or spec.kernel in needed or not _is_current(spec, options, args, before)]
    specific = _load_specific([file for file in dict.fromkeys(args.specs) if file not in current], options, args)
    if wanted and not args.check:
        _refuse_unwritable_paths(args)
    generated = generate_all([Work(spec, tuple(specific[spec.kernel])) for spec in wanted], options, args)
    made, faults = generated.made, generated.faults
    if not made:
        generated.report()
    stale = [group for group in stale if not any(spec.kernel in faults for spec in group.specs)]
    texts = [result.texts for result in made]
    entries = {result.texts.stem: result.entry for result in made if result.entry}
    headers = _headers(stale, entries, options, args)
    if args.umbrella and not faults:
        headers += _umbrellas(options, kernels, shared, made, headers, args)
    others = [file for result in made for file in result.compiled]
    shared_files = _launch_header(launch_header, every) if options.has_launch_header else []
    if args.check:
        named = [*(kernel.kernel for kernel in kernels), *(group.name for group in shared)]
        possible = [path for stem in named for path in embed_paths(args.output, stem)]
        possible += [program_path(args.output, stem, kind) for stem in named for kind in files.PROGRAMS]
        possible += [file.path for file in shared_files]
        status = _check(texts, [*headers, *others, *shared_files], [*outputs, *possible], options, args)
        generated.report()
        return status
    with files_of_the_user():
        files.remove_abandoned(args.output)
        if args.depfile:  # before the outputs: whoever finds them up to date knows on what they depend
            _write_depfile(args.depfile, outputs, kernels)
        always = args.write == "always"
        always_shared = always and options.owns_launch_header
        written = chain(
            (path for file in shared_files for path in files.write_shared(file, always=always_shared)),
            (path for t in texts for path in files.write(args.output, t, always=always, suffixes=options.suffixes)),
            (path for file in (*headers, *others) for path in files.write_file(file, always=always)),
        )
        changed = False
        for path in written:
            changed = True
            if not args.quiet:
                print(f"wrote {path}")
        known = [kernel for kernel in kernels if kernel.kernel not in faults or kernel.kernel in before]
        if args.manifest and _write_manifest(known, made, before, options, args) and not args.quiet:
            print(f"wrote {args.manifest}")
    generated.report()
    if not changed:
        note(f"{_counted(kernels)} up to date", quiet=args.quiet)
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


def _recall_current(
    options: Emission, args: argparse.Namespace, before: Mapping[str, Built]
) -> dict[str, OutlinedFile]:
    """Spec files that needn't be parsed: their outline is cached, and (without `--list`) their outputs are current."""
    current: dict[str, OutlinedFile] = {}
    for file in dict.fromkeys(args.specs):
        outlined = recall(record_location(file, args))
        if outlined is None:
            continue
        on_disk = all(_is_current(kernel, options, args, before) for kernel in outlined.specs) and all(
            _are_current_headers(group, options, args) for group in outlined.groups
        )
        if args.list or on_disk:
            current[file] = outlined
    return current


def _load(spec_files: Sequence[str], args: argparse.Namespace) -> tuple[tuple[Spec, ...], tuple[Siblings, ...]]:
    """Loads the kernels of the files, and the groups that share a header. Failure if a spec is rejected."""
    if not spec_files:
        return (), ()
    from cugen.spec.siblings import siblings

    before = {file: record_location(file, args) for file in spec_files}
    specs = with_locks(load_files(spec_files, args), args)
    groups = siblings(specs)
    for file in spec_files:
        if record_location(file, args) == before[file]:  # unchanged while it was read
            specs_of_file = [spec for spec in specs if spec.dependencies[0] == file]
            remember(before[file], specs_of_file, [group for group in groups if group.specs[0].dependencies[0] == file])
    return specs, groups


def _load_specific(
    spec_files: Sequence[str], options: Emission, args: argparse.Namespace
) -> Mapping[str, Sequence[Spec]]:
    """The kernels of the files for each of the architecture-specific targets among several, by name."""
    specs: defaultdict[str, list[Spec]] = defaultdict(list)
    for target in options.specific:
        with_target = argparse.Namespace(**{**vars(args), "target": target})
        for spec in with_locks(load_files(spec_files, with_target), with_target):
            specs[spec.kernel].append(spec)
    return specs


def _is_current(
    kernel: Spec | Outline, options: Emission, args: argparse.Namespace, before: Mapping[str, Built]
) -> bool:
    """Whether the files of a kernel are; by the manifest of the build before, if there is one."""
    if args.manifest and not args.list:
        paths = options.paths(args.output, kernel.kernel)
        known = before.get(kernel.kernel)
        return known is not None and known.is_of(_build_inputs(kernel, options, args), paths, args.manifest.parent)
    expected = input_hash(kernel, remarks=args.remarks, templates=templates_of(args))
    sources = files.is_current if "cu" in options.kinds else files.is_current_manifest
    if not sources(args.output, kernel.kernel, expected):
        return False
    if "embed" in options.kinds and not is_current_embed(args.output, kernel.kernel, expected, options.targets):
        return False
    if not options.programs:
        return True
    stamp = program_input_hash(kernel, remarks=args.remarks, templates=templates_of(args))
    paths = [program_path(args.output, kernel.kernel, kind) for kind in options.programs]
    return all(files.is_current_text(path, stamp) for path in paths)


def _build_inputs(kernel: Spec | Outline, options: Emission, args: argparse.Namespace) -> str:
    """The hash of a kernel's inputs, with those of the compiler and of programs."""
    templates = templates_of(args)
    others = [*options.kinds, *options.targets, program_input_hash(kernel, remarks=args.remarks, templates=templates)]
    if options.is_rebuilt:
        from cugen.toolchain.cuda import compilers

        others += [f"{compiler.name} {compiler.version}" for compiler in compilers()[:1]]
    if options.specific:  # the lock file's entries for these targets count, too
        others += [_content(Path(args.lock or Path(kernel.dependencies[0]).parent / LOCK))]
    return build_manifest.inputs_of(input_hash(kernel, remarks=args.remarks, templates=templates), *others)


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _write_manifest(
    kernels: Sequence[Spec | Outline],
    made: Sequence[Made],
    before: Mapping[str, Built],
    options: Emission,
    args: argparse.Namespace,
) -> bool:
    """Writes the manifest of the build, in which kernels that weren't made stay. Whether it has changed."""
    folder, names = args.manifest.parent, {result.texts.stem for result in made}
    now: dict[str, Built] = {}
    for kernel in kernels:
        if kernel.kernel in names or kernel.kernel not in before:
            paths, inputs = options.paths(args.output, kernel.kernel), _build_inputs(kernel, options, args)
            now[kernel.kernel] = build_manifest.built(kernel.dependencies[0], inputs, paths, folder)
        else:
            now[kernel.kernel] = before[kernel.kernel]
    return bool(files.write_file(files.File(args.manifest, build_manifest.text(now).encode())))


def _are_current_headers(group: Siblings | OutlinedGroup, options: Emission, args: argparse.Namespace) -> bool:
    expected = shared_input_hash(group.specs, remarks=args.remarks, templates=templates_of(args))
    stems = [f"{group.name}{api.suffix}" for api in options.apis]
    paths = [path for stem in stems for path in files.header_paths(args.output, stem)]
    return all(files.is_current_text(path, expected) for path in paths)


def _refuse_equal_stems(specs: Sequence[Spec | Outline], groups: Sequence[Siblings | OutlinedGroup]) -> None:
    first: dict[str, Spec | Outline] = {}
    for spec in specs:
        if spec.kernel in first:
            first_path, second_path = first[spec.kernel].dependencies[0], spec.dependencies[0]
            raise wrong_call(
                f"duplicate kernel name `{spec.kernel}`: in {first_path} and in {second_path}",
                "give one of them another name, or generate them into different folders",
            )
        first[spec.kernel] = spec
    for group in groups:
        if group.name in first:
            first_path, second_path = first[group.name].dependencies[0], group.specs[0].dependencies[0]
            raise wrong_call(
                f"two files are called `{group.name}.h`: from {first_path}, and for the "
                f"variants `{group.specs[0].kernel}`, … "
                f"in {second_path}",
                "give one of the kernels another name, or generate them into different folders",
            )
        first[group.name] = group.specs[0]


def _refuse_equal_files(outputs: Sequence[Path]) -> None:
    seen: dict[Path, None] = {}
    for path in outputs:
        if path in seen:
            raise wrong_call(
                f"two files are called `{path.name}`",
                "give the kernel or the umbrella header another name, or generate them into different folders",
            )
        seen[path] = None


def _umbrellas(
    options: Emission,
    kernels: Sequence[Spec | Outline],
    groups: Sequence[Siblings | OutlinedGroup],
    made: Sequence[Made],
    headers: Sequence[files.File],
    args: argparse.Namespace,
) -> list[files.File]:
    """Umbrella headers. The description of each included header is its title, read from disk if it is current."""
    texts = {f"{result.texts.stem}.h": result.texts.header for result in made}
    texts |= {header.path.name: header.content.decode() for header in headers}
    umbrellas = []
    for api in options.apis:
        described = []
        for stem in [*(kernel.kernel for kernel in kernels), *(group.name for group in groups)]:
            path = args.output / f"{stem}{api.suffix}.h"
            text = texts.get(f"{stem}.h") or texts.get(path.name) or path.read_text()
            described.append((path.name, text))
        path = args.output / f"{args.umbrella}{api.suffix}.h"
        umbrellas.append(files.File(path, umbrella_text(path.name, described).encode()))
    return umbrellas


def _headers(
    groups: Sequence[Siblings], entries: Mapping[str, Entry], options: Emission, args: argparse.Namespace
) -> list[files.File]:
    """Headers shared by variants, all of which are among `entries`."""
    if not groups:
        return []
    from cugen.emit.host.variants import variants_headers

    headers = []
    for group in groups:
        stamp = shared_input_hash(group.specs, remarks=args.remarks, templates=templates_of(args))
        for api in options.apis:
            made = variants_headers(group, [entries[spec.kernel] for spec in group.specs], api)
            paths = files.header_paths(args.output, f"{group.name}{api.suffix}")
            for path, text in zip(paths, (made.header, made.typed_header), strict=True):
                headers.append(files.File(path, files.stamped(text, stamp).encode()))
    return headers


def _launch_header(path: Path, every: bool) -> list[files.File]:
    """cugen_launch.hpp, unless it is current."""
    if not every and files.is_current_text(path, launch_input_hash()):
        return []
    from cugen.emit.host.launch_header import launch_header

    return [files.File(path, launch_header().encode())]


def _check(
    texts: Sequence[files.Texts],
    others: Sequence[files.File],
    outputs: Sequence[Path],
    options: Emission,
    args: argparse.Namespace,
) -> int:
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
