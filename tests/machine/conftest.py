"""Addresses of warps as the tests of requests write them."""

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
