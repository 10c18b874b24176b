"""Our own fetch of a web page, as a kind of provider: `web_fetch = "ROW/page"` binds it.

It asks no vendor and takes no credential. Where it may connect to is `fetching`'s affair.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Never

from headrace.fetching import Fetcher, FetchSettings
from headrace.plugins import Capability, ProviderDefinition

if TYPE_CHECKING:
    from headrace.capabilities import FetchRequest, FetchResult
    from headrace.requests import RuntimeMap

__all__ = ["DEFINITION"]


def _nothing(runtime: RuntimeMap, request: Any) -> Never:  # noqa: ARG001 - as every wire has it
    raise TypeError("a plain fetch is no request to a provider")


#: One for each row's settings, so that their bounds hold over all calls.
_fetcher = functools.cache(Fetcher)


async def _run(runtime: RuntimeMap, request: FetchRequest) -> FetchResult:
    return await _fetcher(runtime.settings).fetch(request)


DEFINITION = ProviderDefinition(
    kind="plain_fetch",
    label="Plain fetch",
    base_url="https://localhost",
    capabilities=(
        Capability("web_fetch", "plain_fetch", _nothing, run=_run, carries=frozenset({"url", "format", "max_bytes"})),
    ),
    settings=FetchSettings,
)
