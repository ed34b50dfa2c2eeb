"""How 2-D textures address arrays: coordinates, address modes, and what is left to the hardware."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.plan.symbols import integer, symbol
from cugen.plan.textures.addressing import Texture2D, pitched_texture

I = symbol("i")  # noqa: E741
STRIDES = (integer(16), integer(1))
PADDING = {"clamp": "edge", "wrap": "wrap", "symmetric": "symmetric"}


@pytest.mark.parametrize(
    ("boundary", "mode"),
    [
        (None, "clamp"),
        ("zero", "border"),
        ("clamp", "clamp"),
        ("wrap", "wrap"),
        ("symmetric", "mirror"),
        ("reflect", "clamp"),
        ("value", "clamp"),
    ],
)
def test_a_boundary_is_an_address_mode_or_in_the_code(boundary: str | None, mode: str) -> None:
    texture = pitched_texture(STRIDES, boundary)
    assert texture == Texture2D(1, mode)
    assert texture.is_normalized == (mode in ("wrap", "mirror"))
    if boundary is not None:
        assert texture.takes(boundary, I, {I: (-5, 5)}) == (boundary not in ("reflect", "value"))


@pytest.mark.parametrize(("boundary", "far"), [("zero", True), ("clamp", True), ("wrap", False), ("symmetric", False)])
def test_a_normalized_coordinate_is_left_to_the_hardware_up_to_2_20(boundary: str, far: bool) -> None:
    texture = pitched_texture(STRIDES, boundary)
    assert texture.takes(boundary, I, {I: (-(2**20), 2**20)})
    assert texture.takes(boundary, I, {I: (0, 2**20 + 1)}) == far
    assert texture.takes(boundary, I, {I: (-(2**20) - 1, 0)}) == far


@pytest.mark.parametrize("extent", [1, 2, 5])
@pytest.mark.parametrize("boundary", list(PADDING))
def test_a_folded_subscript_is_the_element_that_numpy_pads_with(boundary: str, extent: int) -> None:
    texture = pitched_texture(STRIDES, boundary)
    padded = np.pad(np.arange(extent), 20, mode=PADDING[boundary])
    folded = [int(texture.folded(integer(i), integer(extent))) for i in range(-20, extent + 20)]
    assert folded == padded.tolist()


def test_x_counts_the_contiguous_dimension() -> None:
    assert pitched_texture(STRIDES, None).dimensions == (1, 0)
    assert pitched_texture(STRIDES[::-1], None).dimensions == (0, 1)


@pytest.mark.parametrize(
    ("texture", "text"),
    [
        (Texture2D(1, "border"), "tex2D<float>(u, j + 0.5f, i - 1 + 0.5f)"),
        (Texture2D(0, "clamp"), "tex2D<float>(u, i - 1 + 0.5f, j + 0.5f)"),
        (Texture2D(1, "mirror"), "tex2D<float>(u, (j + 0.5f) * (1.0f / W), (i - 1 + 0.5f) * (1.0f / H))"),
    ],
)
def test_a_fetch_is_at_the_centre_of_the_element(texture: Texture2D, text: str) -> None:
    assert texture.fetch("float", "u", ("i - 1", "j"), ("H", "W")) == text
