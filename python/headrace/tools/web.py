"""The tools `web_search` and `web_fetch`, over the capabilities of the runtime, which come as functions.

What they give was written by anybody: it is data, and nothing in it is followed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from headrace.errors import HeadraceError
from headrace.tools.definition import Outcome, Output, Prepared, RefusedError, ToolSpec
from headrace.tools.files import number, schema, text
from headrace.tools.permission.acts import Connect, Other

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

__all__ = ["WebFetch", "WebSearch"]

RESULTS: Final = 8


class Hit(Protocol):
    """A page that was found."""

    @property
    def url(self) -> str:
        """Where it is."""

    @property
    def title(self) -> str:
        """What it is called."""

    @property
    def snippet(self) -> str:
        """What of it answers the question."""


class Hits(Protocol):
    """Pages that were found."""

    @property
    def results(self) -> Sequence[Hit]:
        """Best first."""


class Page(Protocol):
    """A page's text."""

    @property
    def url(self) -> str:
        """Where it was found in the end."""

    @property
    def content(self) -> str:
        """Its text."""


class WebSearch:
    """Looks for pages.

    - `search`: takes the question and how many pages at most.
    """

    spec: Final = ToolSpec(
        name="web_search",
        description="Search the web. Gives titles, addresses and what of each page answers the question.",
        schema=schema(
            ("query",),
            query=text("The question.", minLength=1, maxLength=2000),
            max_results=number("How many pages; 8 if not given.", 1, 50),
        ),
        effects=("network",),
        executor="gateway",
        timeout_s=90.0,
    )

    def __init__(self, search: Callable[[str, int], Awaitable[Hits]]) -> None:
        self._search = search

    async def prepare(self, value: Any) -> Prepared:
        """Take the question."""
        query, most = value["query"], value.get("max_results", RESULTS)

        async def run(output: Output) -> Outcome:
            try:
                found = await self._search(query, most)
            except HeadraceError as error:
                return Outcome(code="tool_error", message=f"The search failed: {type(error).__name__}.", retryable=True)
            for hit in found.results:
                output.write(f"{hit.title}\n{hit.url}\n{hit.snippet}\n\n".encode("utf-8", "replace"))
            return Outcome(message="" if found.results else "Nothing was found.")

        return Prepared(
            normalised={"query": query, "max_results": most},
            acts=(Other("network"),),
            run=run,
            summary=f"search the web for {query}",
        )


class WebFetch:
    """Reads a page.

    - `fetch`: takes the address.
    """

    spec: Final = ToolSpec(
        name="web_fetch",
        description="Read a page of the web as text.",
        schema=schema(("url",), url=text("An http or https address.", minLength=1, maxLength=8192)),
        effects=("network",),
        executor="gateway",
        timeout_s=90.0,
    )

    def __init__(self, fetch: Callable[[str], Awaitable[Page]]) -> None:
        self._fetch = fetch

    async def prepare(self, value: Any) -> Prepared:
        """Look at the address."""
        url = value["url"]
        try:
            parts = urlsplit(url)
            host = parts.hostname
        except ValueError:
            host = None
        if not host or parts.scheme not in ("http", "https") or "@" in parts.netloc:
            raise RefusedError("url: must be an http or https address without a user or a password")

        async def run(output: Output) -> Outcome:
            try:
                page = await self._fetch(url)
            except HeadraceError as error:
                return Outcome(
                    code="tool_error", message=f"The page cannot be read: {type(error).__name__}.", retryable=True
                )
            output.write(page.content.encode("utf-8", "replace"))
            return Outcome(message="" if page.url == url else f"Found at {page.url}:")

        return Prepared(normalised={"url": url}, acts=(Connect(host),), run=run, summary=f"read {url}")
