"""Which files are current, so that they needn't be made again."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.generation.compiled import is_current_embed
from cugen.cli.generation.emission import Emission, program_path
from cugen.cli.generation.outlines import LOCK, Outline, OutlinedFile, OutlinedGroup, recall, record_location
from cugen.cli.specs import templates_of
from cugen.emit import build_manifest, files
from cugen.emit.inputs import input_hash, program_input_hash, shared_input_hash

if TYPE_CHECKING:
    from cugen.emit.build_manifest import Built
    from cugen.spec.model import Spec
    from cugen.spec.siblings import Siblings


@dataclass(frozen=True, slots=True)
class UpToDate:
    """Compares files with their inputs. `before`: the kernels of the manifest of the build before, if there is one."""

    options: Emission
    args: argparse.Namespace
    before: Mapping[str, Built]

    def recalled(self) -> dict[str, OutlinedFile]:
        """Spec files that needn't be parsed: their outline is cached, and (without `--list`) their outputs are
        current."""
        current: dict[str, OutlinedFile] = {}
        for file in dict.fromkeys(self.args.specs):
            outlined = recall(record_location(file, self.args))
            if outlined is None:
                continue
            on_disk = all(map(self.is_current, outlined.specs)) and all(map(self.has_headers, outlined.groups))
            if self.args.list or on_disk:
                current[file] = outlined
        return current

    def is_current(self, kernel: Spec | Outline) -> bool:
        """Whether the files of a kernel are; by the manifest of the build before, if there is one."""
        folder, args = self.args.output, self.args
        if args.manifest and not args.list:
            paths, known = self.options.paths(folder, kernel.kernel), self.before.get(kernel.kernel)
            return known is not None and known.is_of(self.inputs(kernel), paths, args.manifest.parent)
        expected = input_hash(kernel, remarks=args.remarks, templates=templates_of(args))
        sources = files.is_current if "cu" in self.options.kinds else files.is_current_manifest
        if not sources(folder, kernel.kernel, expected):
            return False
        has_embed = "embed" in self.options.kinds
        if has_embed and not is_current_embed(folder, kernel.kernel, expected, self.options.targets):
            return False
        if not self.options.programs:
            return True
        stamp = program_input_hash(kernel, remarks=args.remarks, templates=templates_of(args))
        paths = [program_path(folder, kernel.kernel, kind) for kind in self.options.programs]
        return all(files.is_current_text(path, stamp) for path in paths)

    def has_headers(self, group: Siblings | OutlinedGroup) -> bool:
        """Whether the headers shared by variants are current."""
        expected = shared_input_hash(group.specs, remarks=self.args.remarks, templates=templates_of(self.args))
        stems = [f"{group.name}{api.suffix}" for api in self.options.apis]
        paths = [path for stem in stems for path in files.header_paths(self.args.output, stem)]
        return all(files.is_current_text(path, expected) for path in paths)

    def inputs(self, kernel: Spec | Outline) -> str:
        """The hash of a kernel's inputs, with those of the compiler and of programs."""
        options, args, templates = self.options, self.args, templates_of(self.args)
        others = [*options.kinds, *options.targets]
        others += [program_input_hash(kernel, remarks=args.remarks, templates=templates)]
        if options.is_rebuilt:
            from cugen.toolchain.cuda import compilers

            others += [f"{compiler.name} {compiler.version}" for compiler in compilers()[:1]]
        if options.specific:  # the lock file's entries for these targets count, too
            others += [_content(Path(args.lock or Path(kernel.dependencies[0]).parent / LOCK))]
        return build_manifest.inputs_of(input_hash(kernel, remarks=args.remarks, templates=templates), *others)

    def write_manifest(self, kernels: Sequence[Spec | Outline], made: set[str]) -> bool:
        """Writes the manifest of the build, in which kernels that weren't made stay. Whether it has changed."""
        path, now = self.args.manifest, dict[str, build_manifest.Built]()
        for kernel in kernels:
            if kernel.kernel in made or kernel.kernel not in self.before:
                paths = self.options.paths(self.args.output, kernel.kernel)
                now[kernel.kernel] = build_manifest.built(
                    kernel.dependencies[0], self.inputs(kernel), paths, path.parent
                )
            else:
                now[kernel.kernel] = self.before[kernel.kernel]
        return bool(files.write_file(files.File(path, build_manifest.text(now).encode())))


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""
