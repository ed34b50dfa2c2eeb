"""Fat binaries: packed from what the compiler made, the same each time, and a cure where there is no packer."""

from __future__ import annotations

import pytest

from cugen.toolchain import locations
from cugen.toolchain.binary.fatbinary import pack
from cugen.toolchain.cuda import compile_cubin, compile_ptx
from cugen.toolchain.errors import ToolMissing

SOURCE = 'extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2; }\n'
MAGIC = b"\x50\xed\x55\xba"


@pytest.fixture
def images() -> tuple[dict[str, bytes], dict[str, str]]:
    cubins = {target: compile_cubin(SOURCE, "twice", target, lines=False).image for target in ("sm_80", "sm_90")}
    return cubins, {"sm_90": compile_ptx(SOURCE, "twice", "sm_90", lines=False)}


def test_a_fat_binary_holds_each_target(images) -> None:
    if locations.program("fatbinary") is None:
        pytest.skip("NO fatbinary, NOTHING CAN BE PACKED")
    packed = pack(*images)
    assert packed.startswith(MAGIC)
    for cubin in images[0].values():
        assert cubin in packed
    assert pack(*images) == packed


def test_without_the_packer_the_message_says_where_it_is_to_be_had(images, monkeypatch) -> None:
    monkeypatch.setattr(locations, "program", lambda name: None)
    with pytest.raises(ToolMissing, match=r"(?s)fatbinary.*pip install.*a cubin needs no fatbinary"):
        pack(*images)


def test_the_same_source_gives_the_same_bytes_in_every_folder(tmp_path, monkeypatch) -> None:
    builds = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        monkeypatch.setenv("CUGEN_CACHE_DIR", str(tmp_path / name / "cache"))
        cubin = compile_cubin(SOURCE, "twice", "sm_90", lines=False)
        assert not cubin.cached
        builds.append((cubin.image, compile_ptx(SOURCE, "twice", "sm_90", lines=False)))
    assert builds[0] == builds[1]
