"""From arguments to specs: the options that every command with a spec has."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import files_of_the_user, refused, wrong_call
from cugen.cli.text.terminal import note, paint_findings, progress

if TYPE_CHECKING:
    from cugen.emit.overrides import Templates
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec
    from cugen.spec.resolve.keys.scope import Setting

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=VALUE` of an option."""

    name: str
    value: str


def assignment(text: str) -> Assignment:
    """For argparse."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return Assignment(name, value)


def add_options(parser: argparse.ArgumentParser) -> None:
    """`--target` and `--set`."""
    parser.add_argument("--target", help="such as sm_90; overrides the spec's")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=assignment,
        dest="settings",
        help="set a param or scalar, such as M=64; may be repeated",
    )


def add_lock_options(parser: argparse.ArgumentParser) -> None:
    """`--lock` and `--device-name`."""
    parser.add_argument(
        "--lock",
        metavar="FILE",
        help="take the schedules that `cugen tune` found from this file (default: cugen.lock beside the spec)",
    )
    parser.add_argument(
        "--device-name",
        metavar="NAME",
        default="",
        help='whose schedules, such as "NVIDIA H200" (default: the first of the target\'s in the file)',
    )


def add_template_option(parser: argparse.ArgumentParser) -> None:
    """`--templates`."""
    parser.add_argument(
        "--templates",
        metavar="DIR",
        help="take families' templates that are in this folder, such as gemm.cu.j2, in place of the package's",
    )


def templates_of(args: argparse.Namespace) -> Templates:
    """The templates of `--templates`. Failure for a folder or a file that can't be used."""
    if args.templates is None:
        return ()
    from cugen.emit.overrides import TemplateError, read_templates

    try:
        with files_of_the_user():
            return read_templates(args.templates)
    except TemplateError as error:
        raise wrong_call(f"`--templates {args.templates}`: {error}") from None


def settings_of(args: argparse.Namespace) -> dict[str, Setting]:
    """What `--set` asks for."""
    settings: dict[str, Setting] = {}
    for item in unique(args.settings, "--set"):
        settings[item.name] = _number(item)
    return settings


def unique(items: Sequence[Assignment], option: str) -> Sequence[Assignment]:
    """The items, if each name stands once."""
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise wrong_call(f"`{option} {item.name}=…` stands twice")
        seen.add(item.name)
    return items


def load_files(files: Iterable[str], args: argparse.Namespace) -> tuple[Spec, ...]:
    """All kernels of all files, in order. Failure with every file's findings where one is refused."""
    from cugen.spec.diagnostics import SpecError
    from cugen.spec.load import load_all

    settings = settings_of(args)
    specs: list[Spec] = []
    findings: list[Diagnostic] = []
    unique_files = tuple(dict.fromkeys(files))
    for file in progress(unique_files, len(unique_files), "reading", quiet=args.quiet):
        try:
            specs += load_all(file, settings, target=args.target)
        except SpecError as error:
            findings += error.diagnostics
    refuse(findings)
    return tuple(specs)


def load_one_file(args: argparse.Namespace) -> tuple[Spec, ...]:
    """The kernels of the file `args.spec`: the one that `--kernel` names, else all."""
    from cugen.spec.load import load, load_all

    if args.kernel:
        return (load(args.spec, settings_of(args), kernel=args.kernel, target=args.target),)
    return load_all(args.spec, settings_of(args), target=args.target)


def lock_of(spec_file: str, args: argparse.Namespace) -> str | None:
    """The lock file of a spec: the one that the call names, else the one beside it, where there is one."""
    from cugen.schedule.lock import NAME

    default_lock = Path(spec_file).parent / NAME
    return args.lock or (str(default_lock) if default_lock.is_file() else None)


def with_locks(specs: Sequence[Spec], args: argparse.Namespace) -> tuple[Spec, ...]:
    """The specs with the schedules of their lock files where they are silent; says what somebody who expects that
    should know. Failure where a lock file is broken."""
    from cugen.schedule import lock
    from cugen.spec.diagnostics import SpecError

    files: dict[str, lock.Lock] = {}
    tuned_specs: list[Spec] = []
    try:
        for spec in specs:
            name = lock_of(spec.dependencies[0], args)
            if name is None:
                tuned_specs.append(spec)
                continue
            if name not in files:
                files[name] = lock.read(name)
            warn(lock.warnings(spec, files[name]), args)
            tuned_specs.append(lock.apply(spec, files[name], args.device_name))
    except SpecError as error:
        refuse(error.diagnostics)
    return tuple(tuned_specs)


def warn(findings: Iterable[Diagnostic], args: argparse.Namespace) -> None:
    """Findings that refuse nothing, to standard error."""
    for finding in findings:
        note(paint_findings(finding.render(gnu=args.gnu), sys.stderr), quiet=args.quiet)


def refuse(findings: Sequence[Diagnostic]) -> None:
    """Failure with all findings, where there are any."""
    if findings:
        raise refused(findings)


def _number(item: Assignment) -> Setting:
    if item.value in ("true", "false"):
        return item.value == "true"
    if _INTEGER.fullmatch(item.value):
        return int(item.value)
    try:
        return float(item.value)
    except ValueError:
        raise wrong_call(
            f"`--set {item.name}={item.value}`: `{item.value}` is no number", "give an integer, a decimal or true/false"
        ) from None
