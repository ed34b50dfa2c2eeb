"""What tensor maps encode, at the params of a call."""

from __future__ import annotations

from dataclasses import replace

from cugen.abi.manifest import ArrayArgument, Manifest, TensorMapEntry
from cugen.abi.tensor_maps import TensorMemory, tensor_memory


def test_sizes_are_evaluated_at_the_params() -> None:
    array = ArrayArgument("A", "input", "float32", ("M", 8), (8, 1), "M * 8", 16)
    entry = TensorMapEntry("A_map", "A", "float32", (8, "M // 2"), ("8 * M",), (8, 4), 32, tf32=True)
    manifest = Manifest("k", "1", "k.yaml", "", "sm_90a", {}, (array,), (), (), (), tensor_maps=(entry,))
    expected = TensorMemory("float32", (8, 5), (80,), (8, 4), 32, tf32=True)
    assert list(tensor_memory(manifest, {"M": 10})) == [("A_map", "A", expected)]
    assert list(tensor_memory(replace(manifest, tensor_maps=()), {"M": 10})) == []


def test_pixels_have_their_corners_and_steps() -> None:
    pixels = {"lower": (-1, -2), "upper": (0, 3), "steps": (1, 2)}
    entry = TensorMapEntry("x_map", "x", "int8", (16, 8, 4, "N"), (16, 128, 512), (16, 64, 1, 1), 0, False, **pixels)
    manifest = Manifest("k", "1", "k.yaml", "", "sm_90a", {}, (), (), (), (), tensor_maps=(entry,))
    ((_, _, memory),) = tensor_memory(manifest, {"N": 3})
    assert memory == TensorMemory("int8", (16, 8, 4, 3), (16, 128, 512), (16, 64, 1, 1), 0, **pixels)
