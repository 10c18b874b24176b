"""A gateway's figures: who may read them, which models' names they hold, and the page.

1. Without keys, whoever may ask the gateway may read them. With keys, nobody may but who has the secret of `[metrics]`:
   what is asked, how much of it and what it costs is no client's business.
2. The names of models in them are the configuration's and those that providers list. A client that makes names up
   fills no page.

Never here: a counter of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from headrace.keys import GatewayKey, KeyRing
from headrace.metrics._exposition import content_type, page
from headrace.metrics._figures import Metrics
from headrace.metrics._state import books_families, pool_families, running_family
from headrace.requests import Answer, Refusal
from headrace.selectors import Explicit, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from headrace.breaker import Breakers
    from headrace.catalogue import Listings
    from headrace.config import Config
    from headrace.metrics._exposition import Family
    from headrace.metrics._state import Books
    from headrace.requests import Plan, Request
    from headrace.resolver import Row
    from headrace.routes import RouteAttempts

__all__ = ["Figures"]

_LOCKED: Final = Refusal(
    status=403,
    code="metrics_not_allowed",
    message="this gateway has keys, and none of them reads the metrics: set secret in [metrics]",
)
_UNKNOWN: Final = Refusal(
    status=401, code="invalid_api_key", message="the metrics want the secret of [metrics], as a Bearer token"
)


class Figures:
    """What a gateway counts, and who may read it.

    - `salt`: 16 secret random bytes of this process.
    """

    def __init__(self, *, salt: bytes) -> None:
        self.counts: Metrics = Metrics()
        #: Gives figures of the process. Set by whoever runs it.
        self.process: Callable[[], Sequence[Family]] = tuple
        self._salt = salt
        self._watchers: KeyRing | None = None
        self._locked = False
        self._rows: Mapping[str, Row] = {}
        self._named: tuple[tuple[str, str], ...] = ()
        self._version = -1

    def configure(self, config: Config, rows: Mapping[str, Row]) -> None:
        """Take a configuration."""
        secret = config.metrics.secret
        self._watchers = None if secret is None else KeyRing([(GatewayKey("metrics"), secret)], salt=self._salt)
        self._locked = bool(config.keys)
        self._rows = rows
        self._named = tuple(_named(config))
        self._version = -1
        self.counts.name(self._named)

    async def refused_later(self, request: Request, deciding: Coroutine[Any, Any, Plan | Refusal | Answer]) -> Any:
        """Give what is decided in the end, and count it if it is a refusal."""
        decided = await deciding
        if isinstance(decided, Refusal):
            self.counts.refused(request.protocol, decided.code)
        return decided

    def answer(
        self,
        request: Request,
        running: Iterable[RouteAttempts],
        breakers: Breakers,
        books: Books | None,
        listings: Listings,
        *,
        now: float,
    ) -> Answer | Refusal:
        """Give the page, or say why not."""
        if self._watchers is None:
            if self._locked:
                return _LOCKED
        elif isinstance(self._watchers.admit(request), Refusal):
            return _UNKNOWN
        if self._version != listings.version:
            self._version = listings.version
            self.counts.name((*self._named, *self._listed(listings)))
        pools = [row.pool for row in self._rows.values() if len(row.pool)]
        families = (
            *self.counts.families(),
            running_family((way.client, way.target.row.id) for way in running),
            *pool_families(pools, breakers.open(), self.counts, now=now),
            *(() if books is None else books_families(books)),
            *self.process(),
        )
        form = content_type(request.header("accept"))
        return Answer(body=page(families, form), content_type=form)

    def _listed(self, listings: Listings) -> Iterator[tuple[str, str]]:
        for row in self._rows.values():
            yield from ((row.id, model) for model in row.definition.models)
            yield from ((row.id, one.id) for one in listings.of(row.id))


def _named(config: Config) -> Iterator[tuple[str, str]]:
    """Give every model that a configuration names, with its provider."""
    names = [*config.models.values(), *config.bindings.values(), *config.catalogue]
    names += [target for subject in config.subjects.values() for target in subject.bindings.values()]
    names += [target for route in config.routes for target in route.to]
    names += [target for target in (config.defaults.embeddings, config.defaults.rerank) if target is not None]
    for name in names:
        selector = parse(name)
        if isinstance(selector, Explicit) and "{model}" not in selector.model:
            yield selector.provider, selector.model
