"""The host function that runs a plan's launches: defined at the end of the .cu, declared in the .h."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import sympy

from cugen.emit.host.apis import Api
from cugen.emit.host.tensor_maps import data_type, swizzle_mode
from cugen.emit.manifests import launch_options
from cugen.emit.printer.ctypes import c_name, declaration_in_c, header_of
from cugen.emit.printer.nodes import NodePrinter
from cugen.machine import Target, target
from cugen.machine.target import MAX_BLOCKS, STATIC_SHARED_BYTES
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel, Plan, Texture, Upload
from cugen.plan.memory import FETCHED_TYPES, Array
from cugen.plan.names import Names
from cugen.plan.symbols import FloorDiv, Integer, Minimum, bounds, integer
from cugen.plan.textures.limits import limits
from cugen.spec.expressions import Expr, ParamValue, walk
from cugen.spec.model import Array as DeclaredArray
from cugen.spec.model import Param, Spec

_ALLOCATIONS = {
    "managed": "managed memory, of cudaMallocManaged",
    "mapped": "mapped memory of the host, of cudaHostAlloc: its pointer is that of cudaHostGetDevicePointer",
}


@dataclass(frozen=True, slots=True)
class LaunchText:
    """One launch; `condition` is that of a nonempty grid, "" where the grid can't be empty."""

    kernel: str
    condition: str
    call: str
    dynamic: bool
    shared: int
    settings: tuple[str, ...]  # calls before it
    bank_setting: str  # one that CUDA 13 doesn't have; empty without one


@dataclass(frozen=True, slots=True)
class TextureText:
    """A texture object: its variable, and the arguments of the function that makes it: the pointer, the sizes of its
    memory, its channel format, and the address mode and filter of a 2-D texture."""

    symbol: str
    arguments: str
    is_2d: bool


@dataclass(frozen=True, slots=True)
class TensorMapText:
    """A tensor map: its variable, the function that encodes it, and the arguments of that: the type, the pointer, the
    sizes in elements and the strides in bytes from the contiguous dimension on, the box, and the swizzle. In im2col
    mode the corners of the bounding box and the steps precede the box."""

    symbol: str
    function: str
    arguments: str
    is_im2col: bool


@dataclass(frozen=True)
class Launcher:
    """Texts of the host function. `functions` are the helpers it calls, with their C types."""

    name: str
    parameters: tuple[str, ...]
    checks: tuple[str, ...]
    uploads: tuple[str, ...]
    lock: str  # local variables of the launcher, with `uploads`
    launched: str
    textures: tuple[TextureText, ...]
    tensor_maps: tuple[TensorMapText, ...]
    launches: tuple[LaunchText, ...]
    workspace: tuple[str, ...]
    zeros: tuple[str, ...]  # memsets before the launches
    workspace_total: str
    size_parameters: str
    size_definition: str  # the same, unused parameters unnamed
    size_arguments: str
    symbols: frozenset[str]  # params used
    functions: tuple[tuple[str, str], ...]
    includes: tuple[str, ...]
    lines_in_c: tuple[str, ...]  # what declares types in C that C++ has, or that CUDA's headers name differently
    notes: tuple[str, ...]
    block_threads: int  # of the launch whose resident blocks a function counts; 0 without one

    def declaration(self, api: Api) -> dict[str, Any]:
        """Variables of the header templates."""
        return {
            "name": self.name,
            "api": api,
            "includes": sorted(self.includes),
            "lines_in_c": self.lines_in_c,
            "notes": self.notes,
            "workspace": self.workspace,
            "size_parameters": self.size_parameters,
            "all_parameters": ", ".join([*self.parameters, f"{api.stream_type} stream"]),
            "block_threads": self.block_threads,
        }

    def variables(self) -> dict[str, Any]:
        """Variables of the launch template."""
        excluded = ("symbols", "functions", "includes", "lines_in_c", "notes")
        return {
            **{f.name: getattr(self, f.name) for f in fields(self) if f.name not in excluded},
            "headers": [*(["atomic"] if self.textures else []), *(["map", "mutex"] if self.uploads else [])],
            "has_linear_textures": not all(texture.is_2d for texture in self.textures),
            "has_2d_textures": any(texture.is_2d for texture in self.textures),
            "has_tiled_maps": not all(tensor_map.is_im2col for tensor_map in self.tensor_maps),
            "has_im2col_maps": any(tensor_map.is_im2col for tensor_map in self.tensor_maps),
            "has_status": bool(self.textures or self.tensor_maps or self.uploads or self.workspace),
        }


class _Texts:
    """Prints sizes and conditions over params; collects the params and helpers used."""

    def __init__(self, context: Context) -> None:
        names = {name: expr.name for name, expr in context.symbols.items()}
        self._printer = NodePrinter(context.ranges, {}, names)
        self._names = names
        self.symbols: dict[str, None] = {}

    @property
    def functions(self) -> dict[tuple[str, str], None]:
        return self._printer.functions

    def size(self, expr: Integer) -> str:
        self.symbols.update(dict.fromkeys(s.name for s in expr.free_symbols))
        return self._printer.integer(expr)

    def condition(self, expr: Expr) -> str:
        self.symbols.update({self._names[n.name]: None for n in walk(expr) if isinstance(n, ParamValue)})
        return self._printer.print(expr)


def make_launcher(context: Context, plan: Plan) -> Launcher:
    """The host function of a plan. Parameters are in the order of the spec: arrays, scalars, params."""
    spec, texts, local = context.spec, _Texts(context), Names(context.names)
    arrays = [a for a in spec.arrays if a.role in ("input", "output", "inout")]
    scalars = [s for s in spec.scalars if s.value is None]
    sizes = [context.symbols[param.name].name for param in spec.params if param.is_dynamic]
    parameters = [
        f"{'const ' if array.role == 'input' else ''}{c_name(array.dtype)}* {_parameter(context, array.name)}"
        for array in arrays
    ]
    parameters += [f"{c_name(scalar.dtype)} {_parameter(context, scalar.name)}" for scalar in scalars]
    parameters += [f"int {name}" for name in sizes]
    checks = tuple(_argument_checks(context, texts))
    textures = tuple(_texture(context, texture, texts) for texture in context.textures)
    grids = dict.fromkeys(check for kernel in plan.kernels for check in _grid_checks(context, kernel, texts))
    buffers, zeros, total, size_params = _workspace(context, plan, texts)
    maps = plan.tensor_maps()
    tensor_maps = tuple(_tensor_map(context, array, name, texts) for array, name in maps.items())
    launches = tuple(_launch(context, kernel, maps, texts) for kernel in plan.kernels)
    dtypes = [*(array.dtype for array in arrays), *(scalar.dtype for scalar in scalars)]
    return Launcher(
        name=spec.kernel,
        parameters=(*parameters, *(["void* workspace"] if plan.workspace else [])),
        checks=(*checks, *grids),
        uploads=tuple(_upload(context, upload) for upload in plan.uploads),
        lock=local.allocate("lock"),
        launched=local.allocate("launched"),
        textures=textures,
        tensor_maps=tensor_maps,
        launches=launches,
        workspace=buffers,
        zeros=zeros,
        workspace_total=total,
        size_parameters=", ".join(f"int {name}" for name in sizes) or "void",
        size_definition=", ".join(f"int {n}" if n in size_params else f"int /* {n} */" for n in sizes) or "void",
        size_arguments=", ".join(sizes),
        symbols=frozenset(texts.symbols),
        functions=tuple(texts.functions),
        includes=tuple(dict.fromkeys(header for dtype in dtypes if (header := header_of(dtype)))),
        lines_in_c=tuple(dict.fromkeys(line for dtype in dtypes if (line := declaration_in_c(dtype)))),
        notes=tuple(_notes(context, plan, arrays, checks_grids=bool(grids))),
        block_threads=plan.kernels[0].threads if is_chosen(spec, plan) else 0,
    )


def _argument_checks(context: Context, texts: _Texts) -> Iterator[str]:
    """The conditions in C under which arguments are refused, but for those of grids."""
    spec = context.spec
    yield from (_check(param, context.symbols[param.name].name) for param in spec.params if param.is_dynamic)
    for requirement in spec.require:
        if _is_open(context, requirement.condition):
            yield f"!({texts.condition(requirement.condition)})"
    for texture in context.textures:
        for limit in limits(context.texture_sizes(texture), target(spec.target)):
            if bounds(limit.value, dict(context.ranges))[1] > limit.maximum:
                yield f"{texts.size(limit.value)} > {limit.maximum}"


def _notes(context: Context, plan: Plan, arrays: Sequence[DeclaredArray], *, checks_grids: bool) -> Iterator[str]:
    """What callers must know, for the comment of the declaration."""
    aligned: defaultdict[int, list[str]] = defaultdict(list)
    for array in arrays:
        if (alignment := _alignment(plan, array.name)) > array.dtype.bytes:
            aligned[alignment].append(_parameter(context, array.name))
    for alignment, names in aligned.items():
        yield f"Must be aligned to {alignment} bytes: {', '.join(names)}."
    for array in arrays:
        if array.memory.allocation != "device":
            yield f"{_parameter(context, array.name)} is in {_ALLOCATIONS[array.memory.allocation]}."
    if plan.workspace:
        yield "`workspace` may be null: the launch then allocates and frees one, stream-ordered."
    if plan.uploads:
        uploaded = ", ".join(upload.parameter for upload in plan.uploads)
        yield f"Constants ({uploaded}) belong to the device: calls of several streams or threads run one after another."
        yield "A CUDA graph of such calls must not run beside others, or beside calls."
    if context.textures:
        used = ", ".join(texture.parameter for texture in context.textures)
        yield f"Texture objects of {used}: one is made for each address on a device, and kept until the process ends."
    if checks_grids:
        largest = " x ".join(str(limit) for limit in target(context.spec.target).grid)
        yield f"Sizes that need a grid of more than {largest} blocks are refused, with cudaErrorInvalidValue."


def is_chosen(spec: Spec, plan: Plan) -> bool:
    """Whether a launcher of variants may choose the kernel by its resident blocks: those of a single launch."""
    return spec.is_choice and len(plan.kernels) == 1


def c_names(context: Context) -> dict[str, str]:
    """C name of each argument in the launcher, by its name in the spec."""
    spec = context.spec
    names = {array.name: _parameter(context, array.name) for array in spec.arrays if array.name in context.arrays}
    names |= {scalar.name: _parameter(context, scalar.name) for scalar in spec.scalars}
    return names | {param.name: context.symbols[param.name].name for param in spec.params}


def _alignment(plan: Plan, array: str) -> int:
    """Maximum alignment in bytes that a kernel requires of the array."""
    return max((dict(kernel.alignments).get(array, 0) for kernel in plan.kernels), default=0)


def _check(param: Param, name: str) -> str:
    """Condition of a param outside its range."""
    text = f"{name} < {param.minimum}"
    if param.maximum < 2**31 - 1:
        text += f" || {name} > {param.maximum}"
    if param.multiple_of > 1:
        text += f" || {name} % {param.multiple_of} != 0"
    return text


def _grid_checks(context: Context, kernel: Kernel, texts: _Texts) -> Iterator[str]:
    """Conditions of a grid beyond the target's limits.

    2^31 - 1 blocks along x (from 3.0 on) aren't checked: no device holds the arrays of so many."""
    for extent, limit in zip(kernel.grid, target(context.spec.target).grid, strict=True):
        if limit < MAX_BLOCKS and bounds(extent, context.ranges)[1] > limit:
            yield f"{texts.size(extent)} > {limit}"


def _workspace(
    context: Context, plan: Plan, texts: _Texts
) -> tuple[tuple[str, ...], tuple[str, ...], str, frozenset[str]]:
    """Workspace buffers, memsets, the total size in bytes, and the params that the size depends on."""
    buffers, zeros, total = [], [], integer(0)
    for array in plan.workspace:
        kind = c_name(array.dtype)
        address = f"static_cast<{kind}*>(workspace)"
        if total != 0:
            start = texts.size(total)
            address = f"reinterpret_cast<{kind}*>(static_cast<char*>(workspace) + {start})"
        buffers.append(f"{kind}* const {array.symbol} = {address}")
        size = context.elements_of(array) * array.dtype.bytes
        if array.zeroed:
            zeros.append(f"cudaMemsetAsync({array.symbol}, 0, {texts.size(size)}, stream)")
        total = total + _aligned(size)
    size_params = frozenset(symbol.name for symbol in total.free_symbols)
    return tuple(buffers), tuple(zeros), texts.size(total) if plan.workspace else "", size_params


def _upload(context: Context, upload: Upload) -> str:
    on_device = upload.argument in context.arrays
    source = upload.parameter if on_device else f"&{upload.parameter}"
    direction = "cudaMemcpyDeviceToDevice" if on_device else "cudaMemcpyHostToDevice"
    return f"cudaMemcpyToSymbolAsync({upload.symbol}, {source}, {upload.bytes}, 0, {direction}, stream)"


def _texture(context: Context, texture: Texture, texts: _Texts) -> TextureText:
    array = context.arrays[texture.argument]
    kind = "Half()" if array.dtype.name == "float16" else f"<{FETCHED_TYPES[array.dtype.name]}>()"
    unit = array.dtype.bytes if array.texture_2d is None else 1
    sizes = (texts.size(size * unit) for size in context.texture_sizes(texture))
    arguments = [texture.parameter, *sizes, f"cudaCreateChannelDesc{kind}"]
    if array.texture_2d is not None:
        arguments.append(f"cudaAddressMode{array.texture_2d.address_mode.capitalize()}")
        arguments.append(f"cudaFilterMode{'Linear' if array.texture_2d.is_linear else 'Point'}")
    return TextureText(texture.symbol, ", ".join(arguments), array.texture_2d is not None)


def _tensor_map(context: Context, array: Array, name: str, texts: _Texts) -> TensorMapText:
    tensor_map = array.tensor_map
    assert tensor_map is not None
    sizes = [texts.size(extent) for extent in reversed(array.shape)]
    strides = [texts.size(stride * array.dtype.bytes) for stride in reversed(array.strides[:-1])]
    boxes: tuple[Iterable[int], ...] = (reversed(tensor_map.box),)
    if (pixels := tensor_map.pixels) is not None:
        corners = (pixels.lower, pixels.upper, pixels.steps)
        boxes = (*(reversed(corner) for corner in corners), tensor_map.box[:-3:-1])
    lists = (sizes, strides, *(map(str, numbers) for numbers in boxes))
    arguments = (
        data_type(array.dtype.name, tf32=tensor_map.rounds_to_tf32),
        _parameter(context, array.name),
        *(f"{{{', '.join(numbers)}}}" for numbers in lists),
        swizzle_mode(tensor_map.swizzle_bytes),
    )
    function = f"{context.spec.kernel}_{'tensor' if pixels is None else 'im2col'}_map"
    return TensorMapText(name, function, ", ".join(arguments), pixels is not None)


def _launch(context: Context, kernel: Kernel, maps: Mapping[Array, str], texts: _Texts) -> LaunchText:
    grid = [texts.size(extent) for extent in kernel.grid]
    while len(grid) > 1 and grid[-1] == "1":
        grid.pop()
    block = [str(size) for size in kernel.block]
    while len(block) > 1 and block[-1] == "1":
        block.pop()
    sizes = dict.fromkeys(size for extent in kernel.grid for size in _nonempty(extent))
    nonempty = [texts.size(size) for size in sizes if bounds(size, context.ranges)[0] < 1]
    arguments = [maps[array] for array in kernel.tensor_maps]
    workspace = {array.name: array.symbol for array in kernel.workspace}
    textures = {texture.argument: texture.symbol for texture in context.textures}
    for name in kernel.arguments:
        if name in workspace:
            arguments.append(workspace[name])
        elif name in textures:
            arguments.append(textures[name])
        elif name in context.arrays:
            arguments.append(_parameter(context, name))
        elif name in context.scalar_symbols:
            arguments.append(context.scalar_symbols[name])
        else:
            arguments.append(context.symbols[name].name)
    shared = str(kernel.dynamic_shared_bytes)
    configuration = f"dim3({', '.join(grid)}), dim3({', '.join(block)}), {shared}, stream"
    call = f"{kernel.name}<<<{configuration}>>>({', '.join(arguments)})"
    return LaunchText(
        kernel.name,
        " && ".join(f"{size} > 0" for size in nonempty),
        call,
        bool(kernel.tensor_maps)  # for the context as well
        or (
            kernel.dynamic_shared_bytes > 0 and kernel.shared_bytes + kernel.dynamic_shared_bytes > STATIC_SHARED_BYTES
        ),
        kernel.dynamic_shared_bytes,
        *_settings(kernel, target(context.spec.target)),
    )


def _nonempty(extent: Integer) -> Iterator[Integer]:
    """What is positive where the extent of a grid is: factors of a product, dividends of rounded up quotients."""
    for factor in sympy.Mul.make_args(extent):
        if isinstance(factor, FloorDiv):
            yield (factor.args[0] - factor.args[1] + 1).expand()
        elif isinstance(factor, Minimum):
            for size in factor.args:
                yield from _nonempty(size)
        else:
            yield factor


def _settings(kernel: Kernel, row: Target) -> tuple[tuple[str, ...], str]:
    """Calls that set the carve-out and the bank width of a kernel."""
    carveout, cache_config, bank_bytes = launch_options(kernel, row)
    settings: tuple[str, ...] = ()
    if carveout is not None:
        attribute = "cudaFuncAttributePreferredSharedMemoryCarveout"
        settings = (f"cudaFuncSetAttribute({kernel.name}, {attribute}, {carveout})",)
    if cache_config:
        word = "".join(part.capitalize() for part in cache_config.split("_"))
        settings = (f"cudaFuncSetCacheConfig({kernel.name}, cudaFuncCache{word})",)
    width = {4: "cudaSharedMemBankSizeFourByte", 8: "cudaSharedMemBankSizeEightByte"}.get(bank_bytes, "")
    return settings, f"cudaFuncSetSharedMemConfig({kernel.name}, {width})" if width else ""


def _parameter(context: Context, name: str) -> str:
    """C parameter of an array or scalar. The symbol of a `__constant__` one names the copy on the device, that of a
    texture its object."""
    bound = {upload.argument: upload.parameter for upload in context.uploads}
    bound |= {texture.argument: texture.parameter for texture in context.textures}
    if name in bound:
        return bound[name]
    return context.arrays[name].symbol if name in context.arrays else context.scalar_symbols[name]


def _aligned(size: Integer) -> Integer:
    """Workspace buffers are aligned to 256 bytes, as allocations are."""
    return FloorDiv(size + 255, integer(256)) * 256


def _is_open(context: Context, condition: Expr) -> bool:
    """Whether a requirement depends on a dynamic param; others are checked when the spec is read."""
    return any(isinstance(n, ParamValue) and context.spec.param(n.name).is_dynamic for n in walk(condition))
