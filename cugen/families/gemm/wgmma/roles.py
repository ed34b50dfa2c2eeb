"""The roles of a block's warps in a warp-specialised GEMM: one thread copies k-tiles, warpgroups multiply them."""

from __future__ import annotations

from cugen.families.gemm.config import WARP
from cugen.families.gemm.wgmma.config import PRODUCER_REGISTERS, WgmmaConfig, available_registers
from cugen.machine import Target
from cugen.plan.nodes import Comparison, Guard, If, Node, Section, when
from cugen.plan.pipeline_nodes import SetMaxRegisters
from cugen.plan.symbols import Integer, integer


class Roles:
    """What the threads of a block execute by their number, `thread`: consumers come first, the producer after them."""

    def __init__(self, config: WgmmaConfig, target: Target, thread: Integer) -> None:
        self.config, self.target, self.thread = config, target, thread
        self.consumer_threads = integer(config.consumer_threads)

    def copying_first(
        self, initialisation: tuple[Node, ...], producing: tuple[Section, ...], consuming: tuple[Section, ...]
    ) -> tuple[Section, ...]:
        """One thread copies all k-tiles before the barrier of the block, for none of which it waits, so that the
        latency of the copies begins with the kernel. What follows the barrier is the last section."""
        first = Section("initialise", initialisation), *producing
        producer = If(self._producing(Comparison(self.thread, ">=", self.consumer_threads)), first)
        consumers = when(self.thread, "<", self.consumer_threads, consuming)
        return Section("copies_first", (producer,)), Section("roles", (consumers,))

    def specialised(
        self,
        initialisation: tuple[Node, ...],
        producing: tuple[Section, ...],
        consuming: tuple[Section, ...],
    ) -> tuple[Section, ...]:
        """One thread initialises the barriers; after the barrier of the block, the last section, warps have their
        roles. Of a producer warpgroup only the first warp copies."""
        of_warp = [Comparison(self.thread, "<", self.consumer_threads + WARP)] if self.config.gives_registers else []
        producer = If(self._producing(*of_warp), producing)
        producers = self._registers(increases=False), Section("producer", (producer,))
        consumers = self._registers(increases=True), *consuming
        init = when(self.thread, "==", integer(0), initialisation)
        roles = when(self.thread, ">=", self.consumer_threads, producers, consumers)
        return Section("initialise_barriers", (init,)), Section("roles", (roles,))

    def _producing(self, *of_warp: Comparison) -> Guard:
        """The condition of the thread that copies, in a branch of its warp where no comparisons choose that."""
        return Guard((Comparison(self.thread, "==", self.consumer_threads),), of_warp)

    def _registers(self, *, increases: bool) -> Section:
        """What consumers take (`increases`) of the producer's registers."""
        target, count = self.target, PRODUCER_REGISTERS
        if increases:
            count = available_registers(self.config, target.registers_per_sm, target.registers_per_thread)
        return Section("registers", (SetMaxRegisters(count, increases),) if self.config.gives_registers else ())
