"""`python -m cugen.cli.shell.share DIR` writes all manual pages and completion scripts where a `share` folder has them.
Wheels are built with it."""

from __future__ import annotations

import sys
from pathlib import Path

from cugen.cli.shell.completion import completion
from cugen.cli.shell.man import man_pages

COMPLETIONS = {
    "bash": "bash-completion/completions/cugen",
    "zsh": "zsh/site-functions/_cugen",
    "fish": "fish/vendor_completions.d/cugen.fish",
}


def share_files() -> dict[str, str]:
    """The texts by their path below `share`."""
    texts = {f"man/man1/{name}": text for name, text in man_pages().items()}
    return texts | {path: completion(shell) for shell, path in COMPLETIONS.items()}


if __name__ == "__main__":
    for name, text in share_files().items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
