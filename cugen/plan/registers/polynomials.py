"""Integer expressions as polynomials, far cheaper than sympy's expansion.

A polynomial maps monomials, sorted tuples of atoms, to coefficients. Atoms are symbols, and functions that aren't
polynomial, such as a floor division.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import sympy

from cugen.plan.symbols import Integer

Monomial: TypeAlias = tuple[sympy.Expr, ...]
Polynomial: TypeAlias = dict[Monomial, int]

CONSTANT: Monomial = ()


def polynomial(expr: Integer, values: Mapping[sympy.Symbol, Polynomial]) -> Polynomial:
    """The expression with some symbols replaced by polynomials."""
    if expr.is_Integer:
        return {CONSTANT: int(expr)} if expr != 0 else {}
    if expr.is_Symbol:
        return values.get(expr, {(expr,): 1})
    if expr.is_Add:
        total: Polynomial = {}
        for arg in expr.args:
            total = add(total, polynomial(arg, values))
        return total
    if expr.is_Mul:
        product: Polynomial = {CONSTANT: 1}
        for arg in expr.args:
            product = multiply(product, polynomial(arg, values))
        return product
    return {(expr,): 1}


def add(left: Polynomial, right: Polynomial) -> Polynomial:
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    product: Polynomial = {}
    for first, factor in left.items():
        for second, coefficient in right.items():
            monomial = tuple(sorted((*first, *second), key=str)) if first and second else first or second
            product[monomial] = product.get(monomial, 0) + factor * coefficient
    return {monomial: coefficient for monomial, coefficient in product.items() if coefficient}
