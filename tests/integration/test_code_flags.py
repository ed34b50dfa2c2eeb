"""The flags by which builds compile a .cu for a target."""

from __future__ import annotations

from cugen.integrations.build import code_flags


def test_code_for_an_architecture_alone_is_compiled_for_no_other() -> None:
    assert code_flags("sm_90") == ("-arch=sm_90",)
    assert code_flags("sm_90a") == ("-gencode=arch=compute_90a,code=sm_90a",)
