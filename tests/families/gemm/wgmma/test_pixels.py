"""Convolutions by wgmma: which images TMA copies in im2col mode, their bounding boxes, and values on the CPU device."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from itertools import pairwise

import pytest

from cugen.families.gemm.wgmma.operands.pixels import Axis
from cugen.plan.kernel import Kernel
from cugen.plan.memory import PixelBox
from cugen.plan.nodes import For
from cugen.plan.pipeline_nodes import Wgmma
from cugen.plan.symbols import symbol
from tests.families.gemm.test_gemm import nodes

SAME = "y[n, h, q, k] = sum(x[n, h + r - 1, q + s - 1, c] * w[k, r, s, c], r, s, c)"
LINE = "y[n, q, k] = sum(x[n, {q}, c] * w[k, s, c], s, c)"
VOLUME = "y[n, d, h, q, k] = sum(x[n, d, h, {q}, c] * w[k, s, c], s, c)"
PLANE = "y[n, h, q, k] = sum(x[n, h, {q}, c] * w[k, s, c], s, c)"


def convolution(
    compute: str = SAME,
    *,
    x: str = "N, H, W, C",
    w: str = "K, 3, 3, C",
    y: str = "N, H, W, K",
    dtype: str = "bfloat16",
    result: str = "float32",
    boundary: str = ", boundary: zero",
    schedule: str = "family: wgmma",
    **sizes: object,
) -> str:
    params = {"N": 2, "D": 2, "H": 6, "W": 7, "C": 64, "K": 32, **sizes}
    used = {name: value for name, value in params.items() if f"{name}" in f"{x} {w} {y}".replace(",", "").split()}
    return f"""
target: sm_90a
params: {{{", ".join(f"{name}: {value}" for name, value in used.items())}}}
arrays:
  x: {{shape: [{x}], dtype: {dtype}{boundary}}}
  w: {{shape: [{w}], dtype: {dtype}}}
  y: {{shape: [{y}], dtype: {result}}}
compute: {compute}
accumulate: {{tf32: true}}
schedule: {{{schedule}}}
"""


def along_q(rank: int, subscript: str, outputs: int = 7, taps: int = 1, width: int = 7) -> str:
    """A convolution along the fastest dimension of the images of an array of so many dimensions."""
    forms = {3: (LINE, "N, W, C", "N, Q, K"), 4: (PLANE, "N, H, W, C", "N, H, Q, K")}
    compute, x, y = forms.get(rank, (VOLUME, "N, D, H, W, C", "N, D, H, Q, K"))
    return convolution(compute.format(q=subscript), x=x, y=y.replace("Q", str(outputs)), w=f"K, {taps}, C", W=width)


REFUSED = {
    "six dimensions": (
        convolution(SAME.replace("x[n, ", "x[n, 0, 1, "), x="N, 2, 2, H, W, C"),
        "the im2col mode takes arrays of 3 to 5 dimensions, and x has 6",
    ),
    "channels first": (
        convolution(SAME.replace("x[n, h + r - 1, q + s - 1, c]", "x[n, c, h + r - 1, q + s - 1]"), x="N, C, H, W"),
        "channels of x aren't the fastest index of the sum",
    ),
    "channels of 24 bytes": (convolution(C=12), "pixels of x aren't multiples of 16 bytes, as TMA needs"),
    "channels of no fixed number": (
        convolution(C="{range: [8, 64], multiple_of: 8}"),
        "the number of channels of x isn't fixed",
    ),
    "transposed images": (
        convolution(boundary=", boundary: zero, layout: column"),
        "the im2col mode takes dense images with the channels last, and x is none",
    ),
    "taps as the fastest index": (
        convolution(SAME.replace("w[k, r, s, c]", "w[k, r, c, s]"), w="K, 3, C, 3"),
        "channels of x aren't the fastest index of the sum",
    ),
    "images in reverse": (
        convolution(SAME.replace("x[n, ", "x[1 - n, ")),
        "the im2col mode reads images one after the other, and those of x aren't",
    ),
    "an unknown height": (
        convolution(H="dynamic"),
        "the im2col mode takes images of fixed sizes, and those of x aren't",
    ),
    "pixels of a quotient": (
        convolution(SAME.replace("h + r - 1", "(h + r) // 2")),
        "the im2col mode has no bounding box for the pixels of x",
    ),
    "pixels backwards": (
        convolution(SAME.replace("h + r - 1", "5 - h + r")),
        "the im2col mode has no bounding box for the pixels of x",
    ),
    "two taps of one dimension": (
        convolution(SAME.replace("h + r - 1, q + s - 1", "h + r + s, q"), boundary=", boundary: zero"),
        "the im2col mode has no bounding box for the pixels of x",
    ),
    "outputs in another order": (
        convolution(SAME.replace("y[n, h, q", "y[n, q, h"), y="N, W, H, K"),
        "pixels of x don't follow each other in the order of the outputs",
    ),
    "another boundary": (
        convolution(boundary=", boundary: clamp"),
        "takes windows without a boundary, or zero outside; x has another boundary",
    ),
    "padded channels of filters by image": (
        convolution(SAME.replace("w[k", "w[n, k"), w="N, K, 3, 3, C", C=40),
        "pads channels to whole k-tiles, and w has a batch index beside its taps",
    ),
    "shared tiles of images": (
        convolution(
            SAME.replace("y[n, h, q, k]", "y[n, k, h, q]"), y="N, K, H, W", schedule="family: wgmma, multicast: 2"
        ),
        "shares tiles of matrices, and x has images",
    ),
    "more blocks than k-tiles": (
        convolution(
            along := LINE.format(q="q + s - 1"),
            x="N, W, C",
            y="N, W, K",
            w="K, 3, C",
            schedule="family: wgmma, split_k: 4",
        ),
        "splits k-tiles among 4 blocks, and sc may have only 3",
    ),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_no_im2col_copy_is_refused_in_words(reasons, text: str, reason: str) -> None:
    assert any(reason in refusal.reason for refusal in reasons("wgmma", text)), reasons("wgmma", text)


NO_BOX = "the im2col mode has no bounding box for the pixels of x"
LIMITS = {3: (1 << 15, 1 << 16), 4: (1 << 7, 1 << 8), 5: (1 << 4, 1 << 5)}  # of a corner, of an offset


@pytest.mark.covering
@pytest.mark.parametrize("rank", LIMITS)
@pytest.mark.parametrize("beyond", [0, 1])
@pytest.mark.parametrize("which", ["lower", "upper", "offset", "step"])
def test_corners_offsets_and_steps_have_limits_by_the_dimensions_of_the_array(reasons, rank, beyond, which) -> None:
    corner, offset = LIMITS[rank]
    text = {
        "lower": along_q(rank, f"q + s - {corner + beyond}"),
        "upper": along_q(rank, "q + s", outputs=7 + corner - 1 + beyond),
        "offset": along_q(rank, f"q + {offset - 1 + beyond} * s", taps=2),
        "step": along_q(rank, f"{8 + beyond} * q + s", outputs=2),
    }[which]
    refused = [refusal.reason for refusal in reasons("wgmma", text)]
    assert refused == ([NO_BOX] if beyond else [])


def pixels(kernel: Kernel) -> PixelBox:
    found = [array.tensor_map.pixels for array in kernel.tensor_maps if array.tensor_map is not None]
    (box,) = [each for each in found if each is not None]
    return box


BOXES = {
    "padding": (convolution(), PixelBox((-1, -1), (-1, -1), (1, 1))),
    "strides": (
        convolution(SAME.replace("h + r - 1, q + s", "2 * h + r - 1, 3 * q + s"), y="N, 3, 3, K"),
        PixelBox((-1, -1), (-2, -1), (2, 3)),
    ),
    "dilations": (
        convolution(SAME.replace("h + r - 1, q + s - 1", "h + 2 * r - 2, q + 3 * s - 4")),
        PixelBox((-2, -4), (-2, -4), (1, 1)),
    ),
    "flipped taps": (
        convolution(SAME.replace("h + r - 1, q + s - 1", "h - r + 1, q - 2 * s + 2")),
        PixelBox((-1, -2), (-1, -2), (1, 1)),
    ),
    "unit taps": (
        convolution(SAME.replace("h + r - 1, q + s", "h, q + s").replace("r, s, c", "s, c"), w="K, 3, C"),
        PixelBox((0, -1), (0, -1), (1, 1)),
    ),
    "a crop": (
        convolution(SAME.replace("h + r - 1, q + s - 1", "h + r + 1, q + s + 2"), y="N, 2, 3, K"),
        PixelBox((1, 2), (-3, -2), (1, 1)),
    ),
    "a single image": (
        convolution("y[h, q, k] = sum(x[1, h + r - 1, q + s - 1, c] * w[k, r, s, c], r, s, c)", y="H, W, K"),
        PixelBox((-1, -1), (-1, -1), (1, 1)),
    ),
    "a volume": (
        convolution(
            "y[n, d, h, q, k] = sum(x[n, d + t - 1, h, 2 * q + s, c] * w[k, t, s, c], t, s, c)",
            x="N, D, H, W, C",
            w="K, 3, 2, C",
            y="N, D, H, 3, K",
        ),
        PixelBox((-1, 0, 0), (-1, 0, -2), (1, 1, 2)),
    ),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize(("text", "box"), BOXES.values(), ids=list(BOXES))
def test_the_bounding_box_has_the_pixels_of_the_first_tap(planned, prove, text: str, box: PixelBox) -> None:
    assert pixels(planned(text)) == box
    prove(text)


def test_strides_dilations_and_paddings_may_be_params(planned, prove) -> None:
    by_params = SAME.replace("h + r - 1, q + s - 1", "S * h + E * r - P, S * q + E * s - P")
    text = convolution(by_params, y="N, 3, 3, K").replace("params: {", "params: {S: 2, E: 2, P: 1, ")
    assert pixels(planned(text)) == PixelBox((-1, -1), (-2, -3), (2, 2))
    prove(text)


@pytest.mark.parametrize(("dilation", "offsets"), [(2, [0, 2, 4]), (-2, [4, 2, 0]), (0, [0, 0, 0])])
def test_offsets_of_taps_are_from_the_first_pixel_in_memory(dilation: int, offsets: list[int]) -> None:
    tap = symbol("tap")
    axis = Axis(None, None, 1, dilation, 0, 0, 3)
    assert [int(axis.offset(tap).subs(tap, number)) for number in range(3)] == offsets


# Channels of a tap that are whole k-tiles, and others; by bytes of an element.
CHANNELS = {1: (128, 16, 48, 144), 2: (64, 128, 8, 24, 40, 72), 4: (32, 64, 4, 20, 36)}
TYPES = {
    "bfloat16": (2, ("bfloat16", "float32")),
    "float16": (2, ("float16", "float32")),
    "float32": (4, ("float32",)),
    "int8": (1, ("int32",)),
    "float8_e4m3": (1, ("bfloat16", "float32")),
}


@dataclass(frozen=True)
class Draw:
    text: str
    mode: str  # sanitize, races or neither


def drawn(seed: int) -> Draw:
    """A convolution, from its seed alone."""
    source = random.Random(seed)
    dtype = list(TYPES)[seed % len(TYPES)]
    size, results = TYPES[dtype]
    dimensions = source.choice((1, 2, 2, 3))
    inputs = [source.randint(1, 9) for _ in range(dimensions)]
    outputs = [source.randint(1, 9 if dimensions < 3 else 5) for _ in range(dimensions)]
    taps = [source.randint(1, 3) for _ in range(dimensions)]
    moving, summed = list("dhq"[-dimensions:]), list("trs"[-dimensions:])
    subscripts = []
    for index, tap in zip(moving, summed, strict=True):
        step, dilation, first = source.randint(1, 3), source.choice((1, 1, 2, -1)), source.randint(-3, 2)
        subscripts.append(f"{step} * {index} + {dilation} * {tap} + {first}")
    terms = ", ".join(summed)
    numbers = ", ".join(map(str, taps))
    by_filter = size != 2 or source.random() < 0.5
    w, filters = (f"K, {numbers}, C", f"k, {terms}, c") if by_filter else (f"{numbers}, C, K", f"{terms}, c, k")
    order = source.choice(("last", "last", "first"))
    result = ["n", *moving, "k"] if order == "last" else ["n", "k", *moving]
    shape = {"n": "N", "k": "K", **dict(zip(moving, map(str, outputs), strict=True))}
    channels = source.choice(CHANNELS[size])
    tunable = source.choice(("", ", split_k: 2", ", multicast: 2"))
    if order == "first" and "multicast" in tunable:
        tunable = ""
    if "split_k" in tunable and -(-channels * size // 128) * math.prod(taps) < 2:
        tunable = ""
    text = convolution(
        f"y[{', '.join(result)}] = sum(x[n, {', '.join(subscripts)}, c] * w[{filters}], {terms}, c)",
        x=f"N, {', '.join(map(str, inputs))}, C",
        w=w,
        y=", ".join(shape[index] for index in result),
        dtype=dtype,
        result=source.choice(results),
        schedule=f"family: wgmma{tunable}",
        N=source.choice((1, 2, 3, 5)),
        C=channels,
        K=128 if "multicast" in tunable else source.choice((16, 40, 64, 104)),
    )
    return Draw(text, source.choice(("", "sanitize", "races")))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_drawn_convolutions_equal_the_reference(prove, seed: int) -> None:
    draw = drawn(seed)
    prove(draw.text, sanitize=draw.mode == "sanitize", races=draw.mode == "races")


CLUSTERS = {
    "a single image": convolution(N=1, H=13, W=13, K=128, schedule="family: wgmma, multicast: 2"),
    "filters by image": convolution(
        SAME.replace("w[k", "w[n, k"), w="N, K, 3, 3, C", H=13, W=13, K=128, schedule="family: wgmma, multicast: 2"
    ),
    "a line": convolution(
        LINE.format(q="q + s - 1"),
        x="N, W, C",
        y="N, W, K",
        w="K, 3, C",
        N=1,
        W=150,
        schedule="family: wgmma, multicast: 2",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("text", CLUSTERS.values(), ids=list(CLUSTERS))
def test_the_last_tile_of_a_cluster_may_begin_after_the_last_pixel(planned, prove, text: str) -> None:
    """Three tiles of 64 or one of 192 for two blocks: the map has no pixel after the last of a single image."""
    assert planned(text).cluster == 2
    prove(text)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("channels", [8, 24, 40, 72])
@pytest.mark.parametrize("filters", ["K, 3, 3, C", "3, 3, C, K"])
def test_channels_are_padded_to_whole_k_tiles(planned, prove, channels: int, filters: str) -> None:
    w = "w[k, r, s, c]" if filters.startswith("K") else "w[r, s, c, k]"
    text = convolution(SAME.replace("w[k, r, s, c]", w), w=filters, C=channels)
    (taps,) = [array for array in planned(text).tensor_maps if array.name == "w"]
    assert tuple(map(str, taps.shape)) == (("9", "K", "C") if filters.startswith("K") else ("9", "C", "K"))
    prove(text)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("channels", "terms"),
    [(8, [16]), (24, [32]), (40, [48]), (56, [64]), (64, [64]), (72, [16, 48]), (96, [32, 32]), (200, [16, 48])],
)
def test_zeros_behind_the_channels_of_a_tap_are_not_multiplied(planned, channels: int, terms: list[int]) -> None:
    """In the last k-tile of a tap; those of longer ones that it lacks are in a branch."""
    kernel = planned(convolution(C=channels))
    sizes = {name: low for name, (low, high) in kernel.ranges if low == high}
    loops = [node.loop for node in nodes(kernel, For) if isinstance(node.body[0], Wgmma)]
    ends = [0, *(int(loop.stop.xreplace(sizes)) for loop in loops)]
    assert [after - before for before, after in pairwise(ends)] == terms
    assert [int(loop.start) for loop in loops] == ends[:-1]


@pytest.mark.slow
def test_a_batch_of_images_known_at_launch_is_taken(made, prove) -> None:
    text = convolution(N="dynamic", C=24)
    assert [kernel.family for kernel in made(text).plan.kernels] == ["wgmma"]
    for images in (1, 3, 200):
        prove(text, {"N": images})
