"""The kernels of a call: the spec files are loaded, unless their outlines say enough."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import wrong_call
from cugen.cli.generation.emission import Emission
from cugen.cli.generation.outlines import Outline, OutlinedFile, OutlinedGroup, record_location, remember
from cugen.cli.specs import load_files, with_locks
from cugen.emit import files

if TYPE_CHECKING:
    from cugen.spec.model import Spec
    from cugen.spec.siblings import Siblings


@dataclass(frozen=True, slots=True)
class Selection:
    """All kernels, and the groups that share headers, in the order of the files. `specs` and `loaded_groups` are those
    of the `loaded_files`; the others are outlines, whose files are current."""

    kernels: Sequence[Spec | Outline]
    groups: Sequence[Siblings | OutlinedGroup]
    loaded_files: Sequence[str]
    specs: Sequence[Spec]
    loaded_groups: Sequence[Siblings]

    @property
    def stems(self) -> list[str]:
        """The names of all files but their suffixes."""
        return [*(kernel.kernel for kernel in self.kernels), *(group.name for group in self.groups)]

    def outputs(self, options: Emission, args: argparse.Namespace) -> list[Path]:
        """The paths of all files that belong to the call. Failure if two are one file."""
        paths = [path for kernel in self.kernels for path in options.paths(args.output, kernel.kernel)]
        for api in options.apis:
            stems = [f"{group.name}{api.suffix}" for group in self.groups]
            paths += [path for stem in stems for path in files.header_paths(args.output, stem)]
            paths += [args.output / f"{args.umbrella}{api.suffix}.h"] if args.umbrella else []
        launch_header = args.output / files.LAUNCH_HEADER
        _refuse_equal_files([*paths, launch_header])
        return [*paths, launch_header] if options.owns_launch_header else paths


def select(current: Mapping[str, OutlinedFile], args: argparse.Namespace) -> Selection:
    """Loads the spec files but the `current` ones. Failure if a spec is rejected, or two kernels have one name."""
    loaded_files = [file for file in dict.fromkeys(args.specs) if file not in current]
    specs, loaded_groups = _load(loaded_files, args)
    kernels: list[Spec | Outline] = [*specs, *(kernel for outlined in current.values() for kernel in outlined.specs)]
    groups: list[Siblings | OutlinedGroup] = [*loaded_groups, *(g for known in current.values() for g in known.groups)]
    _refuse_equal_stems(kernels, groups)
    order = {file: position for position, file in enumerate(args.specs)}
    kernels.sort(key=lambda kernel: order[kernel.dependencies[0]])
    groups.sort(key=lambda group: order[group.specs[0].dependencies[0]])
    return Selection(kernels, groups, loaded_files, specs, loaded_groups)


def load_specific(
    spec_files: Sequence[str], options: Emission, args: argparse.Namespace
) -> Mapping[str, Sequence[Spec]]:
    """The kernels of the files for each of the architecture-specific targets among several, by name."""
    specs: defaultdict[str, list[Spec]] = defaultdict(list)
    for target in options.specific:
        with_target = argparse.Namespace(**{**vars(args), "target": target})
        for spec in with_locks(load_files(spec_files, with_target), with_target):
            specs[spec.kernel].append(spec)
    return specs


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
