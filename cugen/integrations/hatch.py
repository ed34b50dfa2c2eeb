"""Build hook of hatch, `[tool.hatch.build.hooks.cugen]`, configured by `[tool.cugen]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from cugen.integrations.build import build
from cugen.integrations.config import ConfigError, read


class CugenBuildHook(BuildHookInterface[Any]):
    """Generates the kernels before hatch collects the files of a wheel, including files ignored by git."""

    PLUGIN_NAME = "cugen"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        project = read(Path(self.root))
        if project is None:
            raise ConfigError("the build hook `cugen` is enabled, but pyproject.toml has no [tool.cugen]")
        made = build(project)
        build_data["artifacts"] += [f"/{path.relative_to(project.folder).as_posix()}" for path in made]
        if project.library is not None:
            # A wheel with a shared library is platform-specific.
            build_data["pure_python"] = False
            build_data["infer_tag"] = True


@hookimpl
def hatch_register_build_hook() -> type[CugenBuildHook]:
    """Registers the hook with hatch's plugin manager."""
    return CugenBuildHook
