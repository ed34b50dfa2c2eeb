"""Outputs of `--emit`, `--target` and `--umbrella`: sources, machine code and umbrella headers."""

from __future__ import annotations

import argparse
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.failures import wrong_call
from cugen.emit import files
from cugen.emit.host.apis import DRIVER, RUNTIME, Api

if TYPE_CHECKING:
    from cugen.emit.host.embed import Image
    from cugen.kernel import Kernel
    from cugen.toolchain.cuda import Cubin

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
        outputs += [_manifest_path(folder, stem, target) for target in self.specific if "fatbin" in self.kinds]
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


def program_path(folder: Path, stem: str, kind: str) -> Path:
    return folder / f"{stem}{files.PROGRAMS[kind]}"


def is_current_embed(folder: Path, stem: str, input_hash: str, targets: Sequence[str]) -> bool:
    """Whether the files were generated from this input and are unmodified. Another compiler version doesn't make them
    stale."""
    expected = _embed_hash(input_hash, targets)
    return all(files.is_current_text(path, expected) for path in embed_paths(folder, stem))


def compiled(kernel: Kernel, specific: Sequence[Kernel], wanted: Emission, folder: Path) -> Iterator[files.File]:
    """Compiler outputs of a kernel; `specific` are those for architecture-specific targets, if several are wanted.

    Raises CompileError, ToolMissing."""
    stem, source = kernel.name, kernel.source
    targets = wanted.targets or (kernel.spec.target,)
    if "cubin" in wanted.kinds:
        cubin = _cubin(source, stem, targets[0])
        yield files.File(folder / f"{stem}.cubin", cubin.image, cubin.compiler)
    if "ptx" in wanted.kinds:
        from cugen.toolchain.cuda import compile_ptx, compilers

        text = compile_ptx(source, stem, targets[0], lines=False)
        yield files.File(folder / f"{stem}.ptx", text.encode(), f"{compilers()[0].name} {compilers()[0].version}")
    if "fatbin" in wanted.kinds:
        image = _fat_image(source, stem, targets, specific)
        yield files.File(folder / f"{stem}.fatbin", image.content, image.compiler)
        for made in specific:
            path = _manifest_path(folder, stem, made.spec.target)
            yield files.File(path, made.manifest.to_json().encode())


def embedded(
    kernel: Kernel,
    specific: Sequence[Kernel],
    input_hash: str,
    wanted: Emission,
    folder: Path,
    *,
    check: bool,
) -> Iterator[files.File]:
    """C arrays of the machine code and their launcher, with hashes. With `check`, machine code of the same source by
    another compiler version is taken from disk, as it can't be compared. `specific` are the kernels for
    architecture-specific targets, if several are wanted."""
    from cugen.emit.host.embed import Code, Image, embed

    stem, targets = kernel.name, wanted.targets or (kernel.spec.target,)
    header, source, typed_header = embed_paths(folder, stem)
    plain: tuple[str, ...] = tuple(target for target in targets if target not in wanted.specific)
    kernels = {plain: kernel} | {(made.spec.target,): made for made in specific}
    images = _foreign_images(source, kernels) if check else ()
    reserve = f"machine code by {images[0].compiler}, which is not installed, was not compared" if images else ""
    if not images and len(targets) == 1:
        cubin = _cubin(kernel.source, stem, targets[0])
        images = (Image(cubin.image, targets, cubin.compiler),)
    elif not images:
        cubins = [_cubin(made.source, stem, made.spec.target) for made in specific]
        others = (Image(c.image, (k.spec.target,), c.compiler) for c, k in zip(cubins, specific, strict=True))
        images = (_fat_image(kernel.source, stem, plain), *others)
    codes = [Code(k.context, k.plan, k.manifest, i) for k, i in zip(specific, images[1:], strict=True)]
    texts = embed(kernel.context, kernel.plan, kernel.manifest, images[0], codes)
    stamp = _embed_hash(input_hash, wanted.targets)
    yield files.File(header, files.stamped(texts.header, stamp).encode())
    yield files.File(source, files.stamped(texts.source, stamp).encode(), reserve=reserve)
    yield files.File(typed_header, files.stamped(texts.typed_header, stamp).encode())


def programs(kernel: Kernel, input_hash: str, wanted: Emission, folder: Path) -> Iterator[files.File]:
    """Host programs round a kernel. `input_hash` is that of programs. SpecError where one can't be written."""
    from cugen.emit.host.program.program import program

    for kind in wanted.programs:
        text = program(kind, kernel.context, kernel.manifest)
        yield files.File(program_path(folder, kernel.name, kind), files.stamped(text, input_hash).encode())


def umbrella_text(name: str, headers: Iterable[tuple[str, str]]) -> str:
    """Text of an umbrella header. `headers`: file names with the texts of the headers, whose titles describe them."""
    from cugen.emit.environment import environment
    from cugen.emit.layout import tidy, unwrapped
    from cugen.version import __version__

    listed = list(headers)
    text = (
        environment()
        .get_template("umbrella.h.j2")
        .render(
            name=name,
            lines=[unwrapped(text).partition("\n")[0].removeprefix("// ") for _, text in listed],
            includes=[file for file, _ in listed],
            version=__version__,
        )
    )
    text = tidy(text)
    return files.stamped(text, hashlib.sha256(text.encode()).hexdigest())


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


def _manifest_path(folder: Path, stem: str, target: str) -> Path:
    """Path of the manifest for an architecture-specific target that shares a file with others."""
    return folder / f"{stem}.{target}.json"


def _embed_hash(input_hash: str, targets: Sequence[str]) -> str:
    return hashlib.sha256("\0".join((input_hash, *targets)).encode()).hexdigest()


def _cubin(source: str, stem: str, target: str) -> Cubin:
    from cugen.toolchain.cuda import compile_cubin

    return compile_cubin(source, stem, target, lines=False)


def _fat_image(source: str, stem: str, targets: Sequence[str], specific: Sequence[Kernel] = ()) -> Image:
    """Fat binary: machine code for each target, of the source or that of a kernel for an architecture-specific target,
    and PTX of the highest one without a suffix for newer GPUs. Drivers prefer the architecture-specific code."""
    from cugen.emit.host.embed import Image
    from cugen.toolchain.binary.fatbinary import pack
    from cugen.toolchain.cuda import compile_ptx

    sources = {made.spec.target: made.source for made in specific}
    cubins = {target: _cubin(sources.get(target, source), stem, target) for target in targets}
    ptx = {target: compile_ptx(source, stem, target, lines=False) for target in _without_suffix(targets)[-1:]}
    packed = pack({target: cubin.image for target, cubin in cubins.items()}, ptx)
    return Image(packed, tuple(targets), cubins[targets[0]].compiler)


def _without_suffix(targets: Sequence[str]) -> list[str]:
    return [target for target in targets if target[-1].isdecimal()]


def _foreign_images(path: Path, kernels: Mapping[tuple[str, ...], Kernel]) -> tuple[Image, ...]:
    """Machine code of these kernels, by targets, in a file by a compiler that isn't installed; else empty."""
    from cugen.emit.host.embed import images_of
    from cugen.toolchain.cuda import compilers

    try:
        text = path.read_text()
    except (OSError, ValueError):
        return ()
    images = images_of(text)
    if [image.targets for image in images] != list(kernels):
        return ()
    if images[0].compiler in [f"{compiler.name} {compiler.version}" for compiler in compilers()[:1]]:
        return ()
    is_same_source = all(kernel.manifest.source_hash[:16] in text for kernel in kernels.values())
    return images if is_same_source and files.is_stamped(text) else ()
