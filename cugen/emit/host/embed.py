"""`<stem>_embed.h`, `.hpp` and `.c`: the machine code as a C array, and launchers on the driver API."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cugen.abi.manifest import ArrayArgument, LaunchEntry, Manifest, ParamArgument, Size, TensorMapEntry, Workspace
from cugen.abi.textures import channel_type
from cugen.emit.describe import harmless, header_lines, heading
from cugen.emit.environment import environment
from cugen.emit.files import LAUNCH_HEADER
from cugen.emit.host.apis import DRIVER
from cugen.emit.host.c_sizes import SizePrinter
from cugen.emit.host.launch_header import launch_header
from cugen.emit.host.launcher import Launcher, c_names, is_chosen, make_launcher
from cugen.emit.host.tensor_maps import data_type, swizzle_mode
from cugen.emit.host.typed import make_typed, size_names
from cugen.emit.layout import tidy, unwrapped
from cugen.machine import target
from cugen.machine.target import STATIC_SHARED_BYTES
from cugen.plan.context import Context
from cugen.plan.kernel import Plan, Texture
from cugen.plan.names import Names
from cugen.spec.types import DTYPES

_FORMATS = {
    "float32": "CU_AD_FORMAT_FLOAT",
    "float16": "CU_AD_FORMAT_HALF",
    "int32": "CU_AD_FORMAT_SIGNED_INT32",
    "int16": "CU_AD_FORMAT_SIGNED_INT16",
    "int8": "CU_AD_FORMAT_SIGNED_INT8",
    "uint32": "CU_AD_FORMAT_UNSIGNED_INT32",
    "uint16": "CU_AD_FORMAT_UNSIGNED_INT16",
    "uint8": "CU_AD_FORMAT_UNSIGNED_INT8",
}
_WORDS_PER_LINE = 4  # 64-bit words; fits the line width
_IMAGE = re.compile(r"^static const unsigned long long \w+_image\[\] = \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_COMPILER = re.compile(r"^// Machine code of .+ for (.+), compiled by (.+), and its launcher\.", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Image:
    """Machine code, the targets that it was compiled for, and the compiler."""

    content: bytes
    targets: tuple[str, ...]
    compiler: str


@dataclass(frozen=True, slots=True)
class Code:
    """A generated kernel with its machine code."""

    context: Context
    plan: Plan
    manifest: Manifest
    image: Image


@dataclass(frozen=True, slots=True)
class Embedded:
    """The texts of the three files."""

    header: str
    source: str
    typed_header: str

    def texts(self, name: str) -> dict[str, str]:
        """Texts by file name, and that of the shared header, for the kernel `name`."""
        files = {f"{name}_embed.h": self.header, f"{name}_embed.c": self.source, f"{name}_embed.hpp": self.typed_header}
        return files | {LAUNCH_HEADER: launch_header()}


@dataclass(frozen=True, slots=True)
class _Launch:
    """One launch; `condition` is that of a nonempty grid, "" where the grid can't be empty."""

    kernel: str
    condition: str
    grid: str
    block: str
    shared: int
    carveout: str  # percent, or the default
    arguments: str


@dataclass(frozen=True, slots=True)
class _TensorMap:
    """A tensor map; `sizes`, `strides` and `box` are lists of the numbers that the driver takes, as are in im2col mode
    `lower`, `upper` and `steps`."""

    name: str
    type: str
    pointer: str
    sizes: str
    strides: str
    box: str
    rank: int
    swizzle: str
    lower: str
    upper: str
    steps: str


@dataclass(frozen=True, slots=True)
class _Choice:
    """Code for devices of one compute capability, such as "90", or portable code; `name` is the prefix of its functions
    in C, `workspace` whether its launcher has one, `arguments` are those of a call of its launcher, `counts_blocks`
    whether it has a function for its resident blocks."""

    name: str
    capability: str
    workspace: bool
    arguments: str
    counts_blocks: bool


def embed(context: Context, plan: Plan, manifest: Manifest, image: Image, specific: Sequence[Code] = ()) -> Embedded:
    """Deterministic texts of the files.

    `specific` is code of the same kernel for architecture-specific targets: on their devices it runs instead. The
    launcher's parameters are those of the portable code; other code that needs a workspace then allocates it."""
    codes = (Code(context, plan, manifest, image), *specific)
    launcher, names = make_launcher(context, plan), c_names(context)
    declaration = launcher.declaration(DRIVER) | {
        "notes": (*launcher.notes, *_specific_notes(manifest, specific, names)),
        "loaded": " for the current device" if specific else "",
    }
    sources = [_variables(code) for code in codes]
    head = {
        "heading": heading(context),
        "header": header_lines(context, plan),
        "codes": sources,
        "headers": dict.fromkeys(header for source in sources for header in source["headers"]),
        "helpers": any(source["helpers"] for source in sources),
        "uploads": any(source["uploads"] for source in sources),
    }
    env = environment()
    parts = [env.get_template("embed_head.c.j2").render(declaration | head)]
    if specific:
        choices = [_choice(code, launcher, names) for code in codes]
        for source, choice in zip(sources, choices, strict=True):
            source |= {"name": choice.name, "linkage": "static "}
    parts += [env.get_template("embed.c.j2").render(source) for source in sources]
    if specific:
        local = Names()
        for name in names.values():
            local.allocate(name)
        variables = {
            "parameters": launcher.parameters,
            "size_arguments": launcher.size_arguments,
            "portable": choices[0],
            "specific": choices[1:],
            "capability": local.allocate("capability"),
        }
        parts.append(env.get_template("embed_choice.c.j2").render(declaration | variables))
    typed = make_typed(_with_alignments(manifest, specific), names)
    typed_variables = typed.variables(context, DRIVER, workspace=bool(launcher.workspace))
    return Embedded(
        tidy(env.get_template("embed.h.j2").render(declaration | head)),
        tidy("\n".join(parts)),
        tidy(env.get_template("kernel.hpp.j2").render(typed_variables)),
    )


def _choice(code: Code, launcher: Launcher, names: Mapping[str, str]) -> _Choice:
    """`launcher` and `names` are those of the portable code."""
    chosen = target(code.manifest.target)
    arguments = [names[argument.name] for argument in code.manifest.arguments]
    if code.plan.workspace:
        arguments.append("workspace" if launcher.workspace else "NULL")
    return _Choice(
        f"{launcher.name}_{chosen.name if chosen.is_architecture_specific else 'portable'}",
        "{}{}".format(*chosen.capability),
        bool(code.plan.workspace),
        ", ".join([*arguments, "stream"]),
        is_chosen(code.context.spec, code.plan),
    )


def _specific_notes(manifest: Manifest, specific: Sequence[Code], names: Mapping[str, str]) -> Iterator[str]:
    """Comments of the launcher on code for architecture-specific targets."""
    for code in specific:
        name = code.manifest.target
        yield "Devices of compute capability {}.{} run code for {}.".format(*target(name).capability, name)
        for array, same in _arrays(manifest, code.manifest):
            if same.alignment > array.alignment:
                yield f"There {names[array.name]} must be aligned to {same.alignment} bytes."


def _with_alignments(manifest: Manifest, specific: Sequence[Code]) -> Manifest:
    """The manifest with the alignments that all codes need."""
    for code in specific:
        needed = {array.name: max(array.alignment, same.alignment) for array, same in _arrays(manifest, code.manifest)}
        arguments = (
            replace(a, alignment=needed[a.name]) if isinstance(a, ArrayArgument) else a for a in manifest.arguments
        )
        manifest = replace(manifest, arguments=tuple(arguments))
    return manifest


def _arrays(first: Manifest, second: Manifest) -> Iterator[tuple[ArrayArgument, ArrayArgument]]:
    """The array arguments of two manifests of one kernel, in pairs."""
    for a, b in zip(first.arguments, second.arguments, strict=True):
        if isinstance(a, ArrayArgument) and isinstance(b, ArrayArgument):
            yield a, b


def _variables(code: Code) -> dict[str, Any]:
    """Variables of the template for one machine code and its launcher."""
    context, plan, manifest, image = code.context, code.plan, code.manifest, code.image
    launcher, names = make_launcher(context, plan), c_names(context)
    printer = SizePrinter(size_names(manifest, names))
    local = Names()
    for name in (*names.values(), *(array.symbol for array in plan.workspace)):
        local.allocate(name)
    variables_of_launcher = {
        name: local.allocate(name)
        for name in ("library", "values", "allocated", "launched", "sizes", "strides", "box", "lower", "upper", "steps")
    }
    buffers = {space.name: array.symbol for space, array in zip(manifest.workspace, plan.workspace, strict=True)}
    total = printer.print(_total(manifest.workspace))
    maps = {entry.name: entry.name for entry in manifest.tensor_maps}
    arguments = {**names, **buffers, **maps, **{texture.argument: texture.symbol for texture in context.textures}}
    source = {
        **launcher.declaration(DRIVER),
        "linkage": "",
        "parameters": launcher.parameters,
        "size_arguments": launcher.size_arguments,
        "checks": _checks(manifest, launcher, printer),
        "workspace_buffers": _workspace_buffers(manifest, buffers, printer),
        "zeros": [(buffers[space.name], _bytes_of(space, printer)) for space in manifest.workspace if space.zeroed],
        "total": total,
        "unused_sizes": [
            text for text in launcher.size_arguments.split(", ") if text and text not in re.findall(r"\w+", total)
        ],
        "textures": [_texture(texture, manifest, printer) for texture in context.textures],
        "has_linear_textures": not all(texture.address_mode for texture in manifest.textures),
        "has_2d_textures": any(texture.address_mode for texture in manifest.textures),
        "has_tiled_maps": not all(entry.steps for entry in manifest.tensor_maps),
        "has_im2col_maps": any(entry.steps for entry in manifest.tensor_maps),
        "tensor_maps": [_tensor_map(entry, {**names, **buffers}, printer) for entry in manifest.tensor_maps],
        "uploads": [
            (upload.symbol, names[upload.argument], upload.bytes, upload.argument in context.arrays)
            for upload in manifest.uploads
        ],
        "launches": [_launch(launch, arguments, printer) for launch in manifest.launches],
        "headers": [
            *(["stdlib.h"] if context.textures or plan.uploads else []),
            *(["string.h"] if context.textures or manifest.tensor_maps else []),
        ],
        "attribute": any(_needs_opt_in(launch) for launch in manifest.launches),
        "carveout": any(launch.carveout is not None for launch in manifest.launches),
        "targets": ", ".join(image.targets),
        "compiler": harmless(image.compiler),
        "source_hash": manifest.source_hash[:16],
        "lines": _lines(image.content),
        **variables_of_launcher,
    }
    source["helpers"] = tuple(printer.helpers)
    return source


def images_of(text: str) -> tuple[Image, ...]:
    """Machine codes of a file written by `embed`; empty for any other text."""
    compilers = _COMPILER.findall(unwrapped(text.partition("\n\n")[0]))
    images = _IMAGE.findall(text)
    if len(compilers) != len(images):
        return ()
    made = []
    for words, (targets, compiler) in zip(images, compilers, strict=True):
        numbers = [int(word, 16) for word in re.findall(r"0x([0-9a-f]{16})", words)]
        made.append(Image(struct.pack(f"<{len(numbers)}Q", *numbers), tuple(targets.split(", ")), compiler))
    return tuple(made)


def _lines(content: bytes) -> Iterator[str]:
    padded = content + bytes(-len(content) % 8)
    words = [f"0x{word:016x}ULL," for (word,) in struct.iter_unpack("<Q", padded)]
    for start in range(0, len(words), _WORDS_PER_LINE):
        yield " ".join(words[start : start + _WORDS_PER_LINE])


def _checks(manifest: Manifest, launcher: Launcher, printer: SizePrinter) -> list[str]:
    """Conditions of an invalid call: ranges of params, then the requirements that depend on one."""
    params = {a.name for a in manifest.arguments if isinstance(a, ParamArgument)}
    checks = list(launcher.checks[: len(params)])
    for condition in manifest.require:
        if any(name in params for name in re.findall(r"\w+", condition)):
            checks.append(f"!({printer.condition(condition)})")
    return checks


def _needs_opt_in(launch: LaunchEntry) -> bool:
    """Whether its shared memory exceeds STATIC_SHARED_BYTES."""
    return launch.dynamic_shared_bytes > 0 and launch.shared_bytes + launch.dynamic_shared_bytes > STATIC_SHARED_BYTES


def _total(spaces: Sequence[Workspace]) -> Size:
    """Bytes of these workspace buffers, each rounded up to a multiple of 256, as allocations are."""
    fixed, texts = 0, []
    for space in spaces:
        size = DTYPES[space.dtype].bytes
        if isinstance(space.elements, int):
            fixed += (space.elements * size + 255) // 256 * 256
        else:
            texts.append(f"(({space.elements}) * {size} + 255) // 256 * 256")
    return " + ".join([*texts, *([str(fixed)] if fixed else [])]) if texts else fixed


def _workspace_buffers(manifest: Manifest, symbols: Mapping[str, str], printer: SizePrinter) -> list[tuple[str, str]]:
    """Symbol and address of each temporary."""
    buffers = []
    for position, space in enumerate(manifest.workspace):
        offset = _total(manifest.workspace[:position])
        start = f"(char*)workspace + {printer.print(offset)}" if offset else "workspace"
        buffers.append((symbols[space.name], start))
    return buffers


def _bytes_of(memory: Workspace | ArrayArgument, printer: SizePrinter) -> str:
    size, elements = DTYPES[memory.dtype].bytes, memory.elements
    return printer.print(elements * size if isinstance(elements, int) else f"({elements}) * {size}")


def _texture(texture: Texture, manifest: Manifest, printer: SizePrinter) -> tuple[str, str, bool]:
    """A texture object: its variable, the arguments of the function that makes it, and whether it is 2-D."""
    (array,) = (a for a in manifest.texture_arguments() if a.name == texture.argument)
    (entry,) = (entry for entry in manifest.textures if entry.argument == texture.argument)
    pointer, format = f"(CUdeviceptr){texture.parameter}", _FORMATS[channel_type(array.dtype)]
    if not entry.address_mode:
        return texture.symbol, ", ".join((pointer, _bytes_of(array, printer), format)), False
    sizes = map(printer.print, (entry.width, entry.height, entry.pitch))
    mode = f"CU_TR_ADDRESS_MODE_{entry.address_mode.upper()}"
    filter = f"CU_TR_FILTER_MODE_{entry.filter.upper()}"
    return texture.symbol, ", ".join((pointer, *sizes, format, mode, filter)), True


def _tensor_map(entry: TensorMapEntry, arguments: Mapping[str, str], printer: SizePrinter) -> _TensorMap:
    return _TensorMap(
        entry.name,
        data_type(entry.dtype, tf32=entry.tf32),
        arguments[entry.argument],
        _wide(entry.sizes, printer),
        _wide(entry.strides, printer),
        ", ".join(map(str, entry.box[:2] if entry.steps else entry.box)),
        len(entry.sizes),
        swizzle_mode(entry.swizzle),
        ", ".join(map(str, entry.lower)),
        ", ".join(map(str, entry.upper)),
        ", ".join(map(str, (1, *entry.steps, 1) if entry.steps else ())),
    )


def _wide(sizes: tuple[Size, ...], printer: SizePrinter) -> str:
    return ", ".join(str(size) if isinstance(size, int) else f"(cuuint64_t)({printer.print(size)})" for size in sizes)


def _launch(launch: LaunchEntry, arguments: Mapping[str, str], printer: SizePrinter) -> _Launch:
    may_be_empty = [extent for extent in launch.grid if printer.bounds(extent)[0] < 1]
    return _Launch(
        launch.kernel,
        " && ".join(f"{printer.sum(extent)} > 0" for extent in may_be_empty),
        ", ".join(map(printer.print, launch.grid)),
        ", ".join(map(str, launch.block)),
        launch.dynamic_shared_bytes,
        "CU_SHAREDMEM_CARVEOUT_DEFAULT" if launch.carveout is None else str(launch.carveout),
        "{" + ", ".join(f"(void*)&{arguments[name]}" for name in (*launch.tensor_maps, *launch.arguments)) + "}",
    )
