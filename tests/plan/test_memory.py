"""Arrays and accesses."""

import pytest

from cugen.pieces.kernels import dense_array
from cugen.plan.memory import Access
from cugen.plan.symbols import integer
from cugen.spec.types import FLOAT32


def test_an_access_has_a_subscript_for_every_dimension():
    window = dense_array("window", FLOAT32, [4], "register")
    Access(window, (integer(0),), "load")
    with pytest.raises(ValueError, match="2 subscripts for `window` of 1 dimensions"):
        Access(window, (integer(0), integer(0)), "load")
