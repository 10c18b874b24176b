"""The gateway's own keys."""

import pytest
from support.control import FakeRequest

from headrace.keys import GatewayKey, KeyRing
from headrace.requests import Refusal, Secret
from headrace.selectors import Pattern

A = GatewayKey("team-a")
B = GatewayKey("team-b", (Pattern.of("claude-*"), Pattern.of("primary")))


def ring(*keys):
    return KeyRing(zip(keys, (Secret("sk-a"), Secret("sk-b")), strict=False), salt=b"s" * 16)


def shown(**headers):
    return FakeRequest(sent={name.replace("_", "-"): value for name, value in headers.items()})


def test_without_keys_everybody_may():
    assert ring().admit(shown()) is None
    assert ring().admit(shown(authorization="Bearer whatever")) is None


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer sk-b"},
        {"authorization": "bearer  sk-b "},
        {"x_api_key": "sk-b"},
        {"authorization": "Bearer sk-b", "x_api_key": "sk-b"},
        {"authorization": "Basic dTpw", "x_api_key": "sk-b"},
    ],
)
def test_a_key_is_known_by_either_header(headers):
    assert ring(A, B).admit(shown(**headers)) is B


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({}, "wants a key"),
        ({"authorization": "Basic sk-a"}, "wants a key"),
        ({"authorization": "Bearer "}, "wants a key"),
        ({"x_api_key": "sk-c"}, "none of this gateway's"),
        ({"x_api_key": "sk-"}, "none of this gateway's"),
        ({"x_api_key": "sk-a " + "a" * 5000}, "none of this gateway's"),
        ({"authorization": "Bearer sk-a", "x_api_key": "sk-b"}, "none of this gateway's"),
        ({"authorization": "Bearer sk-a", "x_api_key": "sk-c"}, "none of this gateway's"),
        ({"x_api_key": "sk-\udcff"}, "none of this gateway's"),
    ],
)
def test_anything_else_is_401_and_tells_nothing(headers, words):
    no = ring(A, B).admit(shown(**headers))
    assert isinstance(no, Refusal)
    assert (no.status, no.code) == (401, "invalid_api_key")
    assert words in no.message
    assert "sk-" not in no.message


def test_a_key_may_be_for_some_models():
    assert A.may_ask("anything")
    assert B.may_ask("claude-4")
    assert B.may_ask("primary")
    assert not B.may_ask("primary.x")
    assert not B.may_ask("gpt-5")


def test_a_ring_shows_names_only():
    assert repr(ring(A, B)) == "KeyRing(team-a, team-b)"
