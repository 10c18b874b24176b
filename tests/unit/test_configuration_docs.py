"""docs/CONFIGURATION.md against the schema, and docs/tutorial-plugin.md as a plug-in that serves a request."""

import re
import sys
import types
from dataclasses import MISSING, fields
from importlib.metadata import EntryPoint
from typing import get_args, get_type_hints

import orjson
import pytest
from support.control import FakeRequest

from headrace.config import (
    BreakerTable,
    Config,
    Credential,
    DeadlineTable,
    Defaults,
    Key,
    Metrics,
    ModelTable,
    PoolTable,
    Provider,
    RouteTable,
    Server,
    Store,
    Subject,
    parse,
)
from headrace.gateway import Gateway
from headrace.plugins import ENTRY_POINT_GROUP
from headrace.providers import anthropic, bedrock, google, openai, openai_compatible, vertex
from headrace.registry import Registry
from headrace.selectors import PROFILES
from headrace.startup import check_selectors

TABLES = [
    ("## `[server]`", Server),
    ("## `[[providers]]`", Provider),
    ("### `[[providers.credentials]]`", Credential),
    ("### `[providers.pool]`", PoolTable),
    ("### `[providers.deadlines]`", DeadlineTable),
    ("### `[providers.breaker]`", BreakerTable),
    ("## `[[routes]]`", RouteTable),
    ("Of `openai`:", openai.Settings),
    ("Of `anthropic`:", anthropic.Settings),
    ("Of `google`, the Gemini API", google.Settings),
    ("Of `vertex`, whose credential", vertex.Settings),
    ("Of `bedrock`, where a credential", bedrock.Settings),
    ("Of `openai_compatible` and the vendors:", openai_compatible.Settings),
    ("## `[store]`", Store),
    ("## `[[keys]]`", Key),
    ("## `[metrics]`", Metrics),
    ("## `[subjects]`", Subject),
    ("## `[defaults]`", Defaults),
    ("## `[catalogue]`", ModelTable),
]
ROW = re.compile(r"^\| (`.*?`) \| (.*?) \| (.*) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def text(root):
    return (root / "docs/CONFIGURATION.md").read_text(encoding="utf-8")


def told(text, heading):
    """The first table after a heading: key to what the document says of its default."""
    start = text.index(heading)
    rows = {}
    for line in text[text.index("\n|", start) + 1 :].splitlines():
        if not line.startswith("|"):
            break
        found = ROW.match(line)
        if found:
            for key in re.findall(r"`(\w+)`", found[1]):
                rows[key] = found[2]
    return rows


def default_of(one):
    if one.default_factory is not MISSING:
        return one.default_factory()
    return one.default


@pytest.mark.parametrize(("heading", "kind"), TABLES, ids=[kind.__qualname__ for _, kind in TABLES])
def test_every_key_is_told_with_its_default(text, heading, kind):
    rows = told(text, heading)
    assert set(rows) == {one.name for one in fields(kind)}
    for one in fields(kind):
        said, default = rows[one.name], default_of(one)
        if default is MISSING:
            assert said == "needed", one.name
        elif default is None:
            assert not said.startswith("`"), one.name
        elif isinstance(default, (bool, int, float, str)):
            assert said == f"`{orjson.dumps(default).decode()}`", one.name
        elif said.startswith("`"):
            assert list(orjson.loads(said.strip("`"))) == list(default), one.name


def test_every_table_is_told(text):
    for one in fields(Config):
        assert re.search(rf"^## `\[+{one.name}\]+`$", text, re.MULTILINE), one.name
    strategies = get_args(get_type_hints(PoolTable)["strategy"])
    names = (*strategies, *PROFILES, *openai_compatible.DIALECT_FLAGS)
    assert [name for name in names if f"`{name}`" not in text] == []


def test_bounds_without_a_setting_are_those_of_the_edge(text, root):
    told = re.findall(r"`(\d+)`", text.partition("What has no setting:")[2].partition("\n\n")[0])
    source = (root / "rust/edge/src/limits.rs").read_text(encoding="utf-8")

    def value(name):
        unit, number = re.search(
            rf"^pub const {name}: .* = (?:Duration::from_(\w+)\()?([\d_]+)\)?;$", source, re.MULTILINE
        ).groups()
        return int(number) * (60 if unit == "mins" else 1)

    names = ("KEEP_ALIVE", "BODY_SILENCE", "KEEP_ALIVE_AFTER", "STALLED", "CONNECTIONS")
    assert [int(one) for one in told] == [value(name) for name in names]


def test_every_flag_of_a_dialect_is_told_once(text, root):
    rows = re.findall(
        r"^\| (`.*?`) \| (yes)? ?\| ", text[text.index("Flags of `dialect`.") :].partition("\n## ")[0], re.MULTILINE
    )
    told = {name: by_itself for names, by_itself in rows for name in re.findall(r"`(\w+)`", names)}
    assert sorted(told) == sorted(openai_compatible.DIALECT_FLAGS)
    source = (root / "rust/codec/src/request/flags.rs").read_text(encoding="utf-8")
    name_of = dict(re.findall(r"^    (\w+) = \"(\w+)\",$", source, re.MULTILINE))
    preset = source.partition("OPENAI_COMPATIBLE: TargetFlags = TargetFlags::of(&[")[2].partition("]")[0]
    assert sorted(name for name in told if told[name]) == sorted(
        name_of[one] for one in re.findall(r"Flag::(\w+)", preset)
    )


def test_the_example_is_a_configuration(text, tmp_path):
    example, route = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    registry = Registry(tuple)
    config = parse(
        example + route.replace('"other/', '"acme/').replace('"third/', '"acme/'),
        name="example.toml",
        folder=tmp_path,
        environ={"ACME_KEY": "sk-a", "TEAM_A_KEY": "sk-t", "BRAVE_API_KEY": "sk-b"},
        checks=(registry.check, check_selectors),
    )
    assert config.bindings["web_search.news"] == "search/news"


def test_the_tutorials_provider_serves_a_request(root, tmp_path, monkeypatch):
    text = (root / "docs/tutorial-plugin.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    module = types.ModuleType("headrace_brook")
    monkeypatch.setitem(sys.modules, "headrace_brook", module)
    exec(code, module.__dict__)  # noqa: S102 - the tutorial's own text
    offer, row = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    name, value = re.search(r'(\w+) = "(.+)"', offer).groups()
    registry = Registry(lambda: [EntryPoint(name, value, ENTRY_POINT_GROUP)])
    assert registry.broken == ()
    config = parse(row, name="c.toml", folder=tmp_path, environ={"BROOK_KEY": "sk-brook"}, checks=(registry.check,))
    gateway = Gateway(config, registry=registry, clock=lambda: 0.0, random=lambda: 0.5, salt=b"s" * 16)
    spec = gateway.decide(FakeRequest(model="brook/deep")).spec
    headers = dict(spec.headers)
    assert spec.url == "https://api.brook.example/v1/chat/completions"
    assert (headers["x-brook-tier"], headers["x-brook-key"]) == ("fast", "sk-brook")
    assert "authorization" not in headers
    assert (spec.body.protocol, spec.body.model, spec.body.provider) == ("openai_chat", "deep", "brook")
