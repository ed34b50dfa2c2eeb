"""Which names a spec may give to its kernel and to what it declares."""

from __future__ import annotations

import re

from cugen.spec.functions import FUNCTIONS
from cugen.spec.keys import DTYPE_NAMES, MAX_NAME

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Names that the expression language keeps for itself, beside those of its functions and of the element types.
CONSTANTS = ("inf", "nan", "pi", "true", "false")
KEYWORDS = ("and", "or", "not", "if", "else")
RESERVED = frozenset((*CONSTANTS, *KEYWORDS, *FUNCTIONS, *DTYPE_NAMES))

_C_KEYWORDS = _words(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register "
    "restrict return short signed sizeof static struct switch typedef union unsigned void volatile while "
    "alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class compl concept consteval "
    "constexpr constinit const_cast co_await co_return co_yield decltype delete dynamic_cast explicit export false "
    "friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public "
    "reinterpret_cast requires static_assert static_cast template this thread_local throw true try typeid typename "
    "typeof using virtual wchar_t xor xor_eq"
)
_CUDA_NAMES = _words(
    "threadIdx blockIdx blockDim gridDim warpSize dim3 half half2 nv_bfloat16 nv_bfloat162 cudaStream_t cudaError_t "
    "atomicAdd atomicCAS atomicMax atomicMin min max clock clock64 saturate rsqrt sincos norm3d norm4d"
)
_LIBRARY_NAMES = _words(
    "main abs labs div exit abort malloc calloc realloc free printf sprintf fprintf puts memcpy memset memcmp memmove "
    "strlen strcpy time rand srand system signal read write open close link pipe select send accept connect stat "
    "index remove rename NULL EOF errno assert j0 j1 jn y0 y1 yn gamma lgamma tgamma hypot ldexp frexp modf fmod pow "
    "fabs fmax fmin fdim remainder nan nearbyint rint logb ilogb scalbn copysign isnan isinf isfinite signbit "
    "sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh "
    "erf erfc fma floor ceil round trunc std int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t size_t "
    "float1 float2 float3 float4 double1 double2 int1 int2 int3 int4 char1 char2 char3 char4"
)


def kernel_name_problem(name: str) -> tuple[str, str] | None:
    """What is wrong with a kernel's name, and the cure; None for a good one."""
    if not _IDENTIFIER.fullmatch(name):
        suggestion = _suggestion(name)
        return "it isn't a C identifier", f"use letters, digits and underscores only, such as `{suggestion}`"
    if name.startswith("_") or "__" in name:
        return (
            "names with a leading or a double underscore are reserved in C and C++",
            f"call it `{_suggestion(name)}`",
        )
    for names, kind in (
        (_C_KEYWORDS, "a keyword of C or C++"),
        (_CUDA_NAMES, "a name that CUDA has taken"),
        (_LIBRARY_NAMES, "a name of the C library"),
    ):
        if name in names:
            return f"it is {kind}", f"call it `{name}_kernel`"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters; at most {MAX_NAME} are allowed", "shorten it"
    return None


def _suggestion(name: str) -> str:
    cleaned = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_]", "_", name)).strip("_")[:40]
    return cleaned if _IDENTIFIER.fullmatch(cleaned) else f"kernel_{cleaned}".rstrip("_")


def name_problem(name: str) -> tuple[str, str] | None:
    """What is wrong with the name of a param, scalar, array, index or variant, and the cure; None for a good one."""
    if not _IDENTIFIER.fullmatch(name):
        return "a name is made of letters, digits and underscores", f"call it `{_suggestion(name)}`"
    if name in RESERVED:
        return "the expression language keeps this name for itself", f"call it `{name}_`"
    if len(name) > MAX_NAME:
        return f"it has {len(name)} characters; at most {MAX_NAME} are allowed", "shorten it"
    return None
