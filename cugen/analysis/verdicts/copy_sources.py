"""Where the lanes of asynchronous copies read from: what the cost of their shared side depends on."""

from __future__ import annotations

from collections.abc import Callable
from math import gcd, prod
from typing import Any

import numpy as np
import sympy

from cugen.analysis.totals.affine import Numbers, Values, evaluator
from cugen.analysis.totals.exact import Unknown
from cugen.analysis.totals.sites import THREAD, Site
from cugen.machine.requests.async_copies import L1_BYPASS_BYTES, LINE_BYTES, Sources
from cugen.machine.requests.warp import WARP_SIZE
from cugen.plan.symbols import Integer, Maximum, Minimum, integer


def lane_sources(source: Integer, block: tuple[int, int, int], element_bytes: int) -> Sources | None:
    """The addresses that the lanes of a warp copy from, counted from the warp's lowest; None where warps differ.

    `source` is an offset in elements over base variables."""
    return _alike(source, block, element_bytes, 1)


def _alike(source: Integer, block: tuple[int, int, int], element_bytes: int, period: int) -> Sources | None:
    """Where the lanes of every warp copy from, but for a number of periods; None where warps differ by more."""
    moved = _moved(source)
    if moved is None or prod(block) % WARP_SIZE:
        return None
    addresses = (moved(_threads(block)) * element_bytes + np.zeros(prod(block), np.int64)).reshape(-1, WARP_SIZE)
    addresses -= addresses.min(axis=1, keepdims=True) // period * period
    return tuple(addresses[0].tolist()) if (addresses == addresses[0]).all() else None


def sources_of(site: Site, block: tuple[int, int, int]) -> Sources:
    """Where the lanes of every warp copy from: counted from any start below 16 bytes a lane, else from that of a line.

    Unknown where the warps of the launch differ in that."""
    if site.source_offset is None:
        raise ValueError(f"{site.access.array.symbol} isn't written by an asynchronous copy")
    element = site.access.array.dtype.bytes
    if element * site.access.width < L1_BYPASS_BYTES:
        found = lane_sources(site.source_offset, block, element)
    elif starts_lines(site.source_offset, element):
        found = _alike(site.source_offset, block, element, LINE_BYTES)
    else:
        raise Unknown("its warps may copy from different parts of lines of 128 bytes")
    if found is None:
        raise Unknown("its warps don't all copy from places that lie alike")
    return found


def starts_lines(source: Integer, element_bytes: int) -> bool:
    """Whether a block's first thread copies from the start of a line of 128 bytes, wherever the counters stand."""
    start = sympy.expand(source.xreplace(dict.fromkeys(THREAD, integer(0))))
    return _is_multiple(start, LINE_BYTES // element_bytes)


def _is_multiple(value: Integer, divisor: int) -> bool:
    """Whether a value is a multiple of `divisor` whatever its symbols stand for; False where that isn't seen."""
    factor, rest = value.as_coeff_Mul()
    divisor //= gcd(int(factor), divisor) if factor.is_Integer else 1
    if divisor == 1:
        return True
    if rest.is_Add or isinstance(rest, Minimum | Maximum):
        return all(_is_multiple(part, divisor) for part in rest.args)
    return bool(rest.is_Mul) and any(_is_multiple(part, divisor) for part in rest.args)


def _moved(source: Integer) -> Callable[[Values], Any] | None:
    """How far a thread's source lies from that of the block's first; None where more than its place decides that."""
    moved = sympy.expand(source - source.xreplace(dict.fromkeys(THREAD, integer(0))))
    return None if moved.free_symbols - set(THREAD) else evaluator(moved)


def _threads(block: tuple[int, int, int]) -> dict[sympy.Symbol, Numbers]:
    linear = np.arange(prod(block))
    places = (linear % block[0], linear // block[0] % block[1], linear // (block[0] * block[1]))
    return dict(zip(THREAD, places, strict=True))
