"""Peers: the same computation by other libraries on the same buffers, compared with cugen's results, then timed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cugen.bench.buffers import Buffers
from cugen.bench.libraries import Absent, Library, Peer, function_of
from cugen.bench.protocol import Contender
from cugen.bench.translation.dialects import NoPeer, Torch
from cugen.bench.translation.translate import Program, program_of, translate
from cugen.reference.storage import numpy_dtype, store
from cugen.spec.model import Array, Spec
from cugen.spec.types import DType

# Maximum difference relative to the largest magnitude: a peer rounds after each operation, a fused kernel once.
_AGREEMENT = {"float64": 1e-8, "float32": 1e-3, "float16": 2e-2, "bfloat16": 6e-2}


@dataclass(frozen=True)
class PeerReport:
    """Report of a peer. `source`: the code that ran. `absent`: the reason if none did. `difference`: maximum from
    cugen's outputs, relative to their largest magnitude."""

    name: str
    version: str
    source: str
    difference: float | None = None
    absent: str = ""


@dataclass(frozen=True)
class Called:
    """Peer given as source text. `source` defines `peer(...)`, which takes the spec's inputs by position and returns
    the tuple of outputs."""

    library: str
    name: str
    source: str


def is_product(spec: Spec, params: Mapping[str, int], scalars: Mapping[str, int | float | bool]) -> bool:
    """Whether PyTorch computes the spec by a matrix multiplication, which is then the ceiling instead of memory."""
    try:
        source = translate(spec, params, scalars, Torch()).source
    except NoPeer:
        return False
    return "torch.matmul(" in source or "torch.einsum(" in source


def enter(
    library: Library,
    spec: Spec,
    buffers: Buffers,
    scalars: Mapping[str, int | float | bool],
    called: Called | None = None,
) -> tuple[PeerReport, Contender | None]:
    """Makes a library a contender if its result on set 0 agrees with cugen's."""
    name = called.name if called else library.name
    source = ""
    try:
        if called:
            program = program_of(spec, called.source)
        else:
            program = translate(spec, buffers.params, scalars, library.dialect)
        source = program.source
        peer = function_of(source, f"<{name} of {spec.kernel}>", library.namespace())
        run = library.on_stream(library.compiled(peer))
        arguments = [_arguments(library, spec, buffers, program, number) for number in range(buffers.count)]
        results = run(*arguments[-1])  # of an unused set, since inouts change
        difference = _difference(library, buffers, program, results)
    except (NoPeer, Absent) as error:
        return PeerReport(name, library.version, source, absent=str(error)), None
    except Exception as error:  # libraries raise arbitrary exceptions
        said = (str(error).strip().splitlines() or [""])[0]
        return PeerReport(name, library.version, source, absent=f"{type(error).__name__}: {said}"), None
    dtypes = [buffers.array_buffer(output).dtype for output in program.outputs]
    if not difference <= max(map(_agreement, dtypes)):
        reason = f"its result differs from ours by {difference:.3g} of the largest element"
        return PeerReport(name, library.version, source, difference, reason), None
    return PeerReport(name, library.version, source, difference), Contender(name, _kept(run, arguments))


def _kept(run: Peer, arguments: Sequence[Sequence[Any]]) -> Any:
    """Runs a peer on a set and keeps the results of each set until its next run, so that its outputs cycle through
    memory like cugen's."""
    results: dict[int, tuple[Any, ...]] = {}

    def queue(number: int) -> None:
        results.pop(number, None)  # before the run, so that the allocator reuses its memory
        results[number] = run(*arguments[number])

    return queue


def _arguments(library: Library, spec: Spec, buffers: Buffers, program: Program, number: int) -> Sequence[Any]:
    arrays = buffers.arrays(number)
    constants = {a.name: a for a in spec.arrays if a.values is not None}
    return [
        _constant(library, constants[name], buffers.params) if name in constants else library.array(arrays[name])
        for name in program.inputs
    ]


def _constant(library: Library, array: Array, params: Mapping[str, int]) -> Any:
    from cugen.runtime.inputs import shape_of

    assert array.values is not None
    dtype = numpy_dtype(array.dtype)
    shape = shape_of(array, params)
    values = np.array(array.values.data, np.float64 if array.dtype.is_float else dtype).reshape(shape)
    return library.constant(store(values, array.dtype) if array.dtype.is_float else values, array.dtype)


def _difference(library: Library, buffers: Buffers, program: Program, results: Sequence[Any]) -> float:
    ours = buffers.arrays(0)
    worst = 0.0
    for name, result in zip(program.outputs, results, strict=True):
        expected = library.array(ours[name])
        if tuple(result.shape) != buffers.array_buffer(name).shape:
            raise NoPeer(f"its `{name}` has shape {tuple(result.shape)}")
        if str(result.dtype) != str(expected.dtype):
            raise NoPeer(f"its `{name}` is {result.dtype}")
        distance, largest = library.difference(result, expected)
        worst = max(worst, distance / largest if largest else distance)
    return worst


def _agreement(dtype: DType) -> float:
    return _AGREEMENT.get(dtype.name, 0.25 if dtype.is_float else 0.0)
