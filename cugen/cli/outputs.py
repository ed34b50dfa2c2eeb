"""Paths that a command writes: what can't be written is refused before any work is done for it."""

from __future__ import annotations

import os
from pathlib import Path

from cugen.cli.failures import files_of_the_user, wrong_call


def refuse_no_file(option: str, path: Path) -> None:
    """Refuses a path at which there can't be a file: a folder, or one in a file."""
    with files_of_the_user():
        if path.is_dir():
            raise wrong_call(f"`{option} {path}`: this is a folder", "name a file in it")
    refuse_no_folder(option, path, path.parent)


def refuse_no_folder(option: str, path: Path, folder: Path) -> None:
    """Refuses a path in a folder that can't be made, since a file is in its place."""
    with files_of_the_user():
        existing = _existing(folder)
        if not existing.is_dir():
            raise wrong_call(f"`{option} {path}`: {existing} is a file, not a folder")


def refuse_unwritable(option: str, path: Path, folder: Path, *, makes_folders: bool = True) -> None:
    """Refuses a path in a folder that can't be written to, or that isn't there and isn't made."""
    refuse_no_folder(option, path, folder)
    with files_of_the_user():
        if not makes_folders and not folder.is_dir():
            raise wrong_call(f"`{option} {path}`: no such folder: {folder}")
        existing = _existing(folder)
        if not os.access(existing, os.W_OK | os.X_OK):
            raise wrong_call(f"`{option} {path}`: {existing} can't be written to")


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one round it that is there."""
    return next(path for path in (folder, *folder.parents) if path.exists() or path == path.parent)
