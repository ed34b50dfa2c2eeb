"""The error of a cluster that can't be used, or was lost."""

from __future__ import annotations

from cugen.toolchain.codes import CLUSTER_UNUSABLE


class ClusterError(Exception):
    """A cluster can't be used. `cure` says what helps."""

    def __init__(self, message: str, cure: str) -> None:
        self.code = CLUSTER_UNUSABLE
        super().__init__(f"error[{self.code}]: {message}\n  = help: {cure}\n  = explain: cugen explain {self.code}")
