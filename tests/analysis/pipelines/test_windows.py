"""The synchronisation of convolutions by wgmma is proved, and of none with a planted fault."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cugen.plan.kernel import Kernel
from cugen.plan.nodes import Barrier, NamedBarrier, Node
from cugen.plan.pipeline_nodes import (
    ArriveBarrier,
    AwaitBarrier,
    AwaitTensorStores,
    AwaitWgmmas,
    CommitTensorStores,
    CommitWgmmas,
    FenceBarrierInit,
    FenceProxy,
    FenceWgmma,
    InitBarrier,
    TensorLoad,
    TensorStore,
    Wgmma,
)
from cugen.plan.symbols import Mod, bounds, integer
from cugen.schedule.planner import make_plan
from cugen.spec.load import load_text

from .conftest import nodes_of, nth, proof_of, refuted, with_subscripts

SYNCHRONISATION = (
    InitBarrier,
    FenceBarrierInit,
    ArriveBarrier,
    AwaitBarrier,
    TensorLoad,
    TensorStore,
    CommitTensorStores,
    AwaitTensorStores,
    FenceProxy,
    FenceWgmma,
    CommitWgmmas,
    AwaitWgmmas,
    Barrier,
    NamedBarrier,
)


@lru_cache(maxsize=64)
def convolution(schedule: str = "", filters: str = "K, 3, 3, C", result: str = "bfloat16", **sizes: object) -> Kernel:
    params = {"N": 32, "H": 56, "W": 56, "C": 128, "K": 256, **sizes}
    w = "k, r, s, c" if filters.startswith("K") else "r, s, c, k"
    (spec,) = load_text(f"""
cugen: 1
kernel: conv
target: sm_90a
params: {{{", ".join(f"{name}: {size}" for name, size in params.items())}}}
arrays:
  x: {{shape: [N, H, W, C], dtype: bfloat16, boundary: zero}}
  w: {{shape: [{filters}], dtype: bfloat16}}
  y: {{shape: [N, H, W, K], dtype: {result}}}
compute: y[n, h, q, k] = sum(x[n, h + r - 1, q + s - 1, c] * w[{w}], r, s, c)
schedule: {{family: wgmma{schedule}}}
""")
    (kernel,) = make_plan(spec).kernels
    return kernel


KERNELS = {
    "persistent": lambda: convolution(),
    "filters along K": lambda: convolution(filters="3, 3, C, K"),
    "padded channels": lambda: convolution(C=40),
    "padded channels of filters along K": lambda: convolution(C=40, filters="3, 3, C, K"),
    "few stages": lambda: convolution(", stages: 2"),
}
FORMS = {
    "no refill": lambda: convolution(N=1, H=13, W=13, C=64),
    "split-K": lambda: convolution(", split_k: 4", N=1, H=7, W=7, C=512),
    "multicast": lambda: convolution(", multicast: 2"),
    "stores of registers": lambda: convolution(result="float32"),
    "images known at launch": lambda: convolution(N="dynamic"),
}


@pytest.mark.parametrize("kernel", (KERNELS | FORMS).values(), ids=KERNELS | FORMS)
def test_every_form_of_a_convolution_is_proved(kernel):
    proof = proof_of(kernel())
    assert proof.verdict == "proved", proof.line


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kind", SYNCHRONISATION, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("name", ["persistent", "padded channels of filters along K"])
def test_no_convolution_that_lacks_one_of_its_nodes_is_proved(name, kind):
    kernel = KERNELS[name]()
    count = len(nodes_of(kernel, kind))
    assert count > 0
    for position in range(count):
        assert refuted(nth(kernel, kind, position, lambda node: ())), position


@pytest.mark.sampled(3)
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("name", KERNELS)
def test_the_other_parity_is_refuted_at_the_first_k_tile(name, position):
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, AwaitBarrier)
        return (replace(node, parity=Mod(node.parity + 1, integer(2))),)

    proof = proof_of(nth(KERNELS[name](), AwaitBarrier, position, planted))
    assert [(c.name, c.k_tile, c.stage) for c in proof.claims if c.verdict == "refuted"] == [("phases", 0, 0)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", KERNELS | FORMS)
def test_the_bytes_that_are_expected_are_those_of_whole_boxes(name):
    """Of all pixels and channels of a box, inside the images or not, and with the padded channels."""
    kernel = (KERNELS | FORMS)[name]()
    (expect,) = [node for node in nodes_of(kernel, ArriveBarrier) if node.expected_bytes is not None]
    loads = {node.target.array.symbol: node for node in nodes_of(kernel, TensorLoad)}
    stages = [math.prod(int(size) for size in load.target.array.shape[1:]) * 2 for load in loads.values()]
    assert bounds(expect.expected_bytes, dict(kernel.ranges)) == (sum(stages), sum(stages))


@pytest.mark.parametrize("more", [-128, -16, 16, 128])
def test_other_bytes_than_those_of_the_boxes_are_refuted(more):
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, ArriveBarrier)
        assert node.expected_bytes is not None
        return (replace(node, expected_bytes=node.expected_bytes + more),)

    assert refuted(nth(convolution(), ArriveBarrier, 0, planted)) == ["bytes"]


def test_a_box_of_fewer_pixels_is_refuted():
    def planted(node: Node) -> tuple[Node, ...]:
        assert isinstance(node, TensorLoad)
        array = node.source.array
        assert array.tensor_map is not None
        *others, rows, channels = array.tensor_map.box
        fewer = replace(array, tensor_map=replace(array.tensor_map, box=(*others, rows - 1, channels)))
        return (replace(node, source=replace(node.source, array=fewer)),)

    assert refuted(nth(convolution(), TensorLoad, 0, planted)) == ["bytes"]


@pytest.mark.slow
@given(st.data())
def test_a_subscript_of_another_stage_is_not_proved(data):
    kernel = KERNELS[data.draw(st.sampled_from(["persistent", "padded channels"]))]()
    kind = data.draw(st.sampled_from([ArriveBarrier, AwaitBarrier, TensorLoad, Wgmma]))
    position = data.draw(st.integers(0, len(nodes_of(kernel, kind)) - 1))
    stages = int(nodes_of(kernel, AwaitBarrier)[0].barrier.array.shape[0])
    shift = data.draw(st.integers(1, stages - 1))
    operands = {TensorLoad: ("target", "barrier"), Wgmma: ("a", "b")}.get(kind, ("barrier",))
    operand = data.draw(st.sampled_from(operands))

    def planted(node: Node) -> tuple[Node, ...]:
        moved = with_subscripts(getattr(node, operand), lambda stage: Mod(stage + shift, integer(stages)))
        return (replace(node, **{operand: moved}),)

    assert proof_of(nth(kernel, kind, position, planted)).verdict != "proved"
