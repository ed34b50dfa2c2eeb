"""The kernel of a cascade: a block fills a tile with the first statement's results, then takes windows from it."""

from __future__ import annotations

from dataclasses import replace

from cugen.families.stencil.fused.tile import Cascade, Tile
from cugen.families.stencil.kernel import Builder
from cugen.families.stencil.register_window import Held, hold, join_ranges, load_window, restricted, widen_ranges
from cugen.families.stencil.taps import literal_taps
from cugen.pieces.blocks import thread
from cugen.pieces.kernels import assemble
from cugen.pieces.placement import place
from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, Declare, Node
from cugen.plan.request import Request
from cugen.plan.symbols import Integer


class CascadeBuilder:
    """The kernel of one group."""

    def __init__(self, request: Request, cascade: Cascade) -> None:
        self.request, self.cascade, self.shape = request, cascade, cascade.shape
        own = {name: window for name, window in cascade.after.items() if name != cascade.window.array}
        self.builder = Builder(cascade.second, own, cascade.shape)
        self.lowering = self.builder.lowering
        self.tile = Tile(cascade, self.lowering)

    def kernel(self) -> Kernel:
        builder, shape, tile = self.builder, self.shape, self.tile
        blocks = builder.blocks()
        across, down, *_ = (*(shape.threads[index.name] for index in shape.order[:2]), 1)
        staged, prologue = place(self.request, self.lowering, (across, down, 1))
        taps, declared = literal_taps(self.request, self.lowering)
        self.lowering.arrays = {**self.lowering.arrays, **staged, **taps}
        starts = tile.starts(dict(zip((index.name for index in shape.order), blocks.places, strict=True)))
        fill = tile.fill()
        indices = builder.indices(blocks)
        origins = dict(self.lowering.symbols)
        held = builder.hold()
        loads = [node for one in held for node in load_window(self.lowering, one, origins, shape.outputs)]
        loads += self._from_tile()
        outputs = builder.outputs(origins)
        parts = (
            ("staging", (*prologue, *declared)),
            ("tile", (Declare(tile.array), *starts)),
            ("filling", (*fill, Barrier())),
            ("indices", indices),
            ("windows", tuple(loads)),
            ("outputs", outputs),
        )
        join_ranges(self.lowering.ranges, tile.lowering.ranges)
        widen_ranges(tuple(node for _, nodes in parts for node in nodes), self.lowering.ranges)
        kernel = assemble(
            self.request,
            self.lowering,
            "cascade",
            parts,
            blocks.grid,
            (across, down, 1),
            alignments=self._alignments([*held, *tile.held]),
        )
        return replace(kernel, reasons=self._reasons())

    def _from_tile(self) -> tuple[Node, ...]:
        window, shape, lowering = self.cascade.window, self.shape, self.lowering
        name = lowering.names.allocate(f"{window.array.lower()}_window")
        held = hold(window, self.tile.source, shape.along, shape.outputs, shape.width, name)
        lowering.held.update(dict.fromkeys(window.reads, held))
        origins: dict[str, Integer] = {}
        for index, direction in zip(shape.order[:2], "xy", strict=False):
            own = thread(direction, shape.threads[index.name], lowering) * shape.outputs[index.name]
            origins[index.name] = own - self.cascade.first_of(window.axes[window.axis_along(index.name)])
        return load_window(lowering, restricted(held, self.cascade.kept, self.tile.array), origins, shape.outputs)

    def _alignments(self, held: list[Held]) -> tuple[tuple[str, int], ...]:
        """What wide accesses ask of the arguments of both statements."""
        asked = dict(self.builder.alignments(held))
        return tuple((a.name, asked[a.name]) for a in self.request.context.spec.arrays if a.name in asked)

    def _reasons(self) -> tuple[str, ...]:
        cells = " x ".join(str(int(extent)) for extent in self.tile.array.shape)
        name = self.cascade.window.array
        return (
            f"{name} stays in a tile of {cells} in shared memory: a block computes {self.cascade.again:.2f} elements of"
            f" it for each of its outputs",
        )
