"""Integration with setuptools: adds the step `build_cugen` to `build`, if pyproject.toml has `[tool.cugen]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from setuptools import Command, Distribution

from cugen.integrations.build import build
from cugen.integrations.config import Project, read


def finalize(distribution: Distribution) -> None:
    """Entry point `setuptools.finalize_distribution_options`, called for every project built with cugen installed."""
    project = read(Path.cwd())
    if project is None:
        return
    base: Any = distribution.get_command_class("build")
    steps = [("build_cugen", None), *base.sub_commands]
    distribution.cmdclass["build"] = type("build", (base,), {"sub_commands": steps})
    distribution.cmdclass["build_cugen"] = type("build_cugen", (_BuildCugen,), {"project": project})
    if project.library is not None:
        # A wheel with a shared library is platform-specific.
        vars(distribution)["has_ext_modules"] = lambda: True


class _BuildCugen(Command):
    """Generates the kernels into the package's folder, as package data."""

    description = "generate kernels from specs with cugen"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = []
    editable_mode = False
    project: Project

    def initialize_options(self) -> None:
        """No options: `[tool.cugen]` has the configuration."""

    def finalize_options(self) -> None:
        """No options: `[tool.cugen]` has the configuration."""

    def run(self) -> None:
        build(self.project)

    def get_source_files(self) -> list[str]:
        """Files that a source distribution needs for this step."""
        sources = self.project.library.sources if self.project.library else ()
        return [str(path.relative_to(self.project.folder)) for path in (*self.project.specs, *sources)]

    def get_outputs(self) -> list[str]:
        """None in the build folder: `build_py` copies the files as package data."""
        return []

    def get_output_mapping(self) -> dict[str, str]:
        return {}
