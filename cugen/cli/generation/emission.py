"""Outputs that `--emit`, `--target` and `--umbrella` ask for, and their paths."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path

from cugen.cli.failures import wrong_call
from cugen.emit import files
from cugen.emit.host.apis import DRIVER, RUNTIME, Api

KINDS = ("cu", "cubin", "ptx", "fatbin", "embed", "launch", *files.PROGRAMS)
_FOR_SEVERAL = ("fatbin", "embed")
_TARGET = re.compile(r"sm_(\d+)([af]?)")


@dataclass(frozen=True, slots=True)
class Emission:
    """Requested outputs. `kinds`: some of KINDS, in that order. `targets`: ascending, if `--target` names several, the
    architecture-specific ones last; else empty, and each spec has its own target."""

    kinds: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def specific(self) -> tuple[str, ...]:
        """Those of several targets for which kernels are generated on their own. The others share a source."""
        return tuple(filter(_is_specific, self.targets))

    @property
    def suffixes(self) -> tuple[str, ...]:
        """File suffixes of the sources and the manifest."""
        return files.SUFFIXES if "cu" in self.kinds else (".json",)

    @property
    def apis(self) -> tuple[Api, ...]:
        """CUDA APIs for which launchers are generated."""
        api_of_kind = {"cu": RUNTIME, "embed": DRIVER}
        return tuple(api for kind, api in api_of_kind.items() if kind in self.kinds)

    def paths(self, folder: Path, stem: str) -> list[Path]:
        """Paths of a kernel's files, sources and manifest first."""
        outputs = [path for path in files.paths(folder, stem) if path.suffix in self.suffixes]
        outputs += [folder / f"{stem}.{kind}" for kind in ("cubin", "ptx", "fatbin") if kind in self.kinds]
        outputs += [manifest_path_for(folder, stem, target) for target in self.specific if "fatbin" in self.kinds]
        outputs += embed_paths(folder, stem) if "embed" in self.kinds else ()
        return outputs + [program_path(folder, stem, kind) for kind in self.programs]

    @property
    def programs(self) -> tuple[str, ...]:
        """Kinds of host programs."""
        return tuple(kind for kind in files.PROGRAMS if kind in self.kinds)

    @property
    def has_launch_header(self) -> bool:
        """Whether cugen_launch.hpp must be current: outputs include it, or it is one."""
        return self.owns_launch_header or bool(self.apis)

    @property
    def owns_launch_header(self) -> bool:
        """Whether cugen_launch.hpp is an output. Builds with a step per spec have one step for it, as no file may be an
        output of several."""
        return "launch" in self.kinds

    @property
    def is_rebuilt(self) -> bool:
        """Whether some outputs don't say of which input they were made: machine code, and what has several sources."""
        return any(kind in self.kinds for kind in ("cubin", "ptx", "fatbin")) or bool(self.specific)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--emit",
        metavar="KIND[,KIND]",
        type=_kinds,
        default=("cu",),
        help=f"what to write: {', '.join(KINDS)} (default: cu); fatbin and embed take several targets, such as "
        f"--target sm_80,sm_90; launch is {files.LAUNCH_HEADER}, and needs no spec; main and main-overlap are programs "
        "round the kernel, and include cu",
    )
    parser.add_argument(
        "--umbrella", metavar="NAME", help="also write NAME.h, which includes the headers of all kernels"
    )


def emission(args: argparse.Namespace) -> Emission:
    """Requested outputs. Sets `args.target` to the lowest of several targets, whose sources compile for all of them but
    the architecture-specific ones."""
    if args.umbrella is not None and not re.fullmatch(r"[A-Za-z0-9][\w.-]*", args.umbrella):
        raise wrong_call(
            f"`--umbrella {args.umbrella}`: not a file name", "give the name without a suffix, such as `kernels`"
        )
    targets = tuple(dict.fromkeys((args.target or "").split(",")))
    if len(targets) < 2:
        return Emission(args.emit, ())
    for target in targets:
        if not _TARGET.fullmatch(target):
            raise wrong_call(f"`--target {args.target}`: `{target}` is not a target", "write each target like `sm_90`")
    if single := [kind for kind in args.emit if kind in ("cubin", "ptx")]:
        raise wrong_call(
            f"`--emit {single[0]}` is for one target, not for {len(targets)}", "`--emit fatbin` holds several"
        )
    if not any(kind in args.emit for kind in _FOR_SEVERAL):
        raise wrong_call("sources are generated for one target", "`--emit fatbin` and `--emit embed` hold several")
    ordered = sorted(targets, key=lambda target: (_is_specific(target), _number(target)))
    args.target = ordered[0]
    return Emission(args.emit, tuple(ordered))


def embed_paths(folder: Path, stem: str) -> tuple[Path, Path, Path]:
    return folder / f"{stem}_embed.h", folder / f"{stem}_embed.c", folder / f"{stem}_embed.hpp"


def manifest_path_for(folder: Path, stem: str, target: str) -> Path:
    """Path of the manifest of a kernel for an architecture-specific target that shares a file with others."""
    return folder / f"{stem}.{target}.json"


def program_path(folder: Path, stem: str, kind: str) -> Path:
    return folder / f"{stem}{files.PROGRAMS[kind]}"


def _kinds(text: str) -> tuple[str, ...]:
    given = text.split(",")
    for kind in given:
        if kind not in KINDS:
            raise argparse.ArgumentTypeError(f"`{kind}` can't be emitted; there are {', '.join(KINDS)}")
    if any(kind in files.PROGRAMS for kind in given):
        given.append("cu")  # which programs are compiled with
    return tuple(kind for kind in KINDS if kind in given)


def _number(target: str) -> tuple[int, str]:
    match = _TARGET.fullmatch(target)
    return (int(match[1]), match[2]) if match else (0, "")


def _is_specific(target: str) -> bool:
    """Whether kernels for this target are other than those for its compute capability, as for `sm_90a`."""
    from cugen.machine import Target, canonical_name

    return Target(canonical_name(target)).is_architecture_specific
