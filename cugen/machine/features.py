"""Features of CUDA C by the first compute capability that has them, and how they are spelt.

Sources: CUDA programming guide 4.2, appendix F.1 (atomics, votes, float64), and the current one, features by compute
capability; the sections of its functions (shuffles, cached loads); PTX ISA (`barrier` with a number of threads, `mma`);
for storage types the first target of the first CUDA release with their header (7.5: cuda_fp16.h, 11.0: cuda_bf16.h,
11.8: cuda_fp8.h).
"""

from __future__ import annotations

from dataclasses import dataclass

from cugen.machine.target import Target


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of targets from `since` on; `tokens` is a regular expression of what it is in CUDA C. One that is
    specific to an `architecture` is on that target alone."""

    name: str
    since: tuple[int, int]
    tokens: str
    architecture: str = ""

    def is_on(self, target: Target) -> bool:
        return target.name == self.architecture if self.architecture else target.capability >= self.since

    def why_not(self, target: Target) -> str:
        """`sm_13 has no warp shuffles; sm_30 and newer have`; empty if the target has it."""
        others = f"{self.architecture} alone has" if self.architecture else f"{self.first} and newer have"
        return "" if self.is_on(target) else f"{target.name} has no {self.name}; {others}"

    @property
    def first(self) -> str:
        """The first target with it."""
        return self.architecture or "sm_{}{}".format(*self.since)


FLOAT64 = Feature("float64", (1, 3), r"\bdouble\b")
FLOAT16 = Feature("float16", (2, 0), r"\b__half(?:_raw)?\b|__half2float|__float2half")
FLOAT16_ARITHMETIC = Feature("float16 arithmetic", (5, 3), r"\b__h(?:add|sub|mul|div|fma|neg)2?\b")
BFLOAT16 = Feature("bfloat16", (3, 5), r"__nv_bfloat16|bfloat162float|float2bfloat16|ushort_as_bfloat16")
FLOAT8 = Feature("float8", (3, 5), r"__nv_fp8_")
TYPES = {
    "float64": FLOAT64,
    "float16": FLOAT16,
    "bfloat16": BFLOAT16,
    "float8_e4m3": FLOAT8,
    "float8_e5m2": FLOAT8,
}

VOTES = Feature("warp votes", (1, 2), r"\b__(?:all|any)(?:_sync)?\(")
BALLOTS = Feature("warp ballots", (2, 0), r"\b__ballot")
SHUFFLES = Feature("warp shuffles", (3, 0), r"\b__shfl")
WARP_BARRIERS = Feature("warp barriers", (3, 0), r"\b__syncwarp")
NAMED_BARRIERS = Feature("named barriers", (3, 0), r"\b__barrier_sync_count")
FUNNEL_SHIFTS = Feature("funnel shifts", (3, 5), r"\b__funnelshift_r\b")

READ_ONLY_LOADS = Feature("loads through a read-only cache", (3, 5), r"\b__ldg\b")
TEXTURE_OBJECTS = Feature("texture objects", (3, 0), r"\bcudaTextureObject_t\b|\btex(?:1Dfetch|2D)<")
# PTX ISA: cache operators need sm_20; CUDA has functions for them from 3.2 on, the first that compiles C++17 is 3.5.
CACHE_OPERATORS = Feature("cache operators", (2, 0), r"\b(?:ld\.global\.(?:ca|cg|cs|lu)|st\.global\.(?:wb|cg|cs|wt))\b")
CACHE_FUNCTIONS = Feature("functions of cache operators", (3, 5), r"\b__(?:ld(?:ca|cg|lu)|st(?:wb|cg|cs|wt))\b")
EVICT_FIRST_LOADS = Feature("evict-first loads", (3, 5), r"\b__ldcs\b")
# CUDA 12.4 is the first with it, and its compilers begin with 5.0.
REGISTER_LIMITS = Feature("limit on the registers of one kernel", (5, 0), r"\b__maxnreg__\b")
SPIN_WAITS = Feature("independent thread scheduling, which spin-waits need", (7, 0), r"\b__(?:ldcv|nanosleep)\b")
ASYNC_COPIES = Feature("asynchronous copies", (8, 0), r"\b__pipeline_")
FLOAT64_MMA = Feature("tensor cores of float64", (8, 0), r"\bmma_m16n8k\d+\(|\.f64\.f64\.f64")
FLOAT16_MMA = Feature("tensor cores of float16", (7, 5), r"\bmma_m16n8k16_f16\(")
BFLOAT16_MMA = Feature("tensor cores of bfloat16", (8, 0), r"\bmma_m16n8k16_bf16\(")
TF32_MMA = Feature("tensor cores of tf32", (8, 0), r"\bmma_m16n8k8_tf32\(|\bto_tf32\(")
INT8_MMA = Feature("tensor cores of int8 with K of 32", (8, 0), r"\bmma_m16n8k32_(?:s8|u8)")
FLOAT8_MMA = Feature("tensor cores of float8", (8, 9), r"\bmma_m16n8k32_e")
MATRIX_LOADS = Feature("ldmatrix", (7, 5), r"\bldmatrix_x|\b__cvta_generic_to_shared\b")
MATRIX_STORES = Feature("stmatrix", (9, 0), r"\bstmatrix_x")
WGMMA = Feature("wgmma", (9, 0), r"\bwgmma_|\bsetmaxnreg_", architecture="sm_90a")
TENSOR_COPIES = Feature("tensor copies (TMA)", (9, 0), r"\bCUtensorMap\b|\btma_|\bmbarrier_|\bfence_proxy_async\b")
CLUSTERS = Feature("thread block clusters", (9, 0), r"\b__cluster_dims__|\bthis_cluster\b|\bmap_shared_rank\b")
OPT_IN_SHARED = Feature("opt-in shared memory", (7, 0), r"\bcudaFuncAttributeMaxDynamicSharedMemorySize\b")

# Atomic functions by the type and space of their operand; what is printed doesn't show these.
ATOMICS = {
    (dtype, space): Feature(f"atomics on {dtype} in {space} memory", since, "")
    for dtype, space, since in (
        ("int32", "global", (1, 1)),
        ("uint32", "global", (1, 1)),
        ("int32", "shared", (1, 2)),
        ("uint32", "shared", (1, 2)),
        ("uint64", "global", (1, 2)),
        ("uint64", "shared", (2, 0)),
        ("float32", "global", (2, 0)),
        ("float32", "shared", (2, 0)),
        ("float64", "global", (6, 0)),
        ("float64", "shared", (6, 0)),
    )
}
ANY_ATOMICS = Feature("atomics", (1, 1), r"\batomic[A-Z]\w+\(")

# What printed code is searched for.
SPELT = (
    *dict.fromkeys(TYPES.values()),
    FLOAT16_ARITHMETIC,
    VOTES,
    BALLOTS,
    SHUFFLES,
    WARP_BARRIERS,
    NAMED_BARRIERS,
    FUNNEL_SHIFTS,
    READ_ONLY_LOADS,
    TEXTURE_OBJECTS,
    CACHE_OPERATORS,
    CACHE_FUNCTIONS,
    EVICT_FIRST_LOADS,
    REGISTER_LIMITS,
    SPIN_WAITS,
    ASYNC_COPIES,
    FLOAT64_MMA,
    FLOAT16_MMA,
    BFLOAT16_MMA,
    TF32_MMA,
    INT8_MMA,
    FLOAT8_MMA,
    MATRIX_LOADS,
    WGMMA,
    TENSOR_COPIES,
    CLUSTERS,
    OPT_IN_SHARED,
    ANY_ATOMICS,
)

# The first target of CUDA 11.0, the first release that compiles C++17, in which generated code is written.
FIRST_COMPILED = (3, 5)


def why_not_compiled(target: Target) -> str:
    """What generated code is for where no CUDA release compiles it for the target; empty for other targets."""
    if target.capability >= FIRST_COMPILED:
        return ""
    return f"for reading and analysis: no CUDA release that knows C++17 (11.0 and newer) compiles for {target.name}"
