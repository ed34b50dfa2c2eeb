"""Processes that don't outlive the search that started them, even where it was killed or they hang in a kernel."""

from __future__ import annotations

import os
import signal
import threading
import time

_EVERY_S = 1.0


def end_with_parent() -> None:
    """Ends this process when its parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_EVERY_S)
        os._exit(1)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()


def serve_parent() -> None:
    """In a process of a pool: Ctrl-C is for the parent, which ends this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
