"""Convolutions by Winograd's algorithm: which statements are rewritten, and that results are those of the reference."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cugen.families.gemm.tiled import winograd
from cugen.kernel import Kernel, generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.honesty.check import check_honesty
from cugen.runtime.inputs import Inputs, draw, known_params
from cugen.runtime.verify import verify
from cugen.spec.load import load_text
from cugen.spec.model import Spec
from cugen.toolchain.cuda import compile_cubin, compilers
from tests.drawn import examples


@dataclass(frozen=True)
class Drawn:
    """A convolution of 3 x 3 taps, as a spec."""

    batch: int = 2
    channels: int = 3
    features: int = 4
    outputs: tuple[int, int] = (6, 8)
    pad: tuple[int, int] = (1, 1)
    groups: int = 1
    is_flipped: bool = False
    channels_last: bool = False
    features_last: bool = False
    boundary: str = "zero"
    weights: str = "ocrs"
    result: str = "{}"
    assignment: str = "="
    dtype: str = "float32"
    accumulate: str = "{winograd: true}"
    more: str = ""

    @property
    def text(self) -> str:
        rows, columns = (size + 2 - 2 * pad for size, pad in zip(self.outputs, self.pad, strict=True))
        signs = ((2 - pad, "-") if self.is_flipped else (-pad, "+") for pad in self.pad)
        i, j = (f"{name} {sign} {tap} + {k}" for name, tap, (k, sign) in zip("ij", "rs", signs, strict=True))
        g, groups = ("g, ", f"{self.groups}, ") if self.groups > 1 else ("", "")
        extents = {"o": self.features, "c": self.channels, "r": 3, "s": 3}
        c, channels = self.channels, self.channels_last
        x = f"{self.batch}, {groups}" + (f"{rows}, {columns}, {c}" if channels else f"{c}, {rows}, {columns}")
        (h, w), o = self.outputs, self.features
        y = f"{self.batch}, {groups}" + (f"{h}, {w}, {o}" if self.features_last else f"{o}, {h}, {w}")
        element = f"n, {g}" + ("i, j, o" if self.features_last else "o, i, j")
        read = f"x[n, {g}" + (f"{i}, {j}, c]" if channels else f"c, {i}, {j}]")
        value = self.result.format(f"sum({read} * w[{g}{', '.join(self.weights)}], c, r, s)").replace("@", element)
        boundary = f", boundary: {self.boundary}" if self.boundary else ""
        return f"""cugen: 1
kernel: k
arrays:
  x: {{shape: [{x}], dtype: float32{boundary}}}
  w: {{shape: [{groups}{", ".join(str(extents[name]) for name in self.weights)}], dtype: float32}}
  bias: {{shape: [{o}], dtype: float32}}
  q: {{shape: [{y}], dtype: float32}}
  y: {{shape: [{y}], dtype: {self.dtype}}}
compute: y[{element}] {self.assignment} {value} + 0 * bias[o] + 0 * q[{element}]
accumulate: {self.accumulate}
{self.more}"""

    @property
    def spec(self) -> Spec:
        (spec,) = load_text(self.text)
        return spec


LARGE = Drawn(batch=32, channels=256, features=256, outputs=(56, 56))


@pytest.fixture
def whatever_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Winograd's algorithm wherever the spec allows it, also for few outputs."""
    monkeypatch.setattr(winograd, "are_faster", lambda *_: True)


@cache
def planned(drawn: Drawn) -> Kernel:
    """The kernel of a convolution whose plan is the cost models' choice."""
    return made(drawn)


def made(drawn: Drawn) -> Kernel:
    return generate(drawn.spec, analysis=False)


def is_used(kernel: Kernel) -> bool:
    return any("Winograd" in text for text in kernel.plan.algorithms)


def why_not(drawn: Drawn) -> str:
    (text,) = planned(drawn).plan.unused_precisions
    return text.removeprefix("`winograd: true` has no effect: ")


def passes(kernel: Kernel, inputs: Inputs | None = None, *, sanitize: bool = True) -> bool:
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(sanitize=sanitize), inputs=inputs)
    assert run.verification.passed, "\n".join((*run.verification.messages, str(kernel.spec)))
    return run.verification.passed


# Which


def test_a_convolution_of_many_channels_is_computed_by_winograds_algorithm_where_that_is_allowed() -> None:
    assert is_used(planned(LARGE))
    assert not is_used(planned(replace(LARGE, accumulate="float32")))


@pytest.mark.slow
def test_the_gradient_of_a_convolution_is_computed_by_winograds_algorithm_too() -> None:
    assert is_used(planned(replace(LARGE, is_flipped=True, channels_last=True, features_last=True)))


def test_its_launches_are_transforms_and_a_batched_gemm() -> None:
    kernel = planned(LARGE)
    assert [(launch.name, launch.family) for launch in kernel.plan.kernels] == [
        ("k_y_filter", "map"),
        ("k_y_tile", "stencil"),
        ("k_y_product", "gemm"),
        ("k_y", "map"),
    ]
    assert kernel.plan.kernels[2].grid[2] == 16
    assert "const float bd10 = x_window[2 * row + 1][2 * v] + x_window[2 * row + 2][2 * v];" in kernel.source


def test_inspect_and_the_head_of_the_file_say_that_sums_are_rounded_otherwise() -> None:
    kernel = planned(LARGE)
    said = "y by Winograd's F(2 x 2, 3 x 3), whose sums are rounded otherwise, as `winograd: true` allows"
    assert kernel.plan.algorithms == (said,)
    head = re.sub(r"\n// +", " ", kernel.source.partition("extern")[0])
    assert f"accumulate {said}" in re.sub(" +", " ", head)


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"batch": 1, "channels": 8}, "the cost models don't expect it to be faster"),
        ({"more": "schedule: {family: gemm}"}, "the schedule is for the convolution in one launch"),
        ({"batch": 128, "outputs": (112, 112)}, "its workspace would have an array of more than 512 MiB"),
        ({"result": "sqrt({} ** 2) + sum(bias[k_], k_)"}, "isn't made of a single sum"),
        ({"result": "{}", "accumulate": "{type: float64, winograd: true}"}, "two float32 arrays"),
    ],
)
def test_a_permission_without_an_effect_has_a_reason(changes: dict[str, object], reason: str) -> None:
    assert reason in why_not(replace(LARGE, **changes))


def test_sizes_that_are_known_at_launch_only_are_left_to_the_convolution() -> None:
    text = LARGE.text.replace("[32,", "[N,").replace("arrays:", "params: {N: dynamic}\narrays:")
    (spec,) = load_text(text)
    (reason,) = generate(spec, analysis=False).plan.unused_precisions
    assert "known when the kernel is generated" in reason


@pytest.mark.slow
def test_a_rewritten_statement_is_no_convolution_that_the_reference_knows() -> None:
    """The product is a temporary that the planner inlines; the reference has it, and its bounds are those of a sum."""
    (spec,) = load_text("""cugen: 1
kernel: k
arrays:
  x: {shape: [64, 256, 56, 56], dtype: float32, boundary: zero}
  w: {shape: [256, 256, 3, 3], dtype: float32}
  y: {shape: [64, 256, 56, 56], dtype: float32}
compute: |
  t[n, o, c, i, j, r, s] = x[n, c, i + r - 1, j + s - 1] * w[o, c, r, s]
  y[n, o, i, j] = sum(t[n, o, c, i, j, r, s], c, r, s)
accumulate: {winograd: true}
""")
    assert not is_used(generate(spec, analysis=False))


@pytest.mark.slow
def test_a_product_of_tensor_cores_is_compared_as_well() -> None:
    """Both may be used: the products of transforms are then rounded to tf32, too."""
    kernel = generate(
        replace(LARGE, accumulate="{winograd: true, tf32: true}").spec.for_device("sm_90"), analysis=False
    )
    assert is_used(kernel)
    assert "mma" in kernel.source
    on_wgmma = replace(LARGE, accumulate="{winograd: true, tf32: true}", channels_last=True, features_last=True)
    (spec,) = load_text(on_wgmma.text + "target: sm_90a\n")
    assert not is_used(generate(spec, analysis=False))


@pytest.mark.slow
@pytest.mark.parametrize("target", ["sm_90", "sm_75"])
@pytest.mark.parametrize(
    "changes", [{}, {"outputs": (55, 57)}, {"is_flipped": True, "channels_last": True, "features_last": True}], ids=str
)
def test_threads_keep_tiles_in_registers(changes: dict[str, object], target: str) -> None:
    if not compilers():
        pytest.skip("no CUDA compiler on this machine")
    kernel = planned(replace(LARGE, **changes))
    assert is_used(kernel)
    cubin = compile_cubin(kernel.source, "k", target)
    assert cubin.warnings == ()
    assert {(used.spill_stores, used.stack_bytes) for used in cubin.kernels.values()} == {(0, 0)}


# Results


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"outputs": (5, 7)},
        {"outputs": (1, 1), "batch": 1},
        {"outputs": (2, 1), "channels": 1, "features": 1},
        {"outputs": (1, 4), "pad": (0, 2)},
        {"outputs": (13, 11), "pad": (2, 0), "channels": 17, "features": 7},
        {"outputs": (7, 6), "pad": (0, 0), "boundary": ""},
        {"outputs": (7, 6), "boundary": "clamp"},
        {"outputs": (3, 3), "boundary": "wrap", "is_flipped": True},
        {"outputs": (4, 5), "boundary": "reflect"},
        {"outputs": (5, 5), "boundary": "symmetric", "channels_last": True},
        {"groups": 3, "outputs": (5, 4)},
        {"groups": 2, "is_flipped": True, "channels_last": True, "features_last": True},
        {"channels_last": True, "features_last": True, "features": 8, "outputs": (7, 6)},
        {"channels_last": True, "weights": "rsco"},
        {"features_last": True, "weights": "cosr", "outputs": (3, 7)},
        {"result": "relu({} + bias[o]) + q[@]"},
        {"result": "tanh({}) * q[@]", "outputs": (5, 5)},
        {"assignment": "+=", "outputs": (5, 6)},
        {"assignment": "+=", "result": "relu({})"},
        {"dtype": "float16", "outputs": (3, 4)},
        {"channels": 40, "features": 40, "outputs": (9, 8)},
        {"channels_last": True, "features_last": True, "channels": 2, "features": 130, "outputs": (3, 5)},
    ],
    ids=str,
)
@pytest.mark.usefixtures("whatever_it_costs")
def test_results_are_those_of_the_convolution(changes: dict[str, object]) -> None:
    kernel = made(replace(Drawn(), **changes))
    assert is_used(kernel)
    assert passes(kernel)


@pytest.mark.slow
@pytest.mark.usefixtures("whatever_it_costs")
def test_a_transposed_convolution_with_stride_one_is_a_convolution() -> None:
    (spec,) = load_text("""cugen: 1
kernel: k
params: {stride: 1, pad: 1}
arrays:
  x: {shape: [3, 6, 7], dtype: float32, boundary: zero}
  w: {shape: [3, 5, 3, 3], dtype: float32}
  y: {shape: [5, 6, 7], dtype: float32}
compute: |
  y[o, p, q] = sum(w[c, o, r, s] * x[c, (p + pad - r) // stride, (q + pad - s) // stride], c, r, s,
                   where=(p + pad - r) % stride == 0 and (q + pad - s) % stride == 0)
accumulate: {winograd: true}
""")
    kernel = generate(spec, analysis=False)
    assert is_used(kernel)
    assert passes(kernel)


sizes = st.integers(1, 7)


@pytest.mark.slow
@settings(max_examples=examples(8), deadline=None)
@given(
    st.builds(
        Drawn,
        batch=st.integers(1, 3),
        channels=st.integers(1, 9),
        features=st.integers(1, 9),
        outputs=st.tuples(sizes, sizes),
        groups=st.sampled_from((1, 1, 2)),
        is_flipped=st.booleans(),
        channels_last=st.booleans(),
        features_last=st.booleans(),
        boundary=st.sampled_from(("zero", "clamp", "wrap", "symmetric")),
        weights=st.permutations("ocrs").map("".join),
        result=st.sampled_from(("{}", "relu({} + bias[o])", "{} + q[@]")),
        assignment=st.sampled_from(("=", "+=")),
    ),
    st.tuples(st.integers(0, 2), st.integers(0, 2)),
)
def test_results_of_any_sizes_layouts_and_borders_are_those_of_the_convolution(
    drawn: Drawn, pad: tuple[int, int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(winograd, "are_faster", lambda *_: True)
        rows, columns = (min(p, (size + 1) // 2) for p, size in zip(pad, drawn.outputs, strict=True))
        kernel = made(replace(drawn, pad=(rows, columns)))
    assert is_used(kernel)
    assert passes(kernel, sanitize=False)


@pytest.mark.slow
@pytest.mark.parametrize("value", [np.inf, np.nan])
@pytest.mark.usefixtures("whatever_it_costs")
def test_what_is_not_finite_stays_in_the_windows_that_read_it(value: float) -> None:
    drawn = Drawn(batch=1, outputs=(7, 6), result="{}")
    kernel = made(drawn)
    inputs = draw(drawn.spec, known_params(drawn.spec, {}), 1)
    inputs.arrays["x"][0, 1, 3, 2] = value
    assert passes(kernel, inputs)
    run = verify(kernel.spec, kernel.source, kernel.manifest, CpuDevice(), inputs=inputs)
    finite = np.isfinite(run.outputs["y"])
    assert not finite[0, :, 2:5, 1:4].any()
    finite[0, :, 2:5, 1:4] = True
    assert finite.all()


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [(6, 8), (7, 5)])
@pytest.mark.usefixtures("whatever_it_costs")
def test_tiles_of_a_temporary_are_those_of_its_values(outputs: tuple[int, int]) -> None:
    rows, columns = outputs
    (spec,) = load_text(f"""cugen: 1
kernel: k
arrays:
  x: {{shape: [3, {rows + 2}, {columns + 2}], dtype: float32}}
  w: {{shape: [4, 3, 3, 3], dtype: float32}}
  y: {{shape: [4, {rows}, {columns}], dtype: float32}}
compute: |
  t[c, i, j] = relu(x[c, i, j])
  y[o, i, j] = sum(t[c, i + r, j + s] * w[o, c, r, s], c, r, s)
accumulate: {{winograd: true}}
""")
    kernel = generate(spec, analysis=False)
    assert is_used(kernel)
    assert passes(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.usefixtures("whatever_it_costs")
def test_transforms_on_tensor_cores_are_within_the_bound(is_last: bool) -> None:
    drawn = Drawn(4, 128, 96, (15, 14), channels_last=is_last, features_last=is_last)
    kernel = made(replace(drawn, accumulate="{winograd: true, tf32: true}"))
    assert is_used(kernel)
    assert "mma_m16n8k8_tf32" in kernel.source
    assert passes(kernel, sanitize=False)


@pytest.mark.slow
@pytest.mark.parametrize("is_last", [False, True])
@pytest.mark.usefixtures("whatever_it_costs")
def test_the_trace_of_guarded_results_is_as_planned(is_last: bool) -> None:
    drawn = Drawn(outputs=(5, 7), channels_last=is_last, features_last=is_last, result="{} + q[@]")
    kernel = generate(drawn.spec)
    lines = kernel.access_lines()
    assert check_honesty(kernel.spec, kernel.plan, kernel.source, kernel.manifest, lines, {}).mismatches == []


@pytest.mark.slow
@pytest.mark.usefixtures("whatever_it_costs")
def test_placements_are_those_of_the_launches_that_read_the_arrays() -> None:
    kernel = made(replace(Drawn(4, 64, 64, (28, 28)), boundary="zero, memory: shared"))
    assert is_used(kernel)
    assert [launch.family for launch in kernel.plan.kernels] == ["map", "staged", "gemm", "map"]
    readonly = made(replace(Drawn(4, 64, 64, (28, 28)), result="{} + bias[o]", boundary="zero, memory: readonly"))
    assert is_used(readonly)
    assert "load_readonly" in readonly.source


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [(6, 8), (7, 5)])
@pytest.mark.usefixtures("whatever_it_costs")
def test_tiles_in_shared_memory_are_those_of_the_inputs(outputs: tuple[int, int]) -> None:
    kernel = made(Drawn(outputs=outputs, boundary="zero, memory: shared"))
    assert is_used(kernel)
    assert passes(kernel)


@pytest.mark.slow
@pytest.mark.usefixtures("whatever_it_costs")
def test_two_convolutions_have_transforms_of_their_own() -> None:
    (spec,) = load_text("""cugen: 1
kernel: k
arrays:
  x: {shape: [3, 6, 7], dtype: float32, boundary: zero}
  w: {shape: [4, 3, 3, 3], dtype: float32}
  v: {shape: [5, 4, 3, 3], dtype: float32}
  t: {shape: [4, 6, 7], dtype: float32, memory: scratch, boundary: zero}
  y: {shape: [5, 6, 7], dtype: float32}
compute: |
  t[o, i, j] = relu(sum(x[c, i + r - 1, j + s - 1] * w[o, c, r, s], c, r, s))
  y[o, i, j] = sum(t[c, i + r - 1, j + s - 1] * v[o, c, r, s], c, r, s)
accumulate: {winograd: true}
""")
    kernel = generate(spec, analysis=False)
    assert kernel.plan.algorithms[0].startswith("t, y by Winograd's")
    assert passes(kernel)
