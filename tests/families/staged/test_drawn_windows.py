"""Property test: drawn windowed statements over an input in shared memory agree with the NumPy reference."""

from __future__ import annotations

import re

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from cugen.kernel import generate
from cugen.runtime.cpu import CpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.drawn import examples

MODES = ("zero", "clamp", "wrap", "reflect", "{value: 5}")
TYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "int16")
PLACEMENTS = ("pad: 1", "pad: 2", "swizzle: xor", "dynamic: true", "dynamic: true, pad: 3")
WIDTHS = (
    2,
    7,
    31,
    32,
    33,
    37,
    61,
    63,
    64,
    65,
    127,
    128,
    129,
    255,
    256,
    257,
)  # primes, and sizes round those of a block
HEIGHTS = (1, 2, 3, 7, 8, 9, 13, 16, 17)
REFUSALS = re.compile("staged: (a block reads (0|1)[.0-9]* times|the tiles of x take [0-9]+ bytes)")


def shifted(subscript: str, by: int) -> str:
    return f"{subscript} - {-by}" if by < 0 else f"{subscript} + {by}" if by else subscript


@st.composite
def windows(draw: st.DrawFn) -> tuple[str, dict[str, int]]:
    """The text of a spec, and the values of its dynamic params."""
    rank = draw(st.integers(1, 3))
    indices, taps = "hij"[3 - rank :], "rst"[3 - rank :]
    sizes = {f"N{i}": draw(st.sampled_from(WIDTHS if i == indices[-1] else HEIGHTS)) for i in indices}
    dynamic = {name: size for name, size in sizes.items() if draw(st.integers(0, 3)) == 0}
    strides = {i: draw(st.sampled_from((1, 1, 1, 1, 2, 3))) for i in indices}
    window = [
        shifted(f"{strides[i]} * {i} + {draw(st.integers(1, 3))} * {t}", draw(st.integers(-4, 2)))
        for i, t in zip(indices, taps, strict=True)
    ]
    reduction = draw(st.sampled_from(("sum", "max", "min")))
    terms = [f"{reduction}(x[{', '.join(window)}], {', '.join(taps)})"]
    for _ in range(draw(st.integers(0, 2))):
        offsets = (shifted(f"{strides[i]} * {i}", draw(st.integers(-5, 5))) for i in indices)
        terms.append(f"x[{', '.join(offsets)}]")
    extents = [f"{i}: N{i}" for i in indices] + [f"{t}: {draw(st.integers(2, 5))}" for t in taps]
    placement = draw(st.sampled_from(("", *(p for p in PLACEMENTS if rank > 1 or "swizzle" not in p))))
    layout = draw(st.sampled_from(("", "", ", layout: column", ", pitch: {align: 64}"))) if rank == 2 else ""
    dtype = draw(st.sampled_from(TYPES))
    params = ", ".join(f"{name}: {'dynamic' if name in dynamic else size}" for name, size in sizes.items())
    boundary = draw(st.sampled_from(MODES))
    shape = ", ".join(f"{strides[i]} * N{i}" for i in indices)
    memory = f"{{space: shared, {placement}}}" if placement else "shared"
    text = (
        f"params: {{{params}}}\nindices: {{{', '.join(extents)}}}\narrays:\n"
        f"  x: {{shape: [{shape}], dtype: {dtype}, boundary: {boundary}, memory: {memory}{layout}}}\n"
        f"  y: {{shape: [{', '.join(sizes)}], dtype: {dtype}}}\n"
        f"compute: y[{', '.join(indices)}] = cast({' + '.join(terms)}, {dtype})\n"
    )
    if draw(st.integers(0, 2)) == 0:
        text += f"schedule: {{thread: {{{indices[-1]}: {draw(st.sampled_from((1, 2, 4)))}}}}}\n"
    return text, dynamic


def agrees(text: str, params: dict[str, int], device: CpuDevice) -> None:
    """Fails unless the results equal the reference's; windows that share nothing or are too large are refused."""
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    try:
        kernel = generate(spec, analysis=False)
    except SpecError as error:
        if not REFUSALS.search(str(error)):
            raise
        event("refused")
        return
    event(kernel.plan.kernels[0].family)
    run = verify(kernel.spec, kernel.source, kernel.manifest, device, params=params)
    assert run.verification.passed, "\n".join([text, *run.verification.messages, kernel.source])


@pytest.mark.slow
@settings(max_examples=examples(12), deadline=None)
@given(drawn=windows())
def test_drawn_windows_agree_with_the_reference(drawn):
    agrees(*drawn, CpuDevice(workers=1, shuffle=7))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(drawn=windows())
def test_drawn_windows_stay_in_bounds(drawn):
    agrees(*drawn, CpuDevice(workers=1, shuffle=7, sanitize=True))


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(drawn=windows())
def test_drawn_windows_are_free_of_races(drawn):
    agrees(*drawn, CpuDevice(workers=1, shuffle=7, races=True))
