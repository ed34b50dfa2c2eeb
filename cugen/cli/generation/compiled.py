"""Machine code, C arrays of it and host programs: what `--emit` writes beside the sources."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cugen.cli.generation.emission import Emission, embed_paths, manifest_path_for, program_path
from cugen.emit import files

if TYPE_CHECKING:
    from cugen.emit.host.embed import Image
    from cugen.kernel import Kernel
    from cugen.toolchain.cuda import Cubin


def is_current_embed(folder: Path, stem: str, input_hash: str, targets: Sequence[str]) -> bool:
    """Whether the files were generated from this input and are unmodified. Another compiler version doesn't make them
    stale."""
    expected = embed_hash(input_hash, targets)
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
            path = manifest_path_for(folder, stem, made.spec.target)
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
    stamp = embed_hash(input_hash, wanted.targets)
    yield files.File(header, files.stamped(texts.header, stamp).encode())
    yield files.File(source, files.stamped(texts.source, stamp).encode(), reserve=reserve)
    yield files.File(typed_header, files.stamped(texts.typed_header, stamp).encode())


def programs(kernel: Kernel, input_hash: str, wanted: Emission, folder: Path) -> Iterator[files.File]:
    """Host programs round a kernel. `input_hash` is that of programs. SpecError where one can't be written."""
    from cugen.emit.host.program.program import program

    for kind in wanted.programs:
        text = program(kind, kernel.context, kernel.manifest)
        yield files.File(program_path(folder, kernel.name, kind), files.stamped(text, input_hash).encode())


def embed_hash(input_hash: str, targets: Sequence[str]) -> str:
    """The hash of the input that C arrays of machine code are stamped with."""
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
