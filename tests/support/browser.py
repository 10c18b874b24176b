"""A real browser without a window: Debian's Chromium, told to talk to nobody."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
FOUND = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
WHY = "NO BROWSER TEST: there is no chromium here (apt-get install chromium)"


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    """Start it, with a profile of its own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=FOUND, headless=True, args=FLAGS)
        try:
            yield started
        finally:
            started.close()


def apart(act: Callable[[], T]) -> T:
    """Do something in a thread of its own: what drives the browser has an event loop running in this one."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(act).result()
