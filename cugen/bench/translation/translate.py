"""Translation of a spec to a function of PyTorch or CuPy, as a user would write it.

Reads become slices, missing axes are broadcast, reductions name dimensions, contractions become matrix multiplications,
and windows with taps become convolutions. Elements keep their storage type until they are promoted, as in user code,
where the spec would compute narrow floats in float32; sums accumulate in float32.
"""

from __future__ import annotations

import keyword
from collections.abc import Mapping
from dataclasses import dataclass, replace

from cugen.bench.translation.dialects import Dialect
from cugen.bench.translation.terms import Number, Stored
from cugen.bench.translation.writer import File, Widths, Writer
from cugen.spec.model import Spec
from cugen.spec.prove.integers import evaluate as integer

_TAKEN = ("torch", "cupy", "cupyx", "numpy", "float", "peer")


@dataclass(frozen=True)
class Program:
    """Translated program. `source` defines `peer(...)`, which takes `inputs` by position and returns the tuple of
    outputs."""

    source: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


def program_of(spec: Spec, source: str) -> Program:
    """The program of a source text for a spec. Arrays of constants are inputs."""
    inputs = tuple(a.name for a in spec.arrays if a.role in ("input", "inout", "baked"))
    return Program(source, inputs, tuple(a.name for a in spec.arrays if a.role in ("output", "inout")))


def translate(
    spec: Spec, params: Mapping[str, int], scalars: Mapping[str, Number], dialect: Dialect, *, device: str = "cuda"
) -> Program:
    """Translates a spec. `params`: all params. `scalars`: those without a value in the spec. Raises NoPeer, with the
    reason, if the library has no usual way to express it."""
    program = program_of(spec, "")
    inputs = {name: spec.array(name) for name in program.inputs}
    names = {a.name: a.name if _fits(a.name) else f"array{n}" for n, a in enumerate(spec.arrays)}
    given = {**scalars, **{s.name: s.value for s in spec.scalars if s.value is not None}}
    pads: dict[tuple[str, str], Widths] = {}
    for _ in range(2):  # the second pass knows the maximum padding of each array
        stored = {
            name: Stored(names[name], tuple(integer(n, params) for n in array.shape), array.dtype)
            for name, array in inputs.items()
        }
        file = File(spec, params, given, dialect, device, names, stored, pads)
        for statement in spec.statements:
            Writer(file, statement).write()
    head = f"def peer({', '.join(names[name] for name in inputs)}):"
    results = ", ".join(file.stored[name].name for name in program.outputs)
    source = "\n".join([head, *(f"    {line}" for line in file.lines), f"    return ({results},)"]) + "\n"
    return replace(program, source=source)


def _fits(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and name not in _TAKEN
