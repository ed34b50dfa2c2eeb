"""Names in the generated C: the user's own wherever C allows them, told apart by an underscore where it doesn't."""

from __future__ import annotations

import re

# Keywords of C++ and of CUDA, builtins, and the functions and macros that generated code or its headers may call.
_WORDS = """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
    requires return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
    true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq
    threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 half
    min max abs sqrt rsqrt cbrt exp exp2 expm1 log log2 log10 log1p pow sin cos tan asin acos atan atan2 sinh cosh tanh
    asinh acosh atanh erf erfc lgamma tgamma gamma fma floor ceil round trunc rint fmod fabs fmin fmax remainder hypot
    j0 j1 jn y0 y1 yn near far norm clock time index signbit isnan isinf isfinite scalbn ldexp logb ilogb nan
    NULL EOF INFINITY NAN M_PI assert printf malloc free memcpy memset exit abort main errno linux unix i386
    small interface CHAR_BIT INT_MAX INT_MIN stdin stdout stderr stream status error grid block cudaStream_t cudaError_t
"""
RESERVED = frozenset(_WORDS.split())
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Names:
    """Hands out names; each is unique in its scope and no word of C. A child scope avoids its parent's names too."""

    def __init__(self, parent: Names | None = None) -> None:
        self._parent = parent
        self._taken: dict[str, None] = {}

    def _is_taken(self, name: str) -> bool:
        return name in self._taken or (self._parent is not None and self._parent._is_taken(name))

    def allocate(self, wish: str) -> str:
        """`wish` itself where it is free; else with an underscore, else with the first free number, after it."""
        base = "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"u{ord(c):x}" for c in wish) or "v"
        if not _IDENTIFIER.fullmatch(base) or base.startswith("__") or re.match(r"_[A-Z]", base):
            base = "v" + base
        candidates = [base] if base not in RESERVED else []
        candidates.append(base + "_")
        name = next((c for c in candidates if not self._is_taken(c)), "")
        number = 2
        while not name or self._is_taken(name):
            name = f"{base}_{number}"
            number += 1
        self._taken[name] = None
        return name
