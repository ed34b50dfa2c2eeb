"""The keys and words of the spec language. The JSON Schema is held equal to these tables by a test."""

from __future__ import annotations

from cugen.spec.types import DTYPES

FORMAT_VERSION = 1
DEFAULT_TARGET = "sm_90"

TOP_KEYS = (
    "cugen",
    "kernel",
    "doc",
    "target",
    "params",
    "scalars",
    "arrays",
    "indices",
    "compute",
    "accumulate",
    "require",
    "schedule",
    "check",
    "variants",
)
REQUIRED_KEYS = ("cugen", "kernel", "arrays", "compute")

DYNAMIC_KEYS = ("range", "multiple_of")
SCALAR_KEYS = ("dtype", "value", "memory")
ARRAY_KEYS = ("shape", "dtype", "memory", "layout", "pitch", "boundary", "values")
MEMORY_KEYS = ("space", "pad", "swizzle", "dynamic", "stages")
SCHEDULE_KEYS = ("family", "block", "thread", "step")
CHECK_KEYS = ("bank_conflicts", "sectors", "occupancy", "spills", "mixed_warps", "unknown")

SPACES = ("global", "shared", "constant", "register", "readonly", "scratch")
LAYOUTS = ("row", "column")
BOUNDARIES = ("zero", "clamp", "wrap", "reflect")
SWIZZLES = ("xor",)
DTYPE_NAMES = tuple(DTYPES)
ACCUMULATE_NAMES = tuple(name for name, t in DTYPES.items() if t.compute == t and name != "bool")

MAX_DIMENSIONS = 8
MAX_ELEMENTS = 2**48
MAX_PAD = 1024
MAX_STAGES = 8
MAX_TILE = 65536
MAX_THREADS = 1024
MAX_CONSTANT_BYTES = 65536
MAX_TABLE_BYTES = 1 << 20
MAX_VARIANTS = 1024
MAX_NAME = 100
