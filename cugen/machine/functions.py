"""Instructions of functions and extrema, as nvcc 13 gives them for sm_90, rounded: one for any other operation.

`cugen.plan.lowering.instructions` counts those of an operation with these figures. The analysis counts nodes of a plan,
of which it adds what functions take beyond one."""

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

# Of a function in float64, relative to the instructions in float32, and the share of them that are float64's own, whose
# units are fewer: nvcc 13 for sm_90, rounded (exp 57 and 18, log 79 and 30, tanh 98 and 34, pow 248 and 99).
FLOAT64_FUNCTION_FACTOR = 3
FLOAT64_FUNCTION_SHARE = 0.35

INTEGER_POWER_INSTRUCTIONS = 140  # by squaring, in a loop over the bits of an exponent of up to six

EXTREMUM_INSTRUCTIONS = 3  # of a maximum or minimum that propagates NaN, where the target has no instruction for it
EXTREMUM_CAPABILITY = (8, 0)  # compute capability from which on float32 has it (PTX ISA: min.NaN)

# Functions of several instructions without a branch, by type.
STRAIGHT_FUNCTIONS = MappingProxyType(
    {
        "float32": (
            *("exp", "exp2", "expm1", "log", "log2", "log10", "tanh", "sinh", "cosh", "asin", "acos", "atan"),
            *("rsqrt", "cbrt", "erf", "erfc", "sign"),
        ),
        "float64": ("cbrt", "erf", "sign"),
    }
)
