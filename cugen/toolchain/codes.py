"""The CG4xxx codes: errors of the toolchain. A code is never reused."""

from __future__ import annotations

COMPILE_FAILED = "CG4001"
TOOL_MISSING = "CG4002"
TARGET_UNKNOWN = "CG4003"
COMPILER_STUCK = "CG4004"
BUILD_FAILED = "CG4005"
CLUSTER_UNUSABLE = "CG4006"

CODES: dict[str, str] = {
    COMPILE_FAILED: "a compiler refused a generated source",
    TOOL_MISSING: "a tool was not found on this machine",
    TARGET_UNKNOWN: "the installed CUDA compiler can't compile for this target",
    COMPILER_STUCK: "a compiler didn't finish in time",
    BUILD_FAILED: "a package can't be built",
    CLUSTER_UNUSABLE: "a cluster can't be used",
}
