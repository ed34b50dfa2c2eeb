"""Expressions of pipelines: over threads, blocks, k-tiles and output tiles, which have no names in C."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import sympy

from cugen.analysis.totals.affine import evaluator
from cugen.plan.nodes import Comparison
from cugen.plan.symbols import FloorDiv, Integer, Mod, integer, symbol

THREAD, BLOCK = symbol("threadIdx.x"), symbol("blockIdx.x")
BLOCK_ID = symbol("dynamic block id")
FILL, K_TILE, WAVE = symbol("fill number"), symbol("k-tile number"), symbol("wave number")


def of_rank(expr: Integer, rank: int, size: int) -> Integer:
    """The value of an expression in the block `rank` of a cluster of so many."""
    return reduced(expr.xreplace({BLOCK: size * symbol("cluster number") + rank}))


def is_of_tile(term: Comparison) -> bool:
    """Whether it is the same for all k-tiles of an output tile."""
    return K_TILE not in (term.left - term.right).free_symbols


def first_k_tile(term: Comparison) -> int | None:
    """The first k-tile of an output tile from which on a comparison holds; None if there is none for all sizes."""
    difference = sympy.expand(term.left - term.right)
    slope, offset = difference.coeff(K_TILE, 1), difference.coeff(K_TILE, 0)
    if not (slope.is_Integer and offset.is_Integer) or slope <= 0 or sympy.expand(slope * K_TILE + offset - difference):
        return None
    match term.operator:
        case ">":
            return max(int(-offset) // int(slope) + 1, 0)
        case ">=":
            return max(-(int(offset) // int(slope)), 0)
    return None


@lru_cache(maxsize=4096)
def numbered(expr: Integer, base: Integer | None) -> Integer:
    """The expression with every part that is FILL plus a constant replaced by that."""
    if base is None or not expr.free_symbols & {WAVE, K_TILE, *base.free_symbols}:
        return expr
    difference = sympy.expand(reduced(expr) - base)
    if difference.is_Integer:
        return FILL + difference
    return expr.func(*(numbered(arg, base) for arg in expr.args)) if expr.args else expr


@lru_cache(maxsize=4096)
def reduced(expr: Integer) -> Integer:
    """The expression without multiples of the divisor under FloorDiv and Mod."""
    if not expr.args:
        return expr
    expr = expr.func(*map(reduced, expr.args))
    if not isinstance(expr, FloorDiv | Mod) or not expr.args[1].is_Integer:
        return expr
    divisor = integer(int(expr.args[1]))
    terms = sympy.Add.make_args(sympy.expand(expr.args[0]))
    constant = sum((term for term in terms if term.is_Integer), sympy.S.Zero)
    terms = [*(term for term in terms if not term.is_Integer), divisor * (constant // divisor), constant % divisor]
    multiples = [term for term in terms if term.as_coeff_Mul()[0] % divisor == 0]
    remainder = sympy.Add(*(term for term in terms if term not in multiples))
    if isinstance(expr, Mod):
        return Mod(remainder, divisor)
    return sympy.Add(*(term / divisor for term in multiples)) + FloorDiv(remainder, divisor)


def evaluated(expr: Integer, threads: Any) -> Any:
    """The values of an expression over THREAD, one for each thread."""
    values = evaluator(expr, {THREAD: (0, int(threads.max(initial=0)))})({THREAD: threads})
    return np.broadcast_to(values, threads.shape)
