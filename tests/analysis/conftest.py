"""Addresses of warps, as the tests of requests write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Addresses = list[int | None]


@pytest.fixture(scope="session")
def strided() -> Callable[..., Addresses]:
    """Byte addresses of elements `stride` elements apart; lanes from `active` on are inactive."""

    def build(stride: int, width: int = 4, *, offset: int = 0, active: int = 32) -> Addresses:
        return [(offset + stride * lane) * width if lane < active else None for lane in range(32)]

    return build


@pytest.fixture(scope="session")
def block_16x16() -> Callable[..., list[Addresses]]:
    """One list of addresses for each of the 8 warps of a 16×16 block; `element(tx, ty)` is an index of floats."""

    def build(element: Callable[[int, int], int]) -> list[Addresses]:
        return [[4 * element(t % 16, t // 16) for t in range(start, start + 32)] for start in range(0, 256, 32)]

    return build
