"""`warp_request`: the memory requests, wavefronts and sectors of one warp instruction on a target."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex, get_args

from cugen.machine.requests import async_copies, atomics, constant, local, matrix, segments, shared
from cugen.machine.requests.warp import WARP_SIZE, Lanes, WarpRequest, active
from cugen.machine.table import target as known_target
from cugen.machine.target import Cache, Target

__all__ = ["WarpRequest", "warp_request"]

_WIDTHS = {
    "load": (1, 2, 4, 8, 16),
    "store": (1, 2, 4, 8, 16),
    "async_copy": (4, 8, 16),
    "matrix_load": (16,),
    "matrix_store": (16,),
    "atomic": (2, 4, 8, 16),
}


def warp_request(
    space: str,
    kind: str,
    width: int,
    addresses: Sequence[SupportsIndex | None],
    target: Target | str,
    *,
    bank_bytes: int | None = None,
    cache: Cache | None = None,
    sources: Sequence[SupportsIndex | None] | None = None,
) -> WarpRequest:
    """Requests, wavefronts and sectors of one warp instruction.

    space: `shared`, `global`, `local` or `constant`.
    kind: `load`, `store`, `async_copy` (cp.async; its shared side costs wavefronts, its global side sectors),
        `matrix_load` (ldmatrix), `matrix_store` (stmatrix) or `atomic`.
    width: bytes per lane; 16 (one matrix row) for ldmatrix and stmatrix.
    addresses: 32 byte addresses, aligned to the width; None for an inactive lane. Those of local memory are relative to
        each lane's own. For matrix loads and
        stores the first 8, 16 or 32 lanes hold the row addresses.
    bank_bytes: 3.x only: bank width, 4 (default) or 8.
    cache: 2.x to 5.x only: where global loads are cached, `l1` or `l2`; default as the target.
    sources: the 32 global addresses of an async_copy, which affect its shared side; default width·lane.

    ValueError, listing the valid values, for an instruction that the target doesn't have.
    """
    row = known_target(target) if isinstance(target, str) else target
    _check_kind(space, kind, width, row)
    lanes = _lanes(addresses, width, "addresses")
    if bank_bytes is not None and bank_bytes not in row.bank_modes:
        raise ValueError(f"{row.name} has no banks of {bank_bytes} bytes; known are {_listed(row.bank_modes)}")
    if cache is not None and cache not in get_args(Cache):
        raise ValueError(f"unknown cache {cache!r}; known are {_listed(get_args(Cache))}")
    if sources is not None and (space, kind) != ("shared", "async_copy"):
        raise ValueError(f"only an async_copy into shared memory has sources, not a {space} {kind}")
    if not active(lanes):
        return WarpRequest()
    cost = _dispatch(space, kind, width, lanes, row, bank_bytes, cache, sources)
    if row.assumed and not cost.assumption:
        return _with_assumption(cost, f"the limits of {row.name} are those of a similar target")
    return cost


def _dispatch(
    space: str,
    kind: str,
    width: int,
    lanes: Lanes,
    target: Target,
    bank_bytes: int | None,
    cache: Cache | None,
    sources: Sequence[SupportsIndex | None] | None,
) -> WarpRequest:
    if space == "constant":
        return constant.request(width, lanes, target)
    if space == "local":
        return local.request(kind, width, lanes, target)
    if space == "global":
        return segments.request(kind, width, lanes, target, cache)
    if kind == "async_copy":
        return async_copies.request(
            width, lanes, target, None if sources is None else _lanes(sources, width, "sources")
        )
    if kind == "atomic":
        return atomics.request(width, lanes, target)
    if kind.startswith("matrix_"):
        return matrix.request(lanes, target)
    return shared.request(kind, width, lanes, target, bank_bytes or target.bank_modes[0])


def _check_kind(space: str, kind: str, width: int, target: Target) -> None:
    kinds = {
        "shared": target.shared_kinds,
        "global": target.global_kinds,
        "local": ("load", "store"),
        "constant": ("load",),
    }
    if space not in kinds:
        raise ValueError(f"unknown space {space!r}; known are {_listed(kinds)}")
    if kind not in kinds[space]:
        raise ValueError(f"{target.name} has no {kind!r} in {space} memory; known are {_listed(kinds[space])}")
    if width not in _WIDTHS[kind]:
        raise ValueError(f"no {kind} of {width} bytes per lane; known are {_listed(_WIDTHS[kind])}")


def _lanes(addresses: Sequence[SupportsIndex | None], width: int, name: str) -> Lanes:
    if len(addresses) != WARP_SIZE:
        raise ValueError(f"a warp has {WARP_SIZE} lanes, but {name} holds {len(addresses)}; None is an inactive lane")
    lanes = tuple(None if address is None else operator.index(address) for address in addresses)
    for lane, address in enumerate(lanes):
        if address is not None and (address < 0 or address % width):
            raise ValueError(f"{name}: lane {lane} has {address}, which is not a non-negative multiple of {width}")
    return lanes


def _with_assumption(cost: WarpRequest, assumption: str) -> WarpRequest:
    return WarpRequest(
        cost.requests,
        cost.wavefronts,
        cost.ideal_wavefronts,
        cost.transactions,
        cost.sectors,
        cost.ideal_sectors,
        assumption,
    )


def _listed(names: Sequence[object] | dict[str, tuple[str, ...]]) -> str:
    return ", ".join(map(str, names))
