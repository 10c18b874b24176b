"""The schema of the configuration file, as frozen dataclasses.

1. A field is a key, its docstring is what the documentation and the exported schema say of it.
2. pydantic reads the file against these classes. It is imported here, inside functions, and nowhere else: a process
   that loads no file never loads it.
3. Unknown keys are refused: a misspelt key must not be a silent default.
4. Types are strict: `"8080"` is no port, and `true` is no number.
5. A secret is a `Secret` from the first moment on.

Never here: what depends on more than one key (`_load.py`), or on a provider's kind (the registry).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping  # noqa: TC003 - in hints that are read at run time
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias, get_type_hints

from annotated_types import Ge, Gt, Le, MinLen

from headrace.requests import Secret

__all__ = [
    "DEFAULT_ON",
    "BreakerTable",
    "Config",
    "Credential",
    "DeadlineTable",
    "Defaults",
    "Key",
    "Metrics",
    "ModelTable",
    "PoolTable",
    "Provider",
    "RouteTable",
    "Server",
    "Store",
    "Subject",
    "guess",
    "json_schema",
    "validate",
]

Path: TypeAlias = tuple[str | int, ...]
Seconds: TypeAlias = Annotated[float, Gt(0)]
Dollars: TypeAlias = Annotated[float, Ge(0)]
Modality: TypeAlias = Literal["text", "image", "audio", "video", "file", "embedding"]
RouteKind: TypeAlias = Literal[
    "auth",
    "rate_limit",
    "quota",
    "timeout",
    "overloaded",
    "bad_request",
    "context_length",
    "content_filter",
    "stream_interrupted",
    "unsupported_feature",
    "malformed_tool_call",
    "transport",
    "unknown",
]
#: What another provider may do better.
DEFAULT_ON: Final[tuple[RouteKind, ...]] = (
    "auth",
    "rate_limit",
    "quota",
    "timeout",
    "overloaded",
    "stream_interrupted",
    "transport",
    "malformed_tool_call",
    "unknown",
)
#: A profile's binding, or a table of its named ones.
Bindings: TypeAlias = dict[str, str | dict[str, str]]
#: Keys whose value is an array of tables.
_TABLES: Final = frozenset({"providers", "credentials", "keys", "routes"})
_FORBID: Final = {"extra": "forbid", "use_attribute_docstrings": True}


class _AsSecret:
    """Tells pydantic to read a string into a `Secret`."""

    @staticmethod
    def __get_pydantic_core_schema__(_source: Any, _handler: Any) -> Any:
        from pydantic_core import core_schema

        return core_schema.no_info_after_validator_function(Secret, core_schema.str_schema(min_length=1))


SecretText: TypeAlias = Annotated[Secret, _AsSecret()]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Where the gateway listens, and what it takes."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    host: Annotated[str, MinLen(1)] = "127.0.0.1"
    """The address to listen on. Any other than loopback needs `[[keys]]`."""
    port: Annotated[int, Ge(0), Le(65535)] = 8080
    """The port; 0 takes any free one."""
    threads: Annotated[int, Ge(1), Le(64)] = 1
    """Edge threads, each with its own connections."""
    body_limit: Annotated[int, Ge(1024)] = 32 * 1024 * 1024
    """The largest request body, in bytes; a longer one is answered 413."""
    header_limit: Annotated[int, Ge(1024), Le(1024 * 1024)] = 64 * 1024
    """The largest request head, in bytes; a longer one is answered 431."""
    header_timeout: Seconds = 10.0
    """Seconds that a client may take to send its head."""
    hosts: tuple[str, ...] = ()
    """Names beside localhost under which a gateway without `[[keys]]` may be asked (the `Host` header)."""
    origins: tuple[str, ...] = ()
    """Web origins that may ask, as `https://HOST[:PORT]`.
    Without `[[keys]]`, any other request with an `Origin` is answered 403."""
    proxy: SecretText | None = None
    """The proxy by which providers elsewhere are asked, as `http://[USER:PASSWORD@]HOST:PORT`; with a password as
    `env:NAME` or `file:PATH` of one. None by default: the environment's own is taken as `env:HTTPS_PROXY`."""
    no_proxy: tuple[str, ...] = ()
    """Hosts that are asked without it: names, with all names below them, addresses and networks (`10.0.0.0/8`). This
    machine always is."""
    danger_open: bool = False
    """Listen beyond loopback without `[[keys]]`: whoever reaches the port spends your credentials."""
    danger_literal_secrets: bool = False
    """Take secrets that stand in this file itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """One key of one provider, or a way to get tokens for it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    id: str
    """Its name in logs and answers."""
    secret: SecretText | None = None
    """`env:NAME` or `file:PATH` (beside this file, where PATH is relative). Needed where there is no `oauth`."""
    oauth: str | None = None
    """In place of `secret`: `chatgpt`, `anthropic`, `google`, `google_metadata`, `azure`, `azure_identity` or `aws`.
    docs/CREDENTIALS.md has what each needs."""
    file: Annotated[str, MinLen(1)] | None = None
    """For `google`: a service account's key, or the credentials that gcloud keeps of a user. Beside this file, where
    it is relative."""
    tenant: Annotated[str, MinLen(1)] | None = None
    """For `azure`: the directory's id."""
    client_id: Annotated[str, MinLen(1)] | None = None
    """For `azure`, `azure_identity`, `anthropic` and `chatgpt`: the application's id."""
    client_secret: SecretText | None = None
    """For `azure`: `env:NAME` or `file:PATH`."""
    scope: Annotated[str, MinLen(1)] | None = None
    """What the tokens are for, where that is not the usual."""
    source: Annotated[str, MinLen(1)] | None = None
    """For `aws`: `aws:environment`, `aws:profile=NAME`, `aws:container` or `aws:instance`. By default the first that
    has credentials."""
    issuer: Annotated[str, MinLen(1)] | None = None
    """Where tokens are asked for, in place of the vendor's own address. https, or this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolTable:
    """How one of a provider's credentials is chosen."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    strategy: Literal["fill_first", "round_robin", "least_used", "random"] = "fill_first"
    """`fill_first` takes the first that is ready, `round_robin` each in turn, `least_used` the one with the fewest
    requests so far, `random` any."""
    affinity: bool = True
    """Keep a conversation on the credential that served it, since that one holds its cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerTable:
    """When a model that fails again and again is left alone, so that a route goes past it at once."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    failures: Annotated[int, Ge(0)] = 5
    """Attempts that failed in a row, by the provider's own fault; 0 for never."""
    open: Seconds = 10.0
    """Seconds until it is tried again; twice as long each time that fails, up to 300."""
    fail_fast: bool = False
    """Answer 503 at once while it is left alone and no route leads elsewhere. By default it is tried all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineTable:
    """What one attempt may take, in seconds."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    connect: Seconds = 10.0
    """To connect, with TLS and a proxy."""
    first_byte: Seconds = 600.0
    """From the request to the answer's head."""
    idle: Seconds = 120.0
    """Without any byte."""
    content: Seconds | None = None
    """Without content: keep-alives do not count. None by default."""
    total: Seconds | None = None
    """For the request as a whole, with all its attempts. None by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """A provider row: who can be asked, at which address, with which credentials."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    id: str
    """Its name in selectors: `ID/MODEL`."""
    kind: str
    """A definition from the registry; `headrace check --kinds` lists them."""
    base_url: str | None = None
    """With the version, as the vendors' own SDKs have it. Needed where the kind has none of its own."""
    protocol: Literal["openai_chat", "openai_responses", "anthropic_messages", "google_gemini"] | None = None
    """Forces one of the wires that the kind can speak. By default the client's own, else the kind's best."""
    credentials: tuple[Credential, ...] = ()
    """None are needed for a server of your own."""
    pool: PoolTable = PoolTable()
    deadlines: DeadlineTable = DeadlineTable()
    breaker: BreakerTable = BreakerTable()
    settings: dict[str, Any] = field(default_factory=dict)
    """What the kind's definition declares."""
    proxy: SecretText | None = None
    """The proxy by which this provider is asked, in the place of `server.proxy`; or `direct`."""
    http2: bool = False
    """Speak HTTP/2 where its https address does: many requests share few connections."""
    list_models: bool = True
    """Ask it for its own list of models when a client asks for the models (`GET /v1/models`), every ten minutes."""
    danger_plaintext: bool = False
    """Send credentials over plain http to another machine: everybody between can read them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """Where state is kept."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    # An address of PostgreSQL may hold a password.
    url: str = field(default="sqlite:", repr=False)
    """`sqlite:` (in `$XDG_STATE_HOME/headrace`), `sqlite:PATH`, `memory:` or `postgresql://...`; or `env:NAME` or
    `file:PATH` of one, as a URL with a password has to be."""
    key: str = ""
    """Where the key is that seals secrets in the store: `env:NAME`, `file:PATH` or `keyring:NAME`. By default a file
    in `$XDG_CONFIG_HOME/headrace`, made when it is first needed."""
    journal_limit: Annotated[int, Ge(0)] = 20_000
    """Settled requests that a gateway keeps in its local journal while the store is away; then it refuses new ones."""
    away_limit: Seconds = 3600.0
    """Seconds that a gateway serves while the store is away."""
    ledger_days: Annotated[float, Ge(0)] = 90.0
    """Days that the ledger keeps a request's row; older ones are taken out, a few at a time. 0: for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Who may read the gateway's figures (`GET /metrics`)."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    secret: SecretText | None = None
    """`env:NAME` or `file:PATH`. Whoever watches sends it as a Bearer token, and can ask for nothing else with it.
    Without one, a gateway without `[[keys]]` tells everybody that may ask it, and one with keys tells nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key that a client of the gateway shows."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    id: str
    """Its name in logs, budgets and affinity."""
    secret: SecretText
    """`env:NAME` or `file:PATH`. Clients send it as a Bearer token or as `x-api-key`."""
    models: tuple[str, ...] = ()
    """Names that it may ask for, each with at most one `*`; by default all."""
    subject: str | None = None
    """Whose bindings of `[subjects]` hold for it; by default those of the subject that has the key's own id."""
    requests_per_minute: Annotated[int, Gt(0)] | None = None
    """At all gateways of one store together. By default as many as come."""
    tokens_per_minute: Annotated[int, Gt(0)] | None = None
    """Input and output, counted once an answer is there."""
    budget_usd: Annotated[float, Gt(0)] | None = None
    """What it may cost, by the prices of the catalogue. Models whose price is not known are refused to this key."""
    budget_period: Literal["day", "month", "total"] = "month"
    """How long the budget is for; days and months begin at midnight UTC."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Who asks, where that changes what a profile is bound to: a key's id, or a name that several keys share."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    inherits: str | None = None
    """Another subject, whose bindings hold where this one has none. `[profiles]` stands behind them all."""
    profiles: Bindings = field(default_factory=dict)
    """As in `[profiles]`."""

    @property
    def bindings(self) -> dict[str, str]:
        """`profiles`, flat."""
        return _flat(self.profiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteTable:
    """Whom a profile's request goes to when the model that is bound to it has failed for good."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    profile: str
    """The profile, perhaps with a binding (`web_search.news`). Several routes of one profile are looked at in order."""
    to: Annotated[tuple[str, ...], MinLen(1)]
    """Models as `provider_id/model`, each asked once, in this order."""
    on: tuple[RouteKind, ...] = DEFAULT_ON
    """The kinds of failure that it is for."""
    hedge: Seconds | None = None
    """Seconds without a head of the answer after which the first of `to` is asked as well; the first good head wins and
    the other request is cancelled, and perhaps billed. Off by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """Who serves what has no profile, where a request does not name it."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    embeddings: str | None = None
    """`provider_id/model`."""
    rerank: str | None = None
    """`provider_id/model`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTable:
    """What is known of one model, in the place of what this package knows of it. Prices are US dollars for a million
    tokens.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    context_window: Annotated[int, Gt(0)] | None = None
    """Tokens that it reads and writes together."""
    max_output: Annotated[int, Gt(0)] | None = None
    """Tokens that it writes at most."""
    input: tuple[Modality, ...] | None = None
    """What it takes. A model that takes no images has its requests with images sent to `vision_fallback`."""
    output: tuple[Modality, ...] | None = None
    """What it gives."""
    price_input: Dollars | None = None
    """For input."""
    price_output: Dollars | None = None
    """For output."""
    price_cached_input: Dollars | None = None
    """For input read from a cache."""
    price_cache_write: Dollars | None = None
    """For input written to a cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The whole configuration."""

    __pydantic_config__: ClassVar[dict[str, Any]] = _FORBID

    server: Server = Server()
    providers: tuple[Provider, ...] = ()
    store: Store = Store()
    profiles: Bindings = field(default_factory=dict)
    """Profile, or profile and binding (`web_search.news`), to `provider_id/model`."""
    models: dict[str, str] = field(default_factory=dict)
    """Names that clients send, exact or with one `*`, to `provider_id/model` or a profile. `{model}` stands for the
    whole name that was asked."""
    keys: tuple[Key, ...] = ()
    metrics: Metrics = Metrics()
    subjects: dict[str, Subject] = field(default_factory=dict)
    """By subject, what a profile is bound to for it instead."""
    defaults: Defaults = Defaults()
    routes: tuple[RouteTable, ...] = ()
    """Fallback chains of profiles."""
    catalogue: dict[str, ModelTable] = field(default_factory=dict)
    """By `provider_id/model`, what is known of a model."""

    @property
    def bindings(self) -> dict[str, str]:
        """`profiles`, flat: `web_search.news` for a table within a table."""
        return _flat(self.profiles)

    def bindings_of(self, subject: str) -> dict[str, str]:
        """Give a subject's bindings, with those that it inherits from other subjects; not those of `[profiles]`."""
        chain: list[Subject] = []
        here = self.subjects.get(subject)
        while here is not None and here not in chain:
            chain.append(here)
            here = self.subjects.get(here.inherits) if here.inherits is not None else None
        return {name: target for one in reversed(chain) for name, target in one.bindings.items()}


def _flat(profiles: Bindings) -> dict[str, str]:
    flat: dict[str, str] = {}
    for name, target in profiles.items():
        if isinstance(target, str):
            flat[name] = target
        else:
            flat.update((f"{name}.{binding}", one) for binding, one in target.items())
    return flat


def validate(kind: type, values: Mapping[str, Any]) -> tuple[Any, tuple[tuple[Path, str], ...]]:
    """Read values into a dataclass: `(instance, ())`, or `(None, faults)` with the path and words of each.

    A class may refuse what its fields allow by a `ValueError("FIELD: what and the way out")` in `__post_init__`.
    """
    import orjson
    from pydantic import ValidationError

    adapter, plain = _reader(kind)
    try:
        # By way of JSON, where strict means TOML's own types: a table is an object and an array a tuple.
        value = adapter.validate_json(orjson.dumps(values), strict=True)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=True, include_input=False)
        return None, _deepest([_fault(kind, dict(one)) for one in found])
    if plain:
        try:
            value = kind(**{one.name: getattr(value, one.name) for one in fields(kind)})
        except ValueError as error:
            name, colon, message = str(error).partition(": ")
            named = colon and name in {one.name for one in fields(kind)}
            return None, (((name,), message) if named else ((), str(error)),)
    return value, ()


@functools.cache
def _reader(kind: type) -> tuple[Any, bool]:
    """Make what reads values of a class, and tell whether the class knows nothing of it."""
    from pydantic import ConfigDict, TypeAdapter, create_model

    if hasattr(kind, "__pydantic_config__"):
        return TypeAdapter(kind), False
    # A plug-in's plain dataclass: the same strictness, without asking its author to know of pydantic.
    hints = get_type_hints(kind, include_extras=True)
    shape: dict[str, Any] = {one.name: (hints[one.name], _default(one)) for one in fields(kind)}
    return TypeAdapter(create_model(kind.__name__, __config__=ConfigDict(extra="forbid"), **shape)), True


def json_schema() -> dict[str, Any]:
    """Give the file's JSON schema, for editors."""
    from pydantic import TypeAdapter

    schema = TypeAdapter(Config).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Headrace configuration", **schema}


def _default(one: Any) -> Any:
    from pydantic import Field

    if one.default_factory is not MISSING:
        return Field(default_factory=one.default_factory)
    return ... if one.default is MISSING else one.default


def _fault(kind: type, error: dict[str, Any]) -> tuple[Path, str]:
    """Say in our words what pydantic found, without the value."""
    # Beside keys, a location names the branches of an "either or".
    path: Path = tuple(step for step in error["loc"] if step != "str" and not str(step).startswith("dict["))
    what = error["type"]
    if what in {"unexpected_keyword_argument", "extra_forbidden"}:
        known = [one.name for one in fields(_table_at(kind, path[:-1]) or kind)]
        meant = _MEANT.get(str(path[-1])) if path[:-2] == ("providers",) else None
        hint = f"; {meant}" if meant is not None else guess(str(path[-1]), known)
        return path, f"unknown key{hint}; known here: {', '.join(known)}"
    if what in {"missing", "missing_argument", "missing_keyword_only_argument"}:
        return path, f"is missing; add {path[-1]} = ..."
    if what in {"dataclass_type", "model_type"}:
        return path, "must be a table"
    if what == "tuple_type" and path and path[-1] in _TABLES:
        name = ".".join(step for step in path if isinstance(step, str))
        return path, f"must be an array of tables; write [[{name}]], once for each"
    message = str(error["msg"]).removeprefix("Input should be ").removeprefix("Value error, ")
    return path, f"must be {message}"


#: What is written into a row of a provider elsewhere, and where it stands here.
_MEANT: Final = {
    **dict.fromkeys(
        ("api_key", "key", "secret", "token"), 'a key stands in [[providers.credentials]], as secret = "env:NAME"'
    ),
    **dict.fromkeys(("api_base", "endpoint", "url"), "the address is base_url"),
    **dict.fromkeys(("model", "models", "model_name"), 'names of models stand in [models], as NAME = "ID/MODEL"'),
    **dict.fromkeys(("provider", "type"), "what it is stands in kind"),
    "name": "its name is id",
}


def guess(word: str, known: list[str]) -> str:
    """Give `, did you mean X?` where something known is near."""
    import difflib

    near = difflib.get_close_matches(word, known, n=1)
    return f", did you mean {near[0]!r}?" if near else ""


def _deepest(faults: list[tuple[Path, str]]) -> tuple[tuple[Path, str], ...]:
    """Of the branches of an "either or", keep the fault that went furthest: that branch was meant."""
    paths = {path for path, _ in faults}
    kept: dict[Path, str] = {}
    for path, message in faults:
        inner = any(len(other) > len(path) and other[: len(path)] == path for other in paths)
        if not inner:
            kept.setdefault(path, message)
    return tuple(kept.items())


def _table_at(kind: type, path: Path) -> type | None:
    """Find the dataclass whose fields a path's last step names."""
    here: Any = kind
    for step in path:
        if isinstance(step, int):
            continue
        if not is_dataclass(here):
            return None
        here = _dataclass_in(get_type_hints(here).get(step))
    return here if isinstance(here, type) and is_dataclass(here) else None


def _dataclass_in(hint: Any) -> Any:
    if isinstance(hint, type) and is_dataclass(hint):
        return hint
    for part in getattr(hint, "__args__", ()):
        found = _dataclass_in(part)
        if found is not None:
            return found
    return None
