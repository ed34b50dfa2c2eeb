"""Instructions of float functions, as nvcc 13 gives them for sm_90, rounded: one for any other operation."""

from __future__ import annotations

from types import MappingProxyType

FUNCTION_INSTRUCTIONS = MappingProxyType(
    {
        **dict.fromkeys(("exp", "exp2", "rsqrt", "sign"), 8),
        **dict.fromkeys(("div", "sqrt", "log", "log2", "log10", "expm1"), 14),
        **dict.fromkeys(("floordiv", "mod"), 25),
        **dict.fromkeys(("log1p", "tanh", "sinh", "cosh", "asin", "acos", "atan", "cbrt", "erf"), 25),
        **dict.fromkeys(("sin", "cos", "tan", "asinh", "acosh", "atanh", "atan2", "erfc"), 40),
        "pow": 70,
        "lgamma": 80,
    }
)
