"""How a 2-D texture addresses an array in pitched memory."""

from __future__ import annotations

from dataclasses import dataclass

from cugen.plan.symbols import Integer, Maximum, Minimum, Mod, Ranges, bounds, integer

# Address modes of CUDA, by the boundary that they are. `reflect` and `{value: x}` are none.
_ADDRESS_MODES = {"zero": "border", "clamp": "clamp", "wrap": "wrap", "symmetric": "mirror"}
# Up to it, the error of a normalized coordinate is less than an eighth of an element: each of two roundings to float
# is off by 2^-24 of the coordinate.
_MAX_NORMALIZED = 2**20


@dataclass(frozen=True, slots=True)
class Texture2D:
    """A texture object of pitched memory. The coordinate x counts along dimension `x` of the array, which is
    contiguous, and y along the other. Points between elements give the nearest one, or interpolate if it `is_linear`.

    `address_mode` is what the hardware does with coordinates outside: border gives 0, clamp the nearest element, wrap
    and mirror fold the coordinate, which must be normalized for that: divided by the extent."""

    x: int
    address_mode: str = "clamp"
    is_linear: bool = False

    @property
    def dimensions(self) -> tuple[int, int]:
        """The dimensions of the array along x and y."""
        return self.x, 1 - self.x

    @property
    def is_normalized(self) -> bool:
        return self.address_mode in ("wrap", "mirror")

    def takes(self, boundary: str, subscript: Integer, ranges: Ranges) -> bool:
        """Whether the hardware applies a boundary to any value of the subscript."""
        if _ADDRESS_MODES.get(boundary) != self.address_mode:
            return False
        low, high = bounds(subscript, ranges)
        return not self.is_normalized or (-_MAX_NORMALIZED <= low and high <= _MAX_NORMALIZED)

    def folded(self, subscript: Integer, extent: Integer) -> Integer:
        """The element that the hardware reads. Border reads none outside."""
        match self.address_mode:
            case "clamp":
                return Minimum(Maximum(subscript, integer(0)), extent - 1)
            case "wrap":
                return Mod(subscript, extent)
            case "mirror":
                period = Mod(subscript, 2 * extent)
                return Minimum(period, 2 * extent - 1 - period)
        return subscript

    def fetch(self, kind: str, symbol: str, subscripts: tuple[str, ...], extents: tuple[str, ...]) -> str:
        """`tex2D<float>(x_texture, j - 1 + 0.5f, i + 0.5f)`, from C texts of operands of a sum and of a division. The
        subscripts of a filtered fetch are the names of its coordinates."""
        centres = [f"{subscripts[dimension]} + 0.5f" for dimension in self.dimensions]
        if self.is_normalized:
            scales = [f"(1.0f / {extents[dimension]})" for dimension in self.dimensions]
            centres = [f"({centre}) * {scale}" for centre, scale in zip(centres, scales, strict=True)]
        return f"tex2D<{kind}>({symbol}, {', '.join(centres)})"


def pitched_texture(strides: tuple[Integer, ...], boundary: str | None, *, is_linear: bool = False) -> Texture2D:
    """The texture of an array of two dimensions with this boundary. Without one its reads are inside."""
    return Texture2D(strides.index(integer(1)), _ADDRESS_MODES.get(boundary or "", "clamp"), is_linear)
