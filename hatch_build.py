"""Adds manual pages and completion scripts to wheels, which pip and distributions install below `share`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShareHook(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        # In a process of its own: another version of cugen may be installed beside the builder.
        command = [sys.executable, "-m", "cugen.cli.shell.share", self._folder.name]
        subprocess.run(command, cwd=self.root, check=True)
        for path in Path(self._folder.name).rglob("*"):
            if path.is_file():
                build_data["shared_data"][str(path)] = f"share/{path.relative_to(self._folder.name).as_posix()}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self._folder.cleanup()
