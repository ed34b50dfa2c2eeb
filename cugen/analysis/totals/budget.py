"""Budget of an analysis: work is counted, never timed, so that every machine gives the same verdicts."""

from __future__ import annotations

from dataclasses import dataclass

MAX_STEPS = 100_000  # of one launch; heuristic: a step takes 20 to 100 µs
_PER_ACCESS = 50  # steps to set up the count of one access at one choice of sizes
_LANES = 4096  # evaluated in one step


class Unknown(Exception):
    """No exact total; the message is the reason."""


@dataclass
class Budget:
    """Steps left to the analysis of one launch. A method raises Unknown, and takes nothing, where too few are left."""

    steps: int = MAX_STEPS

    def access(self) -> None:
        """The count of an access at one choice of sizes."""
        self._spend(_PER_ACCESS)

    def regions(self, count: int) -> None:
        """Boxes of the iteration domain, and phases of their counters."""
        self._spend(count)

    def patterns(self, count: int) -> None:
        """Patterns of a warp, at each residue of its base address."""
        self._spend(count)

    def lanes(self, count: int) -> None:
        """Lanes whose addresses and guards are evaluated."""
        self._spend(-(-count // _LANES))

    def _spend(self, steps: int) -> None:
        if steps > self.steps:
            raise Unknown(f"the analysis of this launch takes more than {MAX_STEPS:,} steps")
        self.steps -= steps
