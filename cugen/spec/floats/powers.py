"""Powers of floats with literal exponents that are multiplications, a root and a division, and how exact these are."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.spec.expressions import MAX_MULTIPLIED_POWER

_MAX_ULPS = 4  # the error of `powf` (CUDA C++ Programming Guide, "Mathematical Functions"); that of `pow` is 2
_RSQRT_ROUNDINGS = 4  # two units in the last place (the same table)


@dataclass(frozen=True, slots=True)
class Power:
    """x ** (whole + 1/2 if `has_root`), or the same of 1 / x.

    All factors are on one side of 1, so that no part of the product overflows or underflows unless the power does."""

    whole: int
    has_root: bool
    is_inverse: bool

    @property
    def ulps(self) -> float:
        """The error relative to the power, in units of 2^-23 of float32 and 2^-52 of float64: half of one for each
        rounding. Of a significand near 2 that is up to twice as many units in the last place."""
        if self.is_inverse:
            factors = 2 * self.whole - 1 if self.whole else 0  # the quotients' own errors, and the products'
            return (factors + (_RSQRT_ROUNDINGS + (self.whole > 0) if self.has_root else 0)) / 2
        return (max(self.whole - 1, 0) + (1 + (self.whole > 0) if self.has_root else 0)) / 2


def literal_power(exponent: float) -> Power | None:
    """The power with this exponent; None where it isn't a multiple of 1/2, or takes more roundings than
    are allowed."""
    if not abs(exponent) <= MAX_MULTIPLIED_POWER or exponent in (0, 1) or 2 * exponent != int(2 * exponent):
        return None
    whole, half = divmod(abs(exponent), 1)
    power = Power(int(whole), has_root=half > 0, is_inverse=exponent < 0)
    return power if power.ulps <= _MAX_ULPS else None
