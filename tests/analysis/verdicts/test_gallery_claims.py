"""The printed figures of dynamic kernels of the gallery, against a walk over every warp at several sizes."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from cugen.kernel import generate
from cugen.spec.load import load_all

SPECS_FOLDER = Path(__file__).parents[3] / "specs"
SPECS = ("gemm_int8", "matmul_small", "rms_norm_dynamic", "suffix_sums")
IDEALS = {"sectors": "ideal_sectors", "wavefronts": "ideal_wavefronts", "requests": "ideal_wavefronts"}


def sizes_of(param, count):
    """The smallest sizes around a few tiles that the range and the multiple allow, primes where any are."""
    wanted = (37, 67, 131)[:count]
    return [min(max(-(-n // param.multiple_of) * param.multiple_of, param.minimum), param.maximum) for n in wanted]


def check_claims(walk, name, count):
    for spec in load_all(SPECS_FOLDER / f"{name}.yaml"):
        dynamic = [param for param in spec.params if param.value is None]
        if not dynamic:
            continue
        kernel = generate(spec)
        names = dict(kernel.plan.param_symbols)
        fixed = {names[p.name]: p.value for p in spec.params if p.value is not None}
        reports = [(n, access) for n, report in enumerate(kernel.reports) for access in report.accesses]
        compared = 0
        for sizes in product(*(sizes_of(param, count) for param in dynamic)):
            params = fixed | {names[p.name]: size for p, size in zip(dynamic, sizes, strict=True)}
            walks = [walk(launch, params, spec.target, record=True) for launch in kernel.plan.kernels]
            for n, access in reports:
                if access.per_request is None:
                    continue
                unit = access.per_request.unit
                for warp in walks[n].warps.get(id(access.access), ()):
                    if None in warp.addresses:
                        continue  # the figures are for the interior, where all lanes run
                    compared += 1
                    excess = getattr(warp.cost, unit) - getattr(warp.cost, IDEALS[unit])
                    assert excess <= access.per_request.worst - access.per_request.worst_ideal, (params, access.text)
        assert compared


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["rms_norm_dynamic", "suffix_sums"])
def test_no_full_warp_costs_more_than_is_printed(walk, name):
    check_claims(walk, name, 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SPECS)
def test_no_full_warp_costs_more_than_is_printed_at_three_sizes_of_each_param(walk, name):
    check_claims(walk, name, 3)
