"""What the blocks of a kernel's launches ask of a device: by it variants are put in order and chosen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from cugen.abi.manifest import Manifest

WORDS = {
    "threads": "threads",
    "static": "bytes of shared memory",
    "dynamic": "bytes of shared memory on request",
}


@dataclass(frozen=True, slots=True)
class Demand:
    """The most that any launch of one call asks for a block.

    Shared memory is counted apart since devices have two limits: `static` bytes are those of launches without dynamic
    shared memory, `dynamic` those of launches with it, static and dynamic together.
    """

    threads: int
    static: int
    dynamic: int

    @property
    def size(self) -> tuple[int, int]:
        """Orders demands: by shared memory, which grows with a tile whatever computes it, then by threads."""
        return max(self.static, self.dynamic), self.threads

    def parts(self) -> dict[str, int]:
        """What is asked for at all, by the keys of WORDS."""
        amounts = {"threads": self.threads, "static": self.static, "dynamic": self.dynamic}
        return {key: amount for key, amount in amounts.items() if amount}

    def fits(self, allowed: Mapping[str, int]) -> bool:
        """Whether there is enough of all; what `allowed` doesn't name, there is nothing of."""
        return all(amount <= allowed.get(key, 0) for key, amount in self.parts().items())

    def __str__(self) -> str:
        return " and ".join(f"{amount} {WORDS[key]}" for key, amount in self.parts().items()) + " per block"


def demand(manifest: Manifest) -> Demand:
    """The demand of a whole call of the manifest's entry point."""
    launches = manifest.launches
    return Demand(
        max((prod(launch.block) for launch in launches), default=0),
        max((launch.shared_bytes for launch in launches if not launch.dynamic_shared_bytes), default=0),
        max((n.shared_bytes + n.dynamic_shared_bytes for n in launches if n.dynamic_shared_bytes), default=0),
    )
