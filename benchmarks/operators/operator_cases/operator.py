"""An operator of the list: its spec at full or other sizes, and PyTorch's function for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.timing.cases import Case, spec_text
from cugen.bench.peers import Called

F32, F16, BF16, I32, I64 = "float32", "float16", "bfloat16", "int32", "int64"


@dataclass(frozen=True)
class Operator:
    """An operator as its user writes it. `sizes`: extents that any size may replace; `derived`: params that follow from
    them, with taps, strides and groups. `min_sizes`: the smallest value of a size, 1 by default. `peer`: PyTorch's
    expression of the inputs. `more`: other keys of the spec. `has_algorithms`: cuDNN has several, of which
    `torch.backends.cudnn.benchmark` takes the fastest. `is_compiled`: torch.compile is a peer, too."""

    name: str
    group: str
    sizes: Mapping[str, int]
    arrays: Mapping[str, str]
    compute: str
    peer: str
    derived: Mapping[str, int | str] = field(default_factory=dict)
    min_sizes: Mapping[str, int] = field(default_factory=dict)
    more: str = ""
    has_algorithms: bool = False
    is_compiled: bool = False

    @property
    def kernel(self) -> str:
        """The name in C."""
        return re.sub(r"\W+", "_", self.name.lower()).strip("_")

    @property
    def inputs(self) -> tuple[str, ...]:
        """The arrays that no statement writes."""
        written = {re.split(r"[\[ =]", line.strip())[0] for line in self.compute.splitlines()}
        return tuple(name for name in self.arrays if name not in written)

    def spec(self, sizes: Mapping[str, int] | None = None, more: str = "") -> str:
        """Text of the spec, at other sizes than the full ones where they are given."""
        params = {**self.sizes, **(sizes or {}), **self.derived}
        return spec_text(self.kernel, params, self.arrays, self.compute, "\n".join(filter(None, (self.more, more))))

    def source(self, before: str = "") -> str:
        """PyTorch's function of the inputs, with a statement that precedes the operator."""
        head = f"    {before}\n" if before else ""
        return f"def peer({', '.join(self.inputs)}):\n{head}    return ({self.peer},)\n"

    def case(self) -> Case:
        """The operator with its peers."""
        if self.has_algorithms:
            choices = {"torch": False, "cudnn.benchmark": True}
            called = [
                Called("torch", name, self.source(f"torch.backends.cudnn.benchmark = {searches}"))
                for name, searches in choices.items()
            ]
        else:
            called = [Called("torch", "torch", self.source())]
        if self.is_compiled:
            called.append(Called("triton", "torch.compile", self.source()))
        return Case(self.name, self.group, self.spec(), against=(), called=tuple(called))
