"""The manifest of a plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping

from cugen.abi.manifest import (
    ArrayArgument,
    LaunchEntry,
    Manifest,
    ParamArgument,
    ScalarArgument,
    Size,
    TensorMapEntry,
    Texture,
    Upload,
    Workspace,
    has_launch_options,
)
from cugen.emit.sizes import size
from cugen.machine import Target, target
from cugen.plan.context import Context
from cugen.plan.kernel import Kernel, Plan
from cugen.plan.kernel import Texture as PlannedTexture
from cugen.plan.memory import Array as PlannedArray
from cugen.plan.symbols import Integer
from cugen.plan.textures.limits import limits
from cugen.spec.model import Array
from cugen.version import __version__

CARVEOUTS = (7, 0)  # the first capability with a preferred carve-out in percent (CUDA runtime API)


def make_manifest(
    context: Context, plan: Plan, source: str, header: str, typed_header: str, input_hash: str
) -> Manifest:
    """The manifest of the plan's entry point; `source` and the headers are hashed."""
    spec = context.spec
    names = {expr.name: name for name, expr in context.symbols.items()}

    def sized(expr: Integer) -> Size:
        return size(expr, context.ranges, names)

    maps = plan.tensor_maps()
    launches = tuple(_launch(kernel, maps, target(spec.target), sized) for kernel in plan.kernels)
    tensor_maps = tuple(_tensor_map(name, array, sized) for array, name in maps.items())
    textures = tuple(_texture(texture, context, names) for texture in context.textures)
    launch_features = ["launch_options"] if any(map(has_launch_options, launches)) else []
    return Manifest(
        kernel=spec.kernel,
        version=__version__,
        spec_file=spec.file,
        spec_hash=context.original.hash,
        target=spec.target,
        params={p.name: p.value for p in spec.params if p.value is not None},
        arguments=tuple(_arguments(context, plan, sized)),
        workspace=tuple(_workspace(array, context, sized) for array in plan.workspace),
        uploads=tuple(Upload(u.symbol, u.argument, u.bytes) for u in plan.uploads),
        launches=launches,
        require=(*(requirement.text for requirement in spec.require), *texture_limits(context)),
        source_hash=hashlib.sha256(source.encode()).hexdigest(),
        header_hash=hashlib.sha256(header.encode()).hexdigest(),
        typed_header_hash=hashlib.sha256(typed_header.encode()).hexdigest(),
        input_hash=input_hash,
        requires=(*_texture_features(textures, context), *_tensor_features(tensor_maps), *launch_features),
        textures=textures,
        tensor_maps=tensor_maps,
    )


def _arguments(
    context: Context, plan: Plan, sized: Callable[[Integer], Size]
) -> Iterator[ArrayArgument | ScalarArgument | ParamArgument]:
    """In the order of the launcher's parameters: arrays, scalars, params."""
    spec = context.spec
    for declared in spec.arrays:
        if declared.role not in ("input", "output", "inout"):
            continue
        array = context.declared[declared.name]
        alignments = [dict(kernel.alignments).get(declared.name, 0) for kernel in plan.kernels]
        yield ArrayArgument(
            declared.name,
            declared.role,
            declared.dtype.name,
            shape=tuple(map(sized, array.shape)),
            strides=tuple(map(sized, array.strides)),
            elements=sized(context.elements(declared)),
            alignment=max([declared.dtype.bytes, *alignments]),
            boundary=_boundary(declared),
            allocation=declared.memory.allocation,
        )
    yield from (ScalarArgument(s.name, s.dtype.name) for s in spec.scalars if s.value is None)
    for p in (param for param in spec.params if param.is_dynamic):
        yield ParamArgument(p.name, "int32" if p.maximum < 2**31 else "int64", p.minimum, p.maximum, p.multiple_of)


def _workspace(array: PlannedArray, context: Context, sized: Callable[[Integer], Size]) -> Workspace:
    elements, shape = sized(context.elements_of(array)), tuple(map(sized, array.shape))
    return Workspace(array.name, array.dtype.name, elements, shape, array.zeroed, array.left_zero)


def _launch(
    kernel: Kernel, maps: Mapping[PlannedArray, str], target: Target, sized: Callable[[Integer], Size]
) -> LaunchEntry:
    carveout, cache_config, bank_bytes = launch_options(kernel, target)
    return LaunchEntry(
        kernel=kernel.name,
        grid=(sized(kernel.grid[0]), sized(kernel.grid[1]), sized(kernel.grid[2])),
        block=kernel.block,
        shared_bytes=kernel.shared_bytes,
        dynamic_shared_bytes=kernel.dynamic_shared_bytes,
        arguments=kernel.arguments,
        computes="; ".join(kernel.computes),
        cluster=kernel.cluster,
        tensor_maps=tuple(maps[array] for array in kernel.tensor_maps),
        carveout=carveout,
        cache_config=cache_config,
        bank_bytes=bank_bytes,
    )


def launch_options(kernel: Kernel, target: Target) -> tuple[int | None, str, int]:
    """The carve-out, cache configuration and bank width of a launch."""
    percent = kernel.options.carveout
    if percent is None or target.capability >= CARVEOUTS:
        return percent, "", kernel.options.bank_bytes
    size = target.with_carveout(percent, kernel.shared_bytes + kernel.dynamic_shared_bytes).shared_per_sm
    names = {target.carveouts[0]: "prefer_l1", target.carveouts[-1]: "prefer_shared"}
    return None, names.get(size, "prefer_equal"), kernel.options.bank_bytes


def _texture(texture: PlannedTexture, context: Context, names: Mapping[str, str]) -> Texture:
    texture_2d = context.arrays[texture.argument].texture_2d
    if texture_2d is None:
        return Texture(texture.argument)
    width, height, pitch = (size(extent, context.ranges, names) for extent in context.texture_sizes(texture))
    filter = "linear" if texture_2d.is_linear else "point"
    return Texture(texture.argument, width, height, pitch, texture_2d.address_mode, filter)


def _tensor_map(name: str, array: PlannedArray, sized: Callable[[Integer], Size]) -> TensorMapEntry:
    memory = array.tensor_map
    assert memory is not None
    pixels = memory.pixels
    corners = () if pixels is None else (pixels.lower[::-1], pixels.upper[::-1], pixels.steps[::-1])
    return TensorMapEntry(
        name,
        array.name,
        array.dtype.name,
        tuple(sized(extent) for extent in reversed(array.shape)),
        tuple(sized(stride * array.dtype.bytes) for stride in reversed(array.strides[:-1])),
        memory.box[::-1],
        memory.swizzle_bytes,
        memory.rounds_to_tf32,
        *corners,
    )


def _tensor_features(tensor_maps: tuple[TensorMapEntry, ...]) -> Iterator[str]:
    if tensor_maps:
        yield "tensor_maps"
    if any(entry.steps for entry in tensor_maps):
        yield "tensor_maps_im2col"


def _texture_features(textures: tuple[Texture, ...], context: Context) -> Iterator[str]:
    yield from dict.fromkeys(map(_feature, textures))
    if any(context.arrays[texture.argument].dtype.name == "bfloat16" for texture in context.textures):
        yield "texture_bfloat16"


def _feature(texture: Texture) -> str:
    if texture.filter == "linear":
        return "texture_linear"
    return "texture_2d" if texture.address_mode else "texture"


def texture_limits(context: Context) -> tuple[str, ...]:
    """Requirements of sizes that are known at launch: those that texture objects may have."""
    row = target(context.spec.target)
    names = {expr.name: name for name, expr in context.symbols.items()}
    pairs = (
        (size(limit.value, context.ranges, names), limit.maximum)
        for texture in context.textures
        for limit in limits(context.texture_sizes(texture), row)
    )
    return tuple(f"{value} <= {maximum}" for value, maximum in pairs if isinstance(value, str))


def _boundary(declared: Array) -> str:
    if declared.boundary is None:
        return ""
    if declared.boundary.mode == "value":
        return str(declared.boundary.value)
    return declared.boundary.mode
