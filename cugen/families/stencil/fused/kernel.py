"""The kernel of two fused stencils: a block computes a tile of the intermediate array, then the outputs from it."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.stencil.fused.tile import FusedStencil, IntermediateTile
from cugen.families.stencil.kernel import StencilBuilder
from cugen.families.stencil.register_window import (
    RegisterWindow,
    join_ranges,
    load_window,
    make_window,
    project,
    widen_ranges,
)
from cugen.families.stencil.taps import literal_taps
from cugen.pieces.blocks import thread
from cugen.pieces.kernels import assemble
from cugen.pieces.placement import stage_inputs
from cugen.pieces.sections import SectionGroup
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, Declare, Section
from cugen.plan.request import Request
from cugen.plan.symbols import Integer


class FusedStencilBuilder:
    """Builds the kernel of one group of statements."""

    def __init__(self, request: Request, fused: FusedStencil) -> None:
        self.request, self.fused, self.config = request, fused, fused.config
        from_memory = {
            name: footprint for name, footprint in fused.second_footprints.items() if name != fused.footprint.array
        }
        self.builder = StencilBuilder(fused.second, from_memory, fused.config)
        self.lowering = self.builder.lowering
        self.tile = IntermediateTile(fused, self.lowering)

    def kernel(self) -> Kernel:
        builder, config, tile = self.builder, self.config, self.tile
        blocks = builder.blocks()
        x, y, *_ = (*(config.threads[index.name] for index in config.order[:2]), 1)
        staged, prologue = stage_inputs(self.request, self.lowering, (x, y, 1))
        taps, declared = literal_taps(self.request, self.lowering)
        self.lowering.arrays = {**self.lowering.arrays, **staged, **taps}
        origin = tile.define_origin(dict(zip((index.name for index in config.order), blocks.coordinates, strict=True)))
        fill = tile.fill()
        indices = builder.indices(blocks)
        origins = dict(self.lowering.symbols)
        windows = builder.make_windows()
        loads = [load_window(self.lowering, window, origins, config.outputs) for window in windows]
        loads.append(self._load_from_tile())
        sections = (
            *prologue,
            Section("taps", declared),
            Section("tile", (Declare(tile.array), *origin)),
            *fill,
            Section("tile_stored", (Barrier(),)),
            Section("indices", indices),
            Section("windows", tuple(loads)),
            *builder.outputs(origins),
        )
        join_ranges(self.lowering.ranges, tile.lowering.ranges)
        widen_ranges(sections, self.lowering.ranges)
        parts = [(section.name, section.body) for section in sections]
        kernel = assemble(
            self.request,
            self.lowering,
            "fused_stencil",
            parts,
            blocks.grid,
            (x, y, 1),
            alignments=self._alignments([*windows, *tile.windows]),
        )
        return replace(kernel, reasons=self._reasons())

    def _load_from_tile(self) -> SectionGroup:
        footprint, config, lowering = self.fused.footprint, self.config, self.lowering
        name = lowering.names.allocate(f"{footprint.array.lower()}_window")
        window = make_window(footprint, self.tile.source, config.along, config.outputs, config.width, name)
        lowering.windows.update(dict.fromkeys(footprint.reads, window))
        origins: dict[str, Integer] = {}
        for index, direction in zip(config.order[:2], "xy", strict=False):
            output = thread(direction, config.threads[index.name], lowering) * config.outputs[index.name]
            origins[index.name] = output - self.fused.tile_offset(footprint.axes[footprint.axis_along(index.name)])
        return load_window(lowering, project(window, self.fused.dimensions, self.tile.array), origins, config.outputs)

    def _alignments(self, windows: list[RegisterWindow]) -> tuple[tuple[str, int], ...]:
        """The alignments that vector accesses of both statements require."""
        alignments = dict(self.builder.alignments(windows))
        return tuple((a.name, alignments[a.name]) for a in self.request.context.spec.arrays if a.name in alignments)

    def _reasons(self) -> tuple[str, ...]:
        size = " x ".join(str(int(extent)) for extent in self.tile.array.shape)
        name = self.fused.footprint.array
        return (
            f"{name} stays in a shared-memory tile of {size}: a block computes {self.fused.redundancy:.2f} elements"
            f" of it per output",
        )
