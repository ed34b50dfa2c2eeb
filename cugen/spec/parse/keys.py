"""Keys, option values and limits of the spec language. A test checks that the JSON Schema agrees with these tables."""

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

DYNAMIC_KEYS = ("range", "multiple_of", "default")
SCALAR_KEYS = ("dtype", "value", "memory")
ARRAY_KEYS = ("shape", "dtype", "memory", "layout", "pitch", "boundary", "values")
MEMORY_KEYS = ("space", "pad", "swizzle", "dynamic", "stages", "dims", "filter", "load", "store")
OPTION_KEYS = ("unroll", "max_registers", "fast_math", "carveout", "bank_bytes")
SCHEDULE_KEYS = ("family", "block", "thread", "step", *OPTION_KEYS)
ACCUMULATE_KEYS = ("type", "tf32", "fp8", "winograd")
RESERVED_ACCUMULATE_KEYS = ("order",)  # without a meaning yet
CHECK_KEYS = (
    *("bank_conflicts", "sectors", "occupancy", "spills", "local", "mixed_warps"),
    *("lanes", "traffic", "waves", "grid", "roofline", "doubles", "unknown"),
)
CHECKS_BY_ARRAY = ("bank_conflicts", "sectors", "lanes", "traffic")  # may be mappings of arrays to limits

SPACES = ("global", "shared", "constant", "register", "readonly", "texture", "scratch", "managed", "mapped")
ALLOCATIONS = ("managed", "mapped")  # memory that the host and the device both address
TEXTURE_TYPES = ("float32", "float16", "bfloat16", "int32", "int16", "int8", "uint32", "uint16", "uint8")
TEXTURE_DIMS = (1, 2)
FILTERS = ("point", "linear")
FILTERED_TYPE = "float32"
FILTERED_BOUNDARIES = ("zero", "clamp", "wrap", "symmetric")  # those that texture hardware applies
LAYOUTS = ("row", "column")
BOUNDARIES = ("zero", "clamp", "wrap", "reflect", "symmetric")
SWIZZLES = ("xor",)
LOAD_OPERATORS = ("ca", "cg", "cs", "lu")  # PTX ISA, cache operators
STORE_OPERATORS = ("wb", "cg", "cs", "wt")
FULL_UNROLL = "full"
FP8_SUMS = ("exact", "fast")
DTYPE_NAMES = tuple(DTYPES)
# Type names of other languages, for suggestions.
_SYNONYMS = {
    "float32": "float single f32 fp32",
    "float64": "double f64 fp64",
    "float16": "half f16 fp16",
    "bfloat16": "bf16",
    "float8_e4m3": "e4m3 fp8_e4m3",
    "float8_e5m2": "e5m2 fp8_e5m2",
    "int8": "i8 char",
    "int16": "i16 short",
    "int32": "i32 int",
    "int64": "i64 long",
    "uint8": "u8 uchar",
    "uint16": "u16 ushort",
    "uint32": "u32 uint",
    "uint64": "u64 ulong",
}
TYPE_SYNONYMS = {word: name for name, words in _SYNONYMS.items() for word in words.split()}
ACCUMULATE_NAMES = tuple(name for name, t in DTYPES.items() if t.compute == t and name != "bool")

MAX_DIMENSIONS = 8
MAX_ELEMENTS = 2**48  # of an array; keeps byte offsets within 64 bits
MAX_PAD = 1024  # elements per row of a shared-memory tile
MAX_STAGES = 8  # of a software pipeline
MAX_TILE = 65536  # elements of a block or thread tile per index
MAX_UNROLL = 1024  # copies of a loop's body
MIN_REGISTERS, MAX_REGISTERS = 24, 255  # of a thread, that ptxas of CUDA 12.4 and newer takes as a limit
MAX_THREADS = 1024  # of a block (CUDA programming guide, all compute capabilities)
MAX_CONSTANT_BYTES = 65536  # of constant memory per module (CUDA programming guide)
MAX_TABLE_BYTES = 1 << 20  # of a baked array
MAX_KERNELS = 1024  # of a file, all variants of all documents
MAX_STATEMENTS = 256
MAX_REQUIREMENTS = 512
MAX_PARTS = 20_000  # of all statements' expressions, expanded; bounds the time of planning
MAX_NAME = 100  # characters
