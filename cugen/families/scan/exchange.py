"""The block-level part of a scan: groups of threads exchange their aggregates through shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from cugen.families.scan.scan_loop import ScanLoop
from cugen.families.scan.thread_scan import ThreadScan
from cugen.pieces.kernels import dense_array
from cugen.pieces.loop_variables import unrolled
from cugen.plan.memory import Access, Element
from cugen.plan.nodes import Assign, Barrier, Index, Node, Section, Store, when
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Local


class Exchange:
    """An array of `sizes` in shared memory for each scan; a group of threads has its aggregates at `subscripts`."""

    def __init__(
        self,
        thread_scan: ThreadScan,
        loop: ScanLoop,
        sizes: Sequence[int],
        subscripts: Callable[[Integer], tuple[Integer, ...]],
    ) -> None:
        self.names, self.registers = thread_scan.names, thread_scan.registers
        self.buffer, self.subscripts = loop.buffer_index, subscripts
        sizes = (2, *sizes) if self.buffer else sizes
        self.arrays = [dense_array(n.shared, n.scan.dtype, sizes, "shared") for n in self.names]

    def store(self, group: Integer, values: Iterable[Local]) -> tuple[Node, ...]:
        """Stores the aggregates of a group, one per scan."""
        accesses = self._accesses(group, "store")
        return tuple(Store(access, value) for access, value in zip(accesses, values, strict=True))

    def scan(self, index: Index, group: Integer, prefixes: Iterable[Local]) -> tuple[Node, ...]:
        """The loop over all groups that extends `block_total`; before the thread's own `group` it is the prefix."""
        set_prefixes = tuple(Assign(prefix, n.block_total) for prefix, n in zip(prefixes, self.names, strict=True))
        loads = map(Element.of, self._accesses(index.symbol, "load"))
        add = [n.add(self.registers.value(n.block_total), load) for n, load in zip(self.names, loads, strict=True)]
        return (unrolled(index, (when(index.symbol, "==", group, set_prefixes), *self.registers.each_column(add))),)

    def _accesses(self, group: Integer, kind: str) -> list[Access]:
        return [Access(array, (*self.buffer, *self.subscripts(group)), kind) for array in self.arrays]


def exchange_sections(store: Iterable[Node], scan: Iterable[Node]) -> tuple[Section, ...]:
    """Stores of all threads, and after a barrier the scan of what they stored."""
    return (
        Section("store_aggregates", tuple(store)),
        Section("aggregates_stored", (Barrier(),)),
        Section("scan_aggregates", tuple(scan)),
    )
