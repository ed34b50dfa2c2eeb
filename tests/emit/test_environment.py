"""Templates are compiled once, however many kernels are made of them."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from cugen.emit.environment import environment
from cugen.kernel import generate
from cugen.spec.load import load_text

SPEC = """\
cugen: 1
kernel: scale
params: {N: 40}
arrays:
  x: {shape: [N], dtype: float32}
  y: {shape: [N], dtype: float32}
compute: y[i] = 2 * x[i]
"""


def test_a_second_kernel_compiles_no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str | None] = []
    compile = jinja2.Environment.compile

    def counting(self: jinja2.Environment, source: str, name: str | None = None, *words: object) -> object:
        compiled.append(name)
        return compile(self, source, name, *words)

    monkeypatch.setattr(jinja2.Environment, "compile", counting)
    first = generate(load_text(SPEC)[0])
    compiled.clear()
    assert generate(load_text(SPEC)[0]).source == first.source
    assert compiled == []


def test_a_template_of_another_text_is_another_template(tmp_path: Path) -> None:
    template = tmp_path / "one.j2"
    for text in ("a", "b"):
        template.write_text(text)
        env = environment()
        env.loader = jinja2.FileSystemLoader(tmp_path)
        assert env.get_template("one.j2").render() == text
