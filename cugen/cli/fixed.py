"""Results of `cugen fix`: the documents of a file before and after, and the remaining findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cugen.analysis.limits.fixes import Fixes
    from cugen.analysis.limits.layouts import LayoutProposal
    from cugen.cli.values import Value
    from cugen.runtime.verify import Run
    from cugen.spec.diagnostics import Diagnostic


@dataclass(frozen=True)
class Fixed:
    """Kernels of one document. `runs`: verified runs of the fixed kernels, by name, with the values of dynamic params;
    empty without changes. `left`: the remaining findings of `cugen check`. `proposals`: layouts that would move fewer
    sectors, which the patch leaves to the user."""

    fixes: Fixes
    runs: Mapping[str, tuple[Run, tuple[Value, ...]]]
    left: tuple[Diagnostic, ...]
    proposals: tuple[LayoutProposal, ...]


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
        """Whether no shared access costs more than its ideal, and no limit is exceeded."""
        return not any(
            fixed.fixes.incurable
            or any(fix.remains for fix in fixed.fixes.fixes)
            or any(finding.severity == "error" for finding in fixed.left)
            for fixed in self.documents
        )
