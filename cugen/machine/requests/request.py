"""`warp_request`: what one instruction of one warp costs on a target."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex, get_args

from cugen.machine.requests import async_copies, atomics, constant, matrix, segments, shared
from cugen.machine.requests.warp import WARP, Lanes, WarpRequest, active
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

    space: `shared`, `global` or `constant`.
    kind: `load`, `store`, `async_copy` (cp.async; its shared side costs wavefronts, its global side sectors),
        `matrix_load` (ldmatrix), `matrix_store` (stmatrix) or `atomic`.
    width: bytes per lane; 16, a row, for matrices.
    addresses: 32 byte addresses, aligned to the width; None for an inactive lane. The row addresses of a matrix load
        or store stand in the first 8, 16 or 32 lanes.
    bank_bytes: 3.x only: how wide its banks are set, 4 (unless given) or 8.
    cache: 2.x to 5.x only: where global loads are cached, `l1` or `l2`; the target's default unless given.
    sources: an async_copy's 32 global addresses, which matter to the shared side; width·lane unless given.

    ValueError, naming what is known, for anything that no such instruction can be.
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
    found = _dispatch(space, kind, width, lanes, row, bank_bytes, cache, sources)
    if row.assumed and not found.assumption:
        return _with_assumption(found, f"the figures of {row.name} are those of its neighbour")
    return found


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
    kinds = {"shared": target.shared_kinds, "global": target.global_kinds, "constant": ("load",)}
    if space not in kinds:
        raise ValueError(f"unknown space {space!r}; known are {_listed(kinds)}")
    if kind not in kinds[space]:
        raise ValueError(f"{target.name} has no {kind!r} in {space} memory; known are {_listed(kinds[space])}")
    if width not in _WIDTHS[kind]:
        raise ValueError(f"no {kind} of {width} bytes per lane; known are {_listed(_WIDTHS[kind])}")


def _lanes(addresses: Sequence[SupportsIndex | None], width: int, name: str) -> Lanes:
    if len(addresses) != WARP:
        raise ValueError(f"a warp has {WARP} lanes, but {name} holds {len(addresses)}; None stands for an inactive one")
    lanes = tuple(None if address is None else operator.index(address) for address in addresses)
    for lane, address in enumerate(lanes):
        if address is not None and (address < 0 or address % width):
            raise ValueError(f"{name}: lane {lane} has {address}, which is no multiple of {width} from 0 on")
    return lanes


def _with_assumption(found: WarpRequest, assumption: str) -> WarpRequest:
    return WarpRequest(
        found.requests,
        found.wavefronts,
        found.ideal_wavefronts,
        found.transactions,
        found.sectors,
        found.ideal_sectors,
        assumption,
    )


def _listed(known: Sequence[object] | dict[str, tuple[str, ...]]) -> str:
    return ", ".join(map(str, known))
