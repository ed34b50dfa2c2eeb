"""Draws valid specs: statements × sizes × strides × types × spellings.

A spec is drawn from its seed alone, so that `python -m tests.fuzz --seed S --count 1` repeats it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

from cugen.spec.parse.keys import TEXTURE_TYPES

FLOATS = ("float32", "float32", "float32", "float64", "float16", "bfloat16")
NARROW_FLOATS = ("float8_e4m3", "float8_e5m2")
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "int64")
TARGETS = ("sm_60", "sm_75", "sm_80", "sm_86", "sm_90", "sm_90", "sm_90", "sm_100", "sm_120")
BOUNDARIES = ("zero", "zero", "clamp", "wrap", "reflect", "symmetric", "{value: 3}")
MAX_ELEMENTS = 2**31 - 1  # of an array
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 31, 37, 61, 67, 127, 131, 251, 257, 509, 1021, 2053, 4099, 50021)

T = TypeVar("T")


@dataclass
class Drawing:
    """One spec under construction. Extents are drawn as numbers, and written as params or as literals."""

    random: Random
    params: dict[str, int] = field(default_factory=dict)
    dynamic: dict[str, str] = field(default_factory=dict)  # what is written for dynamic params
    steps: dict[str, int] = field(default_factory=dict)  # what their values are multiples of
    arrays: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the arrays
    indices: dict[str, str] = field(default_factory=dict)
    scalars: dict[str, dict[str, object]] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    is_dynamic: bool = False

    # Choices

    def one_of(self, *choices: T) -> T:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def between(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def size(self, limit: int = 1 << 22) -> int:
        """An extent up to `limit`: a power of two or next to it, a prime, a multiple of 4 or any number."""
        limit = max(1, limit)
        magnitude = 2 ** self.random.uniform(0, math.log2(limit)) if limit > 1 else 1
        power = 1 << round(math.log2(magnitude))
        size = self.one_of(
            power,
            power,
            power + self.one_of(-1, 1),
            min(_PRIMES, key=lambda prime: abs(math.log(prime / magnitude))),
            4 * round(magnitude / 4),
            100 * round(magnitude / 100),
            round(magnitude),
        )
        return max(1, min(size, limit))

    def sizes(self, count: int, elements: int = 1 << 28) -> list[int]:
        """Extents of an array of at most so many elements, in random order."""
        sizes: list[int] = []
        for left in range(count, 0, -1):
            limit = elements // math.prod(sizes)
            sizes.append(self.size(limit if left == 1 else int(limit ** self.random.uniform(0.2, 0.9))))
        self.random.shuffle(sizes)
        return sizes

    def dtype(self) -> str:
        """Mostly floats."""
        return self.one_of(*FLOATS) if self.chance(75) else self.one_of(*INTEGERS, *NARROW_FLOATS)

    def float_dtype(self) -> str:
        return self.one_of(*FLOATS)

    # What is written

    def extent(self, name: str, size: int, multiple: int = 1) -> str:
        """An extent as a param or a literal. A dynamic one is a multiple of `multiple` in every call."""
        if self.chance(20) and not self.is_dynamic:
            return str(size)
        while name in self.params:
            name += "x"
        self.params[name] = size
        if self.is_dynamic and self.chance(60):
            step = multiple * self.one_of(1, 1, 4, 8)
            forms = ["dynamic", f"{{range: [1, {max(size, 1)}]}}"] if step == 1 else []
            self.dynamic[name] = self.one_of(*forms, f"{{multiple_of: {step}}}")
            self.steps[name] = step
        return name

    def array(self, name: str, shape: Sequence[str], dtype: str, *, boundary: str = "", is_output: bool = False) -> str:
        """Declares an array, sometimes with another layout than the dense one; its name."""
        keys = [f"shape: [{', '.join(shape)}]", f"dtype: {dtype}"]
        if boundary:
            keys.append(f"boundary: {boundary}")
        if len(shape) > 1 and self.chance(12):
            keys.append(self.one_of("pitch: {align: 128}", "layout: column"))
        elif not is_output and self.chance(8):
            keys.append(f"memory: {self.one_of('readonly', 'texture') if dtype in TEXTURE_TYPES else 'readonly'}")
        self.names.append(name)
        self.arrays.append(f"  {name}: {{{', '.join(keys)}}}")
        return name

    def sizes_at_run_time(self) -> dict[str, int]:
        """Values for the dynamic params; now and then one of them is 0, where it may be."""
        sizes = {name: -(-self.params[name] // self.steps[name]) * self.steps[name] for name in self.dynamic}
        drawn = Random(f"empty {sorted(sizes.items())}")
        for name in drawn.sample(sorted(sizes), len(sizes) if drawn.randrange(3) == 0 else 0)[:1]:
            sizes[name] *= "range" in self.dynamic[name]
        return sizes

    def text(self) -> str:
        params = ", ".join(f"{name}: {self.dynamic.get(name, size)}" for name, size in self.params.items())
        indices = ", ".join(f"{name}: {extent}" for name, extent in self.indices.items())
        lines = ["cugen: 1", "kernel: drawn", f"target: {self.one_of(*TARGETS)}", f"params: {{{params}}}", "arrays:"]
        if self.scalars:
            lines.insert(-1, f"scalars: {json.dumps(self.scalars)}")
        lines += [*self.arrays, f"indices: {{{indices}}}", "compute: |", *(f"  {line}" for line in self.statements)]
        return "\n".join(lines) + "\n"
