"""Claims about the synchronisation of a kernel, each proved, refuted or unknown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["proved", "refuted", "unknown"]


class NotRecognised(Exception):
    """A part of a kernel that the proofs don't cover, with the reason."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a claim isn't proved. One that `refutes` has the smallest k-tile of a block where the kernel goes wrong, and
    its stage, where there is one."""

    reason: str
    k_tile: int | None = None
    stage: int | None = None
    refutes: bool = True

    @property
    def text(self) -> str:
        where = [f"{name} {n}" for name, n in (("k-tile", self.k_tile), ("stage", self.stage)) if n is not None]
        return f"{self.reason} ({', '.join(where)})" if where else self.reason


@dataclass(frozen=True, slots=True)
class Claim:
    """One property of the synchronisation. `reason` says why it holds, fails or is unknown."""

    name: str
    verdict: Verdict
    reason: str
    k_tile: int | None = None
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class PipelineProof:
    """The claims about a kernel's pipeline; `summary` says in one line what they prove."""

    kernel: str
    claims: tuple[Claim, ...]
    summary: str

    @property
    def verdict(self) -> Verdict:
        """That of the weakest claim."""
        verdicts = {claim.verdict for claim in self.claims}
        if "refuted" in verdicts:
            return "refuted"
        return "unknown" if "unknown" in verdicts else "proved"

    @property
    def line(self) -> str:
        """The verdict with the summary, or the first claim that isn't proved."""
        if self.verdict == "proved":
            return f"proved {self.summary}"
        claim = next(claim for claim in self.claims if claim.verdict == self.verdict)
        return f"{claim.verdict}: {claim.name}: {claim.reason}"


def claim_of(name: str, reason: str, faults: Iterable[Fault]) -> Claim:
    """The claim with its reason if there is no fault. Faults are evaluated here: NotRecognised makes it unknown, unless
    one before refutes it."""
    collected: list[Fault] = []
    try:
        for fault in faults:  # one by one: those before an exception are kept
            collected.append(fault)
    except NotRecognised as gap:
        collected.append(Fault(str(gap), refutes=False))
    if not collected:
        return Claim(name, "proved", reason)
    refuting = [fault for fault in collected if fault.refutes]
    fault = min(refuting, key=lambda f: f.k_tile or 0) if refuting else collected[0]
    return Claim(name, "refuted" if refuting else "unknown", fault.text, fault.k_tile, fault.stage)
