"""`generated/` is what the gallery gives; `pytest --update-golden` rewrites it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cugen.emit.files import stamped
from cugen.emit.host.variants import make_entry, variants_header
from cugen.emit.inputs import shared_input_hash
from cugen.kernel import Kernel, generate
from cugen.spec.model import Spec
from cugen.spec.siblings import siblings

TEXTS: dict[str, Callable[[Kernel], str]] = {
    ".cu": lambda kernel: kernel.source,
    ".h": lambda kernel: kernel.header,
    ".json": lambda kernel: kernel.manifest.to_json(),
}


@pytest.mark.parametrize("suffix", TEXTS)
def test_a_committed_file_is_what_the_spec_gives(
    kernel: Kernel, suffix: str, root: Path, golden: Callable[[Path, str], None]
) -> None:
    golden(root / "generated" / f"{kernel.name}{suffix}", TEXTS[suffix](kernel))


def test_a_committed_header_for_variants_is_what_they_give(
    gallery: dict[str, Spec], root: Path, golden: Callable[[Path, str], None]
) -> None:
    for group in siblings(tuple(gallery.values())):
        kernels = map(generate, group.specs)
        text = variants_header(group, [make_entry(kernel.context, kernel.plan, kernel.manifest) for kernel in kernels])
        golden(root / "generated" / f"{group.name}.h", stamped(text, shared_input_hash(group.specs)))


def test_no_other_files_are_committed(gallery: dict[str, Spec], root: Path) -> None:
    expected = {f"{name}{suffix}" for name in gallery for suffix in TEXTS}
    expected |= {f"{group.name}.h" for group in siblings(tuple(gallery.values()))}
    assert {path.name for path in (root / "generated").iterdir()} == expected


def test_the_gallery_aims_at_sm_90(spec: Spec) -> None:
    assert spec.target == "sm_90"
