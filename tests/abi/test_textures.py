"""What texture objects read, at the params of a call."""

from __future__ import annotations

import pytest

from cugen.abi.manifest import ArrayArgument, Manifest, Texture
from cugen.abi.textures import TextureMemory, texture_memory


@pytest.mark.parametrize(("dtype", "channel"), [("float16", "float16"), ("bfloat16", "uint16"), ("int8", "int8")])
def test_a_texture_of_bfloat16_gives_bits_since_no_channel_format_is_of_the_type(dtype: str, channel: str) -> None:
    array = ArrayArgument("A", "input", dtype, ("M",), (1,), "M", 512)
    manifest = Manifest("k", "1", "k.yaml", "", "sm_90", {}, (array,), (), (), (), textures=(Texture("A"),))
    assert list(texture_memory(manifest, {"M": 16})) == [("A", TextureMemory(channel, 16))]


@pytest.mark.parametrize("filter", ["point", "linear"])
def test_sizes_are_evaluated_at_the_params(filter: str) -> None:
    array = ArrayArgument("A", "input", "float16", (5, "M"), ("2 * M", 1), "M * 8", 512)
    texture = Texture("A", "M", 5, "4 * M", "wrap", filter)
    manifest = Manifest("k", "1", "k.yaml", "", "sm_90", {}, (array,), (), (), (), textures=(texture,))
    assert list(texture_memory(manifest, {"M": 16})) == [
        ("A", TextureMemory("float16", 128, 16, 5, 64, "wrap", filter == "linear"))
    ]


@pytest.mark.parametrize(
    ("mode", "is_2d", "is_normalized"),
    [("", False, False), ("clamp", True, False), ("border", True, False), ("wrap", True, True), ("mirror", True, True)],
)
def test_wrap_and_mirror_take_normalized_coordinates(mode: str, is_2d: bool, is_normalized: bool) -> None:
    memory = TextureMemory("float16", 10, address_mode=mode)
    assert (memory.bytes, memory.is_2d, memory.is_normalized) == (20, is_2d, is_normalized)
