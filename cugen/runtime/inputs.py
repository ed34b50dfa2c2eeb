"""Reproducible random inputs."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cugen.abi.codes import PARAM_REFUSED
from cugen.abi.errors import RunError
from cugen.reference.storage import numpy_dtype, store
from cugen.spec.model import Array, Spec
from cugen.spec.prove.drawn import Interval, ascending_axes, drawn_ranges
from cugen.spec.prove.integers import evaluate
from cugen.spec.types import DType, Kind

Number = int | float | bool


@dataclass(frozen=True)
class Inputs:
    """Logical arrays of inputs and inouts, and numbers of scalars without a value, by name."""

    arrays: Mapping[str, NDArray[Any]]
    scalars: Mapping[str, Number]


def known_params(spec: Spec, dynamic: Mapping[str, int]) -> dict[str, int]:
    """Values of all params. KeyError for a dynamic param without a value in `dynamic`."""
    return {p.name: dynamic[p.name] if p.value is None else p.value for p in spec.params}


def shape_of(array: Array, params: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(extent, params) for extent in array.shape)


def refuse_negative_extents(spec: Spec, params: Mapping[str, int]) -> None:
    """RunError (CG5009) where a dimension of an array would have less than no elements. `params` holds all params."""
    for array in spec.arrays:
        for axis, extent in enumerate(shape_of(array, params)):
            if extent < 0:
                given = ", ".join(f"{p.name} = {params[p.name]}" for p in spec.params if p.is_dynamic)
                message = f"dimension {axis} of `{array.name}` would have {extent} elements for {given}"
                raise RunError(PARAM_REFUSED, message, "give other sizes; a condition under `require:` excludes these")


def draw(spec: Spec, params: Mapping[str, int], seed: int, *, exact_up_to: int = 0) -> Inputs:
    """Random inputs. `params` holds all params.

    Floats are uniform in [-1, 1]; integers are within -100 .. 100 (0 .. 200 if unsigned); elements used as subscripts
    are in bounds, as are those of which results that are subscripts are computed. Keys and ends of ranges are about the
    values of the index that they are compared with, and ends ascend. With `exact_up_to` all numbers are
    integers, others of at most that magnitude, for which short dot products are exact in any order. The numbers of an
    array depend on the seed and its name only.
    """
    ranges = drawn_ranges(spec, params)
    arrays = {
        array.name: _draw_array(array, shape_of(array, params), ranges.get(array.name), seed, exact_up_to)
        for array in spec.arrays
        if array.role in ("input", "inout")
    }
    for name, axis in ascending_axes(spec).items():
        if name in arrays:
            arrays[name].sort(axis)
    return Inputs(arrays, draw_scalars(spec, seed, exact_up_to=exact_up_to))


def draw_scalars(spec: Spec, seed: int, *, exact_up_to: int = 0) -> dict[str, Number]:
    """Random numbers for the scalars without a value."""
    return {s.name: _draw_scalar(s.dtype, _source(seed, s.name), exact_up_to) for s in spec.scalars if s.value is None}


def _draw_array(
    array: Array, shape: tuple[int, ...], subscript: Interval | None, seed: int, exact_up_to: int
) -> NDArray[Any]:
    source = _source(seed, array.name)
    dtype = array.dtype
    if subscript is not None and dtype.is_integer:
        low, high = (int(min(max(end, dtype.lowest), dtype.highest)) for end in subscript)
        return source.integers(low, max(low, high), shape, numpy_dtype(dtype), endpoint=True)
    if dtype.kind is Kind.BOOL:
        return source.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float:
        if subscript is not None:
            return _draw_coordinates(source, dtype, shape, subscript, is_whole=bool(exact_up_to))
        if exact_up_to:
            values = source.integers(-exact_up_to, exact_up_to, shape, endpoint=True).astype(np.float64)
        else:
            values = source.uniform(-1.0, 1.0, shape)
        return store(np.asarray(values), dtype)
    magnitude = exact_up_to or 100
    low, high = (-magnitude, magnitude) if dtype.kind is Kind.INT else (0, magnitude if exact_up_to else 200)
    return source.integers(low, high, shape, numpy_dtype(dtype), endpoint=True)


def _draw_coordinates(
    source: np.random.Generator, dtype: DType, shape: tuple[int, ...], within: Interval, *, is_whole: bool
) -> NDArray[Any]:
    """Floats that become subscripts; one that its type rounds out of the range is the lower end."""
    low, high = within
    if is_whole:
        first, last = math.ceil(low), math.floor(high)
        drawn = source.integers(first, max(first, last), shape, endpoint=True).astype(np.float64)
    else:
        drawn = source.uniform(low, high, shape)
    values = store(np.asarray(drawn), dtype)
    return np.where(values.astype(np.float64) > high, store(np.full(shape, float(low)), dtype), values)


def _draw_scalar(dtype: DType, source: np.random.Generator, exact_up_to: int) -> Number:
    """A positive number, as most scalars are scales, divisors or epsilons; exact in its type."""
    if dtype.kind is Kind.BOOL:
        return bool(source.integers(0, 2))
    if dtype.is_integer or exact_up_to:
        number = int(source.integers(1, max(1, min(exact_up_to or 4, 4)), endpoint=True))
        return number if dtype.is_integer else float(number)
    return float(store(np.asarray(source.uniform(0.5, 1.5)), dtype))


def _source(seed: int, name: str) -> np.random.Generator:
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
