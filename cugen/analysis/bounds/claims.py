"""Claims about accesses, that they stay inside of their arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from cugen.analysis.verdicts.wording import Wording
from cugen.plan.memory import Access

BoundsVerdict = Literal["proved", "enumerated", "unknown", "refuted"]


class OutOfBounds(Exception):
    """A plan with an access outside of its array, which is a defect of the generator."""


@dataclass(frozen=True, slots=True)
class BoundsClaim:
    """Whether an access stays inside of its array: `proved`; `enumerated`, where every iteration was evaluated;
    `unknown`; or `refuted`, by an iteration. `reason` says why."""

    kernel: str
    access: Access
    verdict: BoundsVerdict
    reason: str
    wording: Wording = field(repr=False, compare=False)

    @property
    def text(self) -> str:
        """The access as printed, without casts."""
        return self.wording.access(self.access)


def bounds_summary(claims: Sequence[BoundsClaim]) -> str:
    """`11 of 12 accesses proved, 1 unknown: x[i_], the subscript depends on …`."""
    counts = Counter(claim.verdict for claim in claims)
    parts = [f"{counts['proved']} of {len(claims)} accesses proved"]
    parts += [f"{counts[verdict]} {verdict}" for verdict in ("enumerated", "unknown") if counts[verdict]]
    line = ", ".join(parts)
    unknown = next((claim for claim in claims if claim.verdict == "unknown"), None)
    if unknown is None:
        return line
    return f"{line}{', such as' if counts['unknown'] > 1 else ':'} {unknown.text}, {unknown.reason}"


def refuse_refuted(claims: Sequence[BoundsClaim]) -> None:
    """Raises OutOfBounds for an access that was seen outside of its array."""
    for claim in claims:
        if claim.verdict == "refuted":
            raise OutOfBounds(f"{claim.kernel}: {claim.text} is outside of its array: {claim.reason}")
