"""Termination of worker processes with their parent, even if it was killed or they hang in a kernel."""

from __future__ import annotations

import os
import signal
import threading
import time

_POLL_INTERVAL_S = 1.0  # seconds between checks of the parent


def end_with_parent() -> None:
    """Starts a thread that ends this process when its parent has exited."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_POLL_INTERVAL_S)
        os._exit(1)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()


def serve_parent() -> None:
    """Initialises a pool process: ignores Ctrl-C, and ends with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
