"""What `cugen fix` offers: the documents of a file before and after, and what is left to be cured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cugen.analysis.limits.fixes import Fixes
    from cugen.runtime.verify import Run
    from cugen.spec.diagnostics import Diagnostic


@dataclass(frozen=True)
class Fixed:
    """The kernels of one document. `runs` are those of its kernels as fixed, by name, with the values that dynamic
    params had; empty where nothing changes. `left` is what `cugen check` still finds."""

    fixes: Fixes
    runs: Mapping[str, tuple[Run, Mapping[str, int]]]
    left: tuple[Diagnostic, ...]


@dataclass(frozen=True)
class Outcome:
    file: str
    documents: tuple[Fixed, ...]
    before: str
    after: str
    device: str
    written: bool

    @property
    def cured(self) -> bool:
        """Nothing is left that costs more than its ideal in shared memory, or passes a limit."""
        return not any(
            fixed.fixes.incurable
            or any(fix.remains for fix in fixed.fixes.fixes)
            or any(finding.severity == "error" for finding in fixed.left)
            for fixed in self.documents
        )
