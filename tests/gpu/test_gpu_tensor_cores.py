"""Tensor cores on a GPU: operands rounded as the CPU device rounds them, and drawn GEMMs within their bounds."""

from __future__ import annotations

import numpy as np
import pytest

from cugen.kernel import generate
from cugen.runtime.gpu import GpuDevice
from cugen.runtime.verify import verify
from cugen.spec.diagnostics import SpecError
from cugen.spec.load import load_text
from tests.families.gemm.test_matrix_fragments import TYPES, identity_product, product_of, rounded
from tests.families.gemm.test_tensor_core_draws import PIECES, draw, reasons_of


@pytest.mark.parametrize("k_major", [(True, True), (True, False), (False, True), (False, False)])
def test_each_element_is_rounded_to_tf32(device: GpuDevice, k_major: tuple[bool, bool]) -> None:
    text, inputs = identity_product(k_major)
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{text}")
    kernel = generate(spec)
    run = verify(spec, kernel.source, kernel.manifest, device, inputs=inputs)
    a = inputs.arrays["A"] if k_major[0] else inputs.arrays["A"].T
    assert (run.outputs["C"] == rounded(np.ascontiguousarray(a))).all()


@pytest.mark.parametrize("types", TYPES)
@pytest.mark.parametrize("size", [257, 2048])
def test_products_of_every_type_are_within_their_bounds(
    device: GpuDevice, types: tuple[str, str, str], size: int
) -> None:
    (spec,) = load_text(f"cugen: 1\nkernel: k\n{product_of(types, size, size, size, schedule='')}")
    kernel = generate(spec)
    run = verify(spec, kernel.source, kernel.manifest, device)
    assert run.verification.passed, run.verification.messages


@pytest.mark.parametrize("seed", range(120))
def test_drawn_products_are_within_their_bounds_or_refused_by_the_name_of_a_piece(device: GpuDevice, seed: int) -> None:
    lines = [line for line in draw(seed).text.splitlines() if not line.startswith("target:")]
    refusal = ""
    try:
        (spec,) = load_text("cugen: 1\nkernel: k\n" + "\n".join(lines))
        kernel = generate(spec)
    except SpecError as error:
        refusal = reasons_of(error)
    if refusal:
        assert any(piece in refusal for piece in PIECES)
    else:
        run = verify(spec, kernel.source, kernel.manifest, device)
        assert run.verification.passed, run.verification.messages
