"""The gallery for tests: one that asks for `spec` or `kernel` runs once for each kernel of `specs/`."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from cugen.kernel import Kernel, generate
from cugen.spec.model import Spec
from tests.gallery import specs

ROOT = Path(__file__).parents[2]
LESSONS = ("matmul_tiled.yaml", "product_ladder.yaml")  # in the README and in docs/ladder.md: every remark in the code


@cache
def _kernel(name: str) -> Kernel:
    spec = specs.gallery()[name]
    return generate(spec, remarks="all" if spec.file in LESSONS else "worst")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "gallery_name" in metafunc.fixturenames:
        metafunc.parametrize("gallery_name", list(specs.gallery()))


@pytest.fixture
def spec(gallery_name: str) -> Spec:
    return specs.gallery()[gallery_name]


@pytest.fixture
def kernel(gallery_name: str) -> Kernel:
    return _kernel(gallery_name)


@pytest.fixture
def dynamic_params(spec: Spec) -> dict[str, int]:
    """A value for each dynamic param: the greatest that is allowed up to 100, or else the least."""
    params = [param for param in spec.params if param.is_dynamic]
    return {p.name: max(min(p.maximum, 100) // p.multiple_of * p.multiple_of, p.minimum) for p in params}


@pytest.fixture
def gallery() -> dict[str, Spec]:
    """Every spec of the gallery by its kernel's name."""
    return specs.gallery()


@pytest.fixture
def root() -> Path:
    """The project's folder."""
    return ROOT
