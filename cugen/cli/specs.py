"""Options shared by the commands that read specs, and loading of the specs."""

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
    from cugen.machine import Device
    from cugen.spec.diagnostics import Diagnostic
    from cugen.spec.model import Spec
    from cugen.spec.resolve.keys.scope import Setting

_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Option value `NAME=VALUE`."""

    name: str
    value: str


def assignment(text: str) -> Assignment:
    """Parses `NAME=VALUE` for argparse."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, not {text!r}")
    return Assignment(name, value)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--target` and `--set`."""
    parser.add_argument("--target", help="target architecture such as sm_90; overrides the spec's")
    parser.add_argument(
        "--set",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=assignment,
        dest="settings",
        help="set a param or scalar, such as M=64; repeatable",
    )


def add_lock_options(parser: argparse.ArgumentParser) -> None:
    """Adds `--lock` and `--device-name`."""
    parser.add_argument(
        "--lock",
        metavar="FILE",
        help="lock file with schedules of `cugen tune` (default: cugen.lock in the spec's folder)",
    )
    parser.add_argument(
        "--device-name",
        metavar="NAME",
        default="",
        help='device whose schedules are used and that is analysed, such as "NVIDIA H200" '
        "(default: the first one in the file, and the target's)",
    )


def add_template_option(parser: argparse.ArgumentParser) -> None:
    """Adds `--templates`."""
    parser.add_argument(
        "--templates",
        metavar="DIR",
        help="folder of templates that replace those of the package, such as gemm.cu.j2",
    )


def templates_of(args: argparse.Namespace) -> Templates:
    """Templates of `--templates`. Failure for an unusable folder or file."""
    if args.templates is None:
        return ()
    from cugen.emit.overrides import TemplateError, read_templates

    try:
        with files_of_the_user():
            return read_templates(args.templates)
    except TemplateError as error:
        raise wrong_call(f"`--templates {args.templates}`: {error}") from None


def settings_of(args: argparse.Namespace) -> dict[str, Setting]:
    """Values of `--set`."""
    settings: dict[str, Setting] = {}
    for item in unique(args.settings, "--set"):
        settings[item.name] = _number(item)
    return settings


def unique(items: Sequence[Assignment], option: str) -> Sequence[Assignment]:
    """The items. Failure if a name is repeated."""
    seen: set[str] = set()
    for item in items:
        if item.name in seen:
            raise wrong_call(f"`{option} {item.name}=…` is given twice")
        seen.add(item.name)
    return items


def load_files(files: Iterable[str], args: argparse.Namespace) -> tuple[Spec, ...]:
    """Loads all kernels of all files, in order. Failure with the findings of all files if one is rejected."""
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


def baseline_of(kernel: str, kernels: int, baselines: Sequence[str], diff: str) -> int:
    """The position of the baseline with the name of a kernel, or of the only one if there is one kernel as well.
    Failure if there is none."""
    if kernels == len(baselines) == 1:
        return 0
    if kernel in baselines:
        return baselines.index(kernel)
    raise wrong_call(f"`--diff {diff}` has no kernel {kernel}", "name one: `--diff SPEC:KERNEL`")


def baselines(diff: str, specs: Sequence[Spec], args: argparse.Namespace) -> tuple[Spec, ...]:
    """The specs of `--diff`, with the schedules of their lock files: those of another file, or, if it is a lock file,
    `specs` with its schedules. Failure if it has none for one of them."""
    from cugen.schedule import lock
    from cugen.spec.diagnostics import SpecError

    if Path(diff).suffix != ".lock":
        return with_locks(kernels_of(diff, args), args)
    try:
        baseline = lock.read(diff)
    except SpecError as error:
        refuse(error.diagnostics)
    for spec in specs:
        if not any(args.device_name in ("", entry.device) for entry in baseline.of(spec)):
            raise wrong_call(
                f"`--diff {diff}` has no schedule of this version of {spec.kernel} for this target",
                "`git show REVISION:SPEC > old.yaml` writes a spec of then",
            )
    return tuple(lock.apply(spec, baseline, args.device_name) for spec in specs)


def kernels_of(text: str, args: argparse.Namespace) -> tuple[Spec, ...]:
    """The specs of `SPEC`, or the one kernel of `SPEC:KERNEL`."""
    file, kernel = file_and_kernel(text)
    if kernel is None:
        return load_files([file], args)
    from cugen.spec.load import load

    return (load(file, settings_of(args), kernel=kernel, target=args.target),)


def file_and_kernel(text: str) -> tuple[str, str | None]:
    """The parts of `SPEC` or `SPEC:KERNEL`."""
    file, colon, kernel = text.rpartition(":")
    return (file, kernel) if colon and not Path(text).exists() else (text, None)


def load_one_file(args: argparse.Namespace) -> tuple[Spec, ...]:
    """Loads the file `args.spec`: the kernel of `--kernel`, else all kernels."""
    from cugen.spec.load import load, load_all

    if args.kernel:
        return (load(args.spec, settings_of(args), kernel=args.kernel, target=args.target),)
    return load_all(args.spec, settings_of(args), target=args.target)


def for_device(specs: Sequence[Spec], capability: str, args: argparse.Namespace) -> tuple[Spec, ...]:
    """The specs, those without a target for the architecture-specific one of a device, which is noted.

    `capability` is the device's, such as `sm_90`; empty for the CPU."""
    chosen = tuple(spec.for_device(capability) for spec in specs)
    for name in sorted({after.target for before, after in zip(specs, chosen, strict=True) if after != before}):
        note(f"target: {name}, of this device (the spec names none)", quiet=args.quiet)
    return chosen


def dynamic_params(spec: Spec, args: argparse.Namespace) -> dict[str, int]:
    """Values of dynamic params from `--set`; others remain symbolic."""
    settings = settings_of(args)
    return {p.name: int(settings[p.name]) for p in spec.params if p.is_dynamic and p.name in settings}


def known_device_of(spec: Spec, name: str) -> Device | None:
    """The device of `--device-name`; None without one, or for one of the lock file whose rates are unknown. Failure for
    any other, and for one of another target."""
    from cugen.machine import UnknownDevice, device

    if not name:
        return None
    try:
        chosen = device(name)
    except UnknownDevice as error:
        if spec.tuned is not None and spec.tuned.device == name:
            return None
        raise wrong_call(f"`--device-name`: {error}") from None
    if not chosen.is_of(spec.target):
        message = f"`--device-name {name}`: {chosen.name} is {chosen.target}, the kernel is for {spec.target}"
        raise wrong_call(message, f"give `--target {chosen.target}`")
    return chosen


def lock_of(spec_file: str, args: argparse.Namespace) -> str | None:
    """Lock file of a spec: that of `--lock`, else the one in the spec's folder, if it exists."""
    from cugen.schedule.lock import NAME

    default_lock = Path(spec_file).parent / NAME
    return args.lock or (str(default_lock) if default_lock.is_file() else None)


def with_locks(specs: Sequence[Spec], args: argparse.Namespace) -> tuple[Spec, ...]:
    """The specs completed by the schedules of their lock files. Warns about entries that don't apply. Failure for an
    invalid lock file."""
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
            warn(lock.warnings(spec, files[name], args.device_name), args)
            tuned_specs.append(lock.apply(spec, files[name], args.device_name))
    except SpecError as error:
        refuse(error.diagnostics)
    return tuple(tuned_specs)


def warn(findings: Iterable[Diagnostic], args: argparse.Namespace) -> None:
    """Prints warnings to standard error."""
    for finding in findings:
        note(paint_findings(finding.render(gnu=args.gnu), sys.stderr), quiet=args.quiet)


def refuse(findings: Sequence[Diagnostic]) -> None:
    """Raises Failure if there are findings."""
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
            f"`--set {item.name}={item.value}`: `{item.value}` is not a number",
            "give an integer, a decimal or true/false",
        ) from None
