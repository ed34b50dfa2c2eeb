"""The memory of texture objects at given params."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cugen.abi.manifest import Manifest
from cugen.abi.sizes import evaluate_all
from cugen.spec.types import DTYPES

ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")  # in the order of cudaTextureAddressMode and CUaddress_mode


@dataclass(frozen=True, slots=True)
class TextureMemory:
    """What a texture object reads, but for the address: `elements` of linear memory; with an `address_mode` pitched
    memory of `width` by `height` elements, `pitch` in bytes, filtered if it `is_linear`. `dtype` is that of its channel
    format."""

    dtype: str
    elements: int
    width: int = 0
    height: int = 0
    pitch: int = 0
    address_mode: str = ""
    is_linear: bool = False

    @property
    def bytes(self) -> int:
        """Of linear memory."""
        return self.elements * DTYPES[self.dtype].bytes

    @property
    def is_2d(self) -> bool:
        return bool(self.address_mode)

    @property
    def is_normalized(self) -> bool:
        """Whether coordinates are divided by the extents, which these address modes require."""
        return self.address_mode in ("wrap", "mirror")


def channel_type(dtype: str) -> str:
    """The type of the channel format of elements: textures of bfloat16 give their bits."""
    return "uint16" if dtype == "bfloat16" else dtype


def texture_memory(manifest: Manifest, params: Mapping[str, int]) -> Iterator[tuple[str, TextureMemory]]:
    """The arguments that launches take as texture objects, each with its memory; `params` has all of the kernel."""
    arrays = {array.name: array for array in manifest.texture_arguments()}
    for texture in manifest.textures:
        array = arrays[texture.argument]
        sizes = (array.elements, texture.width, texture.height, texture.pitch)
        elements, width, height, pitch = evaluate_all(sizes, params)
        is_linear = texture.filter == "linear"
        dtype = channel_type(array.dtype)
        yield array.name, TextureMemory(dtype, elements, width, height, pitch, texture.address_mode, is_linear)
