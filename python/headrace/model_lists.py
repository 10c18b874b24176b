"""What a client is told of the models: the list of every name that it may ask for, and one name alone.

1. What is configured comes first; a provider's own name stands also alone where it leads to that very model.
2. One name is told where a request with it would go somewhere. A name of a provider's own is not, where the provider's
   list is known and has no such model.
3. A name that a key may not ask for is as unknown to it as one that does not exist.

Never here: a socket, a choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.catalogue import UNKNOWN, merged, written, written_one
from headrace.selectors import Route

if TYPE_CHECKING:
    from headrace.catalogue import Listings, ModelFacts, Shape
    from headrace.keys import GatewayKey
    from headrace.resolver import Resolver, Row

__all__ = ["every_model", "one_model"]


def every_model(resolver: Resolver, listings: Listings, key: GatewayKey | None, shape: Shape) -> bytes:
    """Write the list of every name that a key may ask for, with its provider and what is known of the model."""
    subject = key.subject if key is not None else None
    facts = resolver.facts
    known: dict[str, tuple[str, ModelFacts]] = {}

    def add(name: str, row: Row, model: str, told: ModelFacts | None = None) -> None:
        if name not in known and (key is None or key.may_ask(name)):
            own = facts.of(row.definition.kind, row.id, model)
            known[name] = (row.id, merged(own, told) if told is not None else own)

    listed = {row.id: {one.id: one.facts for one in listings.of(row.id)} for row in resolver.rows.values()}
    for name, route in resolver.names.public(subject):
        add(name, resolver.rows[route.provider], route.model, listed[route.provider].get(route.model))
    for row in resolver.rows.values():
        for model in (*row.definition.models, *listed[row.id]):
            told = listed[row.id].get(model)
            found = resolver.names.resolve(model, subject)
            if isinstance(found, Route) and (found.provider, found.model) == (row.id, model):
                add(model, row, model, told)
            add(f"{row.id}/{model}", row, model, told)
    return written(known, shape)


def one_model(name: str, resolver: Resolver, listings: Listings, key: GatewayKey | None, shape: Shape) -> bytes | None:
    """Write what is known of one name. None: no such name is known to this key."""
    if key is not None and not key.may_ask(name):
        return None
    subject = key.subject if key is not None else None
    route = resolver.names.resolve(name, subject)
    if not isinstance(route, Route):
        return None
    row = resolver.rows[route.provider]
    own = resolver.facts.of(row.definition.kind, row.id, route.model)
    listed = {one.id: one.facts for one in listings.of(row.id)}
    told = listed.get(route.model)
    if told is None and listed and own == UNKNOWN and not resolver.names.is_public(name, subject):
        return None
    return written_one(name, row.id, merged(own, told) if told is not None else own, shape)
