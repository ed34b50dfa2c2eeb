"""Reserved names of generated files: keywords of C++, names that headers declare, and names that cugen declares."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_KEYWORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires restrict return short signed sizeof static static_assert static_cast struct switch template this
    thread_local throw true try typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while
    xor xor_eq
"""
# Names that a generated file declares: its helper functions (templates/functions), the tile in dynamic shared memory,
# the launcher's own variables, and what is common to the launchers of a program.
_GENERATED = """
    absolute ceil_div divided_by floor_div floor_divide floor_mod floor_modulo funnel_shift integer_power maximum
    minimum shift_left
    shift_right sign_of wrapping_add wrapping_multiply wrapping_negate wrapping_subtract Vector load load_byte
    load_readonly load_streaming load_ca load_cg load_cs load_lu store store_wb store_cg store_cs store_wt
    load_ca_ptx load_cg_ptx load_cs_ptx load_lu_ptx store_wb_ptx store_cg_ptx store_cs_ptx store_wt_ptx
    to_int32 to_uint32 to_int64 to_uint64
    mma_m16n8k4 mma_m16n8k8 mma_m16n8k16 mma_m16n8k16_f16 mma_m16n8k16_bf16
    mma_m16n8k32_s8 mma_m16n8k32_u8 mma_m16n8k32_s8_u8 mma_m16n8k32_u8_s8
    mma_m16n8k32_e4m3 mma_m16n8k32_e5m2 mma_m16n8k32_e4m3_e5m2 mma_m16n8k32_e5m2_e4m3
    mma_m16n8k32_e4m3_as_f16 mma_m16n8k32_e5m2_as_f16 mma_m16n8k32_e4m3_e5m2_as_f16 mma_m16n8k32_e5m2_e4m3_as_f16
    bfloat16_parts finite_bfloat16 float16_parts tf32_parts float16_as_float32 bfloat16_as_float32
    mma_m16n8k8_tf32 to_tf32 ldmatrix_x4 ldmatrix_x4_trans stmatrix_x4 stmatrix_x2_trans stmatrix_x4_trans
    k_major_matrix mn_major_matrix fence_proxy_async prefetch_tensor_map setmaxnreg_dec setmaxnreg_inc
    elect_one
    mbarrier_arrive mbarrier_arrive_cluster mbarrier_arrive_expect_tx mbarrier_init mbarrier_init_fence mbarrier_wait
    tma_load_2d tma_load_3d tma_load_4d tma_load_5d
    tma_load_2d_multicast tma_load_3d_multicast tma_load_4d_multicast tma_load_5d_multicast
    tma_load_im2col_3d tma_load_im2col_4d tma_load_im2col_5d
    tma_store_2d tma_store_3d tma_store_4d tma_store_5d tma_store_commit tma_store_wait_read
    shared_memory cluster cooperative_groups stream status workspace allocates
    cugen_floor_quotient cugen_floor_remainder cugen_library cugen_max cugen_min cugen_mutex
"""
# Bessel functions, which no generated code calls: a variable of a kernel may hide one, as `j0`, the first of a tile's
# columns, does.
_HIDEABLE = frozenset({"j0", "j1", "jn", "y0", "y1", "yn"})
# wgmma_m64n256k16_bf16 and all others, which differ by N and the types; the macros that guard helper functions.
_GENERATED_PREFIXES = ("wgmma", "CUGEN_")
KEYWORDS = frozenset(_KEYWORDS.split())
GENERATED = frozenset(_GENERATED.split())


def is_taken(name: str) -> bool:
    """Whether a name is reserved: a keyword, declared or defined as a macro by the headers, or declared by cugen."""
    return name in KEYWORDS or name in GENERATED or name.startswith(_GENERATED_PREFIXES) or is_in_headers(name)


def may_be_hidden(name: str) -> bool:
    """Whether a variable within a function may have the name though a header declares it."""
    return name in _HIDEABLE


def is_in_headers(name: str) -> bool:
    """Whether a header of CUDA or the C library declares the name."""
    return name.startswith("cuda") or name in _headers()


@cache
def _headers() -> frozenset[str]:
    lines = (Path(__file__).parent / "c_names.txt").read_text().splitlines()
    return frozenset(word for line in lines if not line.startswith("#") for word in line.split())
