"""Copies of a k-tile through registers, where an operand has no asynchronous copies: it is loaded before the k steps of
the main loop, which hide the latency, and stored to its stage after them.

Otherwise each k step would wait for the elements that it copies: a compiler moves neither loads nor stores past an MMA.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from cugen.families.gemm.copy.pipeline import CopyOffset, OperandPipeline
from cugen.pieces.kernels import dense_array
from cugen.plan.memory import Access, Array, Vector
from cugen.plan.nodes import Copy, Declare, If, Let, Load, Node, Store
from cugen.plan.symbols import Integer
from cugen.spec.expressions import Const


@dataclass(frozen=True)
class RegisterCopies:
    """The thread's part of the k-tile of one operand, from its loads to its stores: elements, or vectors of them."""

    pipeline: OperandPipeline

    @cached_property
    def _name(self) -> str:
        thread, operand = self.pipeline.thread, self.pipeline.operand
        return thread.lowering.names.allocate(f"{operand.read.array.lower()}_ahead")

    @cached_property
    def _elements(self) -> Array:
        dtype, count = self.pipeline.tile.dtype, self.pipeline.copies_per_thread
        return replace(dense_array(self._name, dtype, (count,), "register"), name=self.pipeline.operand.read.array)

    @cached_property
    def _vectors(self) -> Vector:
        dtype = self.pipeline.tile.dtype
        return Vector(self._name, dtype.compute, dtype, self.pipeline.width, self.pipeline.copies_per_thread)

    @property
    def _are_vectors(self) -> bool:
        return self.pipeline.width > 1

    def declaration(self) -> Node:
        return Let(self._vectors, None, mutable=True) if self._are_vectors else Declare(self._elements)

    def loads(self, k: Integer) -> tuple[Node, ...]:
        """Loads the thread's part of the k-tile at `k` of the block's range, which is within K."""

        def load(first: CopyOffset) -> tuple[Node, ...]:
            definitions, source, guard = self.pipeline.source(k, first, in_bounds=True)
            if self._are_vectors:
                return *definitions, Load(self._vectors.indexed(first.number), source, guard if guard.terms else None)
            copy = Copy(Access(self._elements, (first.number,), "store"), source)
            if not guard.terms:
                return *definitions, copy
            zero = Store(Access(self._elements, (first.number,), "store"), Const(0, self._elements.dtype.compute))
            return *definitions, If(guard, (copy,), (zero,))

        return self.pipeline.each_copy(load)

    def stores(self, stage: Integer) -> tuple[Node, ...]:
        """Stores it to a stage."""

        def store(first: CopyOffset) -> tuple[Node, ...]:
            target = self.pipeline.target(stage, first)
            if self._are_vectors:
                return (Store(target, self._vectors.indexed(first.number)),)
            return (Copy(target, Access(self._elements, (first.number,), "load")),)

        return self.pipeline.each_copy(store)
