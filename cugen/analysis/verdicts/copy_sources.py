"""Source addresses of asynchronous copies by lane, on which the cost of their shared memory side depends."""

from __future__ import annotations

from math import gcd, prod

import numpy as np
import sympy

from cugen.analysis.totals.affine import Numbers, evaluator
from cugen.analysis.totals.budget import Unknown
from cugen.analysis.totals.sites import THREAD, Site
from cugen.machine.requests.async_copies import L1_BYPASS_BYTES, LINE_BYTES, Sources
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.symbols import Integer, Maximum, Minimum, integer


def lane_sources(source: Integer, block: tuple[int, int, int], element_bytes: int) -> Sources | None:
    """Source addresses of the lanes, relative to the warp's lowest; None if warps differ.

    source: offset in elements over base variables.
    """
    return _uniform_sources(source, block, element_bytes, 1)


def _uniform_sources(source: Integer, block: tuple[int, int, int], element_bytes: int, period: int) -> Sources | None:
    """Source addresses of the lanes modulo `period`, equal in all warps; None if warps differ."""
    threads = _threads(block)
    offsets = sympy.expand((source - source.xreplace(dict.fromkeys(THREAD, integer(0)))) * element_bytes)
    if offsets.free_symbols - set(THREAD) or prod(block) % WARP_SIZE:
        return None
    try:
        evaluate = evaluator(offsets, {name: (0, int(values.max())) for name, values in threads.items()})
    except OverflowError as error:
        raise Unknown("the addresses of its sources exceed 64 bits") from error
    addresses = (evaluate(threads) + np.zeros(prod(block), np.int64)).reshape(-1, WARP_SIZE)
    addresses -= addresses.min(axis=1, keepdims=True) // period * period
    return tuple(addresses[0].tolist()) if (addresses == addresses[0]).all() else None


def sources_of(site: Site, block: tuple[int, int, int]) -> Sources:
    """Source addresses of the lanes of every warp; for 16-byte copies relative to a 128-byte line.

    Unknown if the warps of the launch differ.
    """
    if site.source_offset is None:
        raise ValueError(f"{site.access.array.symbol} isn't written by an asynchronous copy")
    element = site.access.array.dtype.bytes
    if element * site.access.width < L1_BYPASS_BYTES:
        sources = lane_sources(site.source_offset, block, element)
    elif starts_lines(site.source_offset, element):
        sources = _uniform_sources(site.source_offset, block, element, LINE_BYTES)
    else:
        raise Unknown("it depends on where its sources are in 128-byte lines")
    if sources is None:
        raise Unknown("the source pattern differs between its warps")
    return sources


def starts_lines(source: Integer, element_bytes: int) -> bool:
    """Whether thread 0 of a block copies from the start of a 128-byte line, for all counter values."""
    start = sympy.expand(source.xreplace(dict.fromkeys(THREAD, integer(0))))
    return _is_multiple(start, LINE_BYTES // element_bytes)


def _is_multiple(value: Integer, divisor: int) -> bool:
    """Whether a value is provably a multiple of `divisor` for all values of its symbols."""
    factor, cofactor = value.as_coeff_Mul()
    divisor //= gcd(int(factor), divisor) if factor.is_Integer else 1
    if divisor == 1:
        return True
    if cofactor.is_Add or isinstance(cofactor, Minimum | Maximum):
        return all(_is_multiple(part, divisor) for part in cofactor.args)
    return bool(cofactor.is_Mul) and any(_is_multiple(part, divisor) for part in cofactor.args)


def _threads(block: tuple[int, int, int]) -> dict[sympy.Symbol, Numbers]:
    linear = np.arange(prod(block))
    coordinates = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
    return dict(zip(THREAD, coordinates, strict=True))
