"""Planted secrets: in every field that may hold one, and in none of what is shown, said or raised."""

import copy
import json
import logging
import pickle
import traceback
from dataclasses import fields, is_dataclass
from typing import get_type_hints

import pytest
from support.control import FakeError, FakeRequest, configured, failure, gateway

from headrace.config import Config, ConfigurationError, parse
from headrace.credentials import Credential
from headrace.errors import ProviderError
from headrace.messages import Message, ModelRequest
from headrace.plugins import bearer
from headrace.providers.anthropic import authorize
from headrace.registry import Registry
from headrace.requests import AttemptSpec, PreparedRequest, Secret, Settlement
from headrace.runtime import RefusedError, SyncRuntime
from headrace.testing import Reply, Upstream

CANARY = "canary-7f3a9"

TEXT = """
[server]
proxy = "env:PROXY"
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "https://acme.example/v1"
[[providers.credentials]]
id = "one"
secret = "env:UP_1"
[[providers.credentials]]
id = "two"
secret = "file:two.key"
[[providers]]
id = "azure"
kind = "azure_openai"
base_url = "https://name.openai.azure.com"
proxy = "env:PROXY"
[[providers.credentials]]
id = "application"
oauth = "azure"
tenant = "tenant"
client_id = "client"
client_secret = "env:AZURE"
[[keys]]
id = "team"
secret = "env:DOWN_1"
[metrics]
secret = "env:WATCH"
[models]
m = "acme/m"
"""


@pytest.fixture
def parts(tmp_path):
    (tmp_path / "two.key").write_text(f"{CANARY}-file\n")
    environ = {"UP_1": f"{CANARY}-up", "DOWN_1": f"{CANARY}-down", "AZURE": f"{CANARY}-azure"}
    environ |= {"WATCH": f"{CANARY}-watch", "PROXY": f"http://user:{CANARY}-proxy@proxy.example:3128"}
    return TEXT.replace("two.key", str(tmp_path / "two.key")), environ


def test_a_secret_shows_itself_nowhere():
    secret = Secret(CANARY)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r}", f"{secret}", repr([secret]), repr({"a": secret})]
    shown += [repr(Credential("c", secret)), json.dumps({"s": secret}, default=str)]
    assert not any(CANARY in one for one in shown)
    assert secret.reveal() == CANARY
    for cast in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="not pickled"):
            cast(secret)
    with pytest.raises(TypeError):
        vars(secret)


def test_a_configuration_shows_none(parts):
    config = configured(*parts)
    assert config.providers[0].credentials[1].secret.reveal() == f"{CANARY}-file"
    assert config.providers[1].credentials[0].client_secret.reveal() == f"{CANARY}-azure"
    assert CANARY not in repr(config)


def test_a_whole_request_shows_none(parts, caplog):
    text, environ = parts
    with caplog.at_level(logging.DEBUG):
        of = gateway(text, environ)
        request = FakeRequest(model="m", sent={"authorization": f"Bearer {CANARY}-down"})
        plan = of.decide(request)
        assert dict(plan.spec.headers)["authorization"] == f"Bearer {CANARY}-up"
        step = of.next(failure("auth", token=plan.token, status=401, message=f"bad key {CANARY}-up"))
        assert dict(step.headers)["authorization"] == f"Bearer {CANARY}-file"
        end = of.next(failure("rate_limit", token=plan.token, attempt=2, status=429, message=CANARY))
        settlement = Settlement(token=plan.token, attempts=2, status=429, error=FakeError("rate_limit", 429, CANARY))
        told = failure("auth", message=CANARY)
        of.settle(settlement)
        wrong = of.decide(FakeRequest(model="m", sent={"x-api-key": f"{CANARY}-guess"}))
        refused = of.decide(request)
    seen = [
        repr(plan),
        repr(step),
        repr(end),
        end.message,
        repr(wrong),
        repr(refused),
        repr(settlement),
        repr(told),
        caplog.text,
    ]
    assert "rate_limit" in caplog.text
    for one in seen:
        assert CANARY not in one


@pytest.mark.parametrize(
    "text",
    [
        f'[server]\nhost = "{CANARY}"\n',
        f'[server]\nport = "{CANARY}"\n',
        f'[server]\norigins = ["{CANARY}"]\n',
        f'[[keys]]\nid = "k"\nsecret = "{CANARY}"\n',
        f'[[keys]]\nid = "k"\nsecret = "env:{CANARY}"\n',
        f'[[keys]]\nid = "k"\nsecret = "file:/nowhere/{CANARY}"\n',
        f'[[keys]]\nid = "k"\nsecret = ["{CANARY}"]\n',
        f'[[keys]]\nid = "k"\nsecret = "{CANARY}\n',
        f'[[providers]]\nid = "{CANARY} x"\nkind = "demo"\n',
        f'[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "https://u:{CANARY}@x.example"\n',
        f'[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "https://x.example/?key={CANARY}"\n',
        f'[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "https://x.example:{CANARY}"\n',
        f'[[providers]]\nid = "a"\nkind = "openai"\nprotocol = "{CANARY}"\n',
        f'[[providers]]\nid = "a"\nkind = "openai"\nsettings = {{ project = ["{CANARY}"] }}\n',
        (
            '[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "https://x.example"\n'
            f'settings = {{ headers = {{ Authorization = "{CANARY}" }} }}\n'
        ),
        (
            '[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "https://x.example"\n'
            f'settings = {{ dialect = ["{CANARY}"] }}\n'
        ),
        f'[store]\nurl = "mysql://root:{CANARY}@x"\n',
        f'[profiles]\nprimary = "{CANARY}"\n',
        f'[subjects.a]\ninherits = "{CANARY}"\n',
        f'[subjects.a.profiles]\nprimary = "{CANARY}"\n',
        f'[defaults]\nembeddings = "{CANARY}"\n',
        f'[server]\nhosts = ["https://{CANARY}"]\n',
        f'[catalogue."a/b"]\ninput = ["{CANARY}"]\n',
        f'[[routes]]\nprofile = "{CANARY}"\nto = ["a/b"]\n',
        f'[[routes]]\nprofile = "primary"\nto = ["{CANARY}"]\n',
        f'[[routes]]\nprofile = "primary"\nto = ["a/b"]\non = ["{CANARY}"]\n',
        f'[[keys]]\nid = "k"\nsecret = "env:X"\nsubject = "{CANARY}"\n',
        f'[models]\nx = "{CANARY}"\n',
    ],
)
def test_a_refused_configuration_shows_no_value(text):
    with pytest.raises(ConfigurationError) as caught:
        configured(text, {})
    assert CANARY not in str(caught.value)
    assert CANARY not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("kind", [PreparedRequest, AttemptSpec])
def test_a_request_on_its_way_shows_no_header_and_no_query(kind):
    made = kind(
        method="POST",
        url=f"https://me:{CANARY}@x.example/v1?key={CANARY}#{CANARY}",
        headers=(*bearer(Secret(CANARY)), *authorize(Secret(CANARY))),
        body=CANARY.encode(),
        protocol="openai_chat",
    )
    assert CANARY not in repr(made)
    assert "https://x.example/v1" in repr(made)


def secret_fields(kind, seen=()):
    """Every field of the configuration that is a `Secret`, by the class that has it."""
    found = set()
    for one in fields(kind):
        for part in parts_of(get_type_hints(kind)[one.name]):
            if part is Secret:
                found.add((kind.__name__, one.name))
            elif is_dataclass(part) and part not in seen:
                found |= secret_fields(part, (*seen, part))
    return found


def parts_of(hint):
    inner = getattr(hint, "__args__", ())
    return [hint, *(deep for part in inner for deep in parts_of(part))]


def test_every_field_that_holds_a_secret_is_planted_above():
    planted = {("Credential", "secret"), ("Credential", "client_secret"), ("Key", "secret"), ("Metrics", "secret")}
    planted |= {("Server", "proxy"), ("Provider", "proxy")}
    assert secret_fields(Config) == planted


def test_a_store_with_a_password_shows_none():
    url = f"postgresql://u:{CANARY}@db.example/h"
    config = configured('[store]\nurl = "env:STORE"\n', {"STORE": url})
    assert config.store.url == url
    assert CANARY not in repr(config)
    with pytest.raises(ConfigurationError, match=r"store\.url: a secret does not stand in this file") as caught:
        configured(f'[store]\nurl = "{url}"\n', {})
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("status", [400, 401, 403, 429, 500])
def test_a_provider_that_repeats_the_key_tells_it_to_nobody(status, tmp_path, caplog):
    key = f"{CANARY}-up"
    words = {"error": {"message": f"the key {key} may not", "type": key, "code": f"{key}_refused"}}
    with Upstream(Reply.json(words, status=status)) as far, caplog.at_level(logging.DEBUG):
        text = f'[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "{far.url}/v1"\n'
        text += '[[providers.credentials]]\nid = "c"\nsecret = "env:K"\n'
        config = parse(text, name="c", folder=tmp_path, environ={"K": key}, checks=(Registry(tuple).check,))
        with SyncRuntime(config) as runtime:
            with runtime.stream(ModelRequest("a/m", (Message.user("hi"),))) as stream:
                (event,) = list(stream)
            with (
                pytest.raises((ProviderError, RefusedError)) as caught,
                runtime.stream(ModelRequest("a/m", (Message.user("hi"),))) as stream,
            ):
                stream.result()
    shown = [repr(event), str(event.to_dict()), str(caught.value), repr(caught.value), caplog.text]
    shown += traceback.format_exception(caught.value)
    assert [one for one in shown if CANARY in one] == []
