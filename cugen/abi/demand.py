"""Resources per block that the launches of a kernel need; variants are ordered and chosen by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from cugen.abi.manifest import Manifest

UNITS = {
    "threads": "threads",
    "static": "bytes of shared memory",
    "dynamic": "bytes of opt-in shared memory",
}


@dataclass(frozen=True, slots=True)
class Demand:
    """Maximum resources per block over the launches of one call.

    Devices have two shared memory limits: `static` are the bytes of launches without dynamic shared memory, `dynamic`
    those of launches with it, static and dynamic together.
    """

    threads: int
    static: int
    dynamic: int

    @property
    def size(self) -> tuple[int, int]:
        """Sort key: shared memory, which grows with the tile, then threads."""
        return max(self.static, self.dynamic), self.threads

    def amounts(self) -> dict[str, int]:
        """Nonzero resources by the keys of UNITS."""
        amounts = {"threads": self.threads, "static": self.static, "dynamic": self.dynamic}
        return {key: amount for key, amount in amounts.items() if amount}

    def fits(self, allowed: Mapping[str, int]) -> bool:
        """Whether every amount is within `allowed`, in which a missing key counts as 0."""
        return all(amount <= allowed.get(key, 0) for key, amount in self.amounts().items())

    def __str__(self) -> str:
        return " and ".join(f"{amount} {UNITS[key]}" for key, amount in self.amounts().items()) + " per block"


def demand(manifest: Manifest) -> Demand:
    """Demand of one call of the manifest's entry point."""
    launches = manifest.launches
    return Demand(
        max((prod(launch.block) for launch in launches), default=0),
        max((launch.shared_bytes for launch in launches if not launch.dynamic_shared_bytes), default=0),
        max((n.shared_bytes + n.dynamic_shared_bytes for n in launches if n.dynamic_shared_bytes), default=0),
    )
