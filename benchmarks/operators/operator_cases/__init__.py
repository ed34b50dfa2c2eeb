"""Operators of neural networks and of numerical work, one module for each class."""

from __future__ import annotations

from . import chains, convolutions, elementwise, losses, norms, pooling, products, reductions, scans
from .operator import Operator

__all__ = ["Operator", "operators"]


def operators() -> tuple[Operator, ...]:
    """All operators, in the order of the page."""
    parts = (
        convolutions.operators(),
        convolutions.transposed_operators(),
        chains.convolutions(),
        elementwise.operators(),
        losses.operators(),
        reductions.operators(),
        norms.operators(),
        pooling.operators(),
        scans.operators(),
        products.operators(),
        chains.products(),
    )
    listed = tuple(operator for part in parts for operator in part)
    assert len({operator.name for operator in listed}) == len(listed)
    assert len({operator.kernel for operator in listed}) == len(listed)
    return listed
