"""What is known of models: the dated file, what the configuration says instead, and what a response cost."""

import json
import re
from importlib.resources import files

import pytest
from support.control import FakeRequest, gateway

from headrace.catalogue import UNKNOWN, Facts, Listings, Prices, as_of, read_listing
from headrace.catalogue._listing import FRESH_S
from headrace.config import ModelTable


def test_the_file_has_a_date_and_knows_what_it_knows():
    assert re.fullmatch(r"20\d\d-[01]\d", as_of())
    of = Facts()
    assert of.of("openai", "oai", "gpt-3.5-turbo").blind
    assert not of.of("openai", "oai", "gpt-4o-mini-2024-07-18").blind
    assert of.of("anthropic", "a", "claude-sonnet-4-5-20250929").context_window == 200_000


def test_every_row_of_the_file_is_found_and_can_be_counted_with():
    rows = json.loads(files("headrace.catalogue").joinpath("models.json").read_bytes())["models"]
    of, seen = Facts(), set()
    for row in rows:
        assert row.keys() <= {
            "kinds",
            "names",
            "context_window",
            "max_output",
            "input",
            "output",
            "usd_per_million",
            "usd_per_million_above",
        }
        for kind in row["kinds"]:
            for name in row["names"]:
                assert (kind, name) not in seen
                seen.add((kind, name))
                found = of.of(kind, "row", name.replace("*", "26-01-01"))
                assert found.context_window == row.get("context_window"), (kind, name)
                assert found.context_window is None or (found.max_output or 0) <= found.context_window
                assert set(found.input or ()) | set(found.output) <= {"text", "image", "audio", "video", "embedding"}
                cost = {"input_tokens": 1_000_000, "output_tokens": 0}
                long = row.get("usd_per_million_above", row.get("usd_per_million"))
                if long is None:
                    assert found.prices is None
                else:
                    assert found.prices.cost(**cost) == pytest.approx(long["input"])
                    # Nobody sells cached input dearer than the other, or writing it for less.
                    assert 0 < row["usd_per_million"]["input"] < 1000
                    assert row["usd_per_million"].get("cached_input", 0) <= row["usd_per_million"]["input"]
                    assert row["usd_per_million"].get("cache_write", 1000) >= row["usd_per_million"]["input"]


@pytest.mark.parametrize(
    ("kind", "model", "known"),
    [
        ("openai", "gpt-6.1-sol", True),
        ("openai", "gpt-5.4-2026-03-05", True),
        ("openai", "gpt-4o-2024-05-13", True),
        ("azure_openai", "gpt-5.6-sol", True),
        ("anthropic", "claude-opus-5-5", True),
        ("anthropic", "claude-sonnet-4-20250514", True),
        ("google", "gemini-3.8-flash", True),
        ("mistral", "mistral-large-4", True),
        ("xai", "grok-4.7", True),
        ("moonshot", "kimi-k3", True),
        ("zai", "glm-5.3", True),
        # It costs another price by the hour.
        ("deepseek", "deepseek-v4-pro", False),
        ("openai", "gpt-6.1-sol-2", False),
    ],
)
def test_todays_models_have_prices(kind, model, known):
    assert (Facts().of(kind, "row", model).prices is not None) is known


def test_an_exact_name_stands_before_a_pattern():
    of = Facts()
    prices = [of.of("openai", "o", f"gpt-4o-2024-{day}").prices.input for day in ("05-13", "08-06")]
    assert prices == [5.0, 2.5]


def test_a_long_request_costs_what_long_ones_cost_unless_somebody_says_otherwise():
    prices = Facts().of("openai", "o", "gpt-5.4").prices
    at, above = prices.above
    assert prices.cost(input_tokens=at, output_tokens=0) == pytest.approx(at * prices.input / 1e6)
    usage = {"input_tokens": at + 1, "output_tokens": 10, "cached_input_tokens": at}
    expected = above.input + 10 * above.output + at * above.cached_input
    assert prices.cost(**usage) == pytest.approx(expected / 1e6)
    said = Facts({"o/gpt-5.4": ModelTable(price_input=1.0)}).of("openai", "o", "gpt-5.4").prices
    assert (said.above, said.input, said.output) == (None, 1.0, prices.output)


def test_unknown_is_unknown():
    of = Facts()
    for kind, model in [("openai", "gpt-99"), ("openrouter", "gpt-4o"), ("nobody", "gpt-4o")]:
        assert of.of(kind, "row", model) is UNKNOWN
    assert not UNKNOWN.blind
    assert UNKNOWN.prices is None


def test_the_configuration_stands_before_the_file():
    said = {"oai/gpt-4o": ModelTable(input=("text",), price_output=1.0), "oai/own": ModelTable(context_window=10)}
    of = Facts(said)
    found = of.of("openai", "oai", "gpt-4o")
    assert found.blind
    assert (found.context_window, found.prices.input, found.prices.output) == (128_000, 2.5, 1.0)
    assert of.of("openai", "oai", "own").context_window == 10
    assert of.of("openai", "oai", "own").prices is None
    assert not of.of("openai", "other-row", "gpt-4o").blind


@pytest.mark.parametrize(
    ("prices", "usage", "cost"),
    [
        (Prices(input=2.0, output=10.0), {"input_tokens": 1000, "output_tokens": 100}, 0.003),
        (Prices(input=2.0, output=10.0), {"input_tokens": None, "output_tokens": 100}, None),
        (Prices(input=2.0), {"input_tokens": 1, "output_tokens": 1}, None),
        (
            Prices(input=2.0, output=0.0, cached_input=0.5, cache_write=4.0),
            {"input_tokens": 1000, "output_tokens": 0, "cached_input_tokens": 400, "cache_write_tokens": 100},
            (500 * 2 + 400 * 0.5 + 100 * 4) / 1e6,
        ),
        (
            Prices(input=2.0, output=0.0),
            {"input_tokens": 1000, "output_tokens": 0, "cached_input_tokens": 400},
            0.002,
        ),
    ],
)
def test_a_cost_is_known_only_where_all_it_takes_is(prices, usage, cost):
    assert prices.cost(**usage) == (None if cost is None else pytest.approx(cost))


LISTS = [
    ("openai", {"object": "list", "data": [{"id": "gpt-x", "object": "model"}]}, ["gpt-x"]),
    (
        "gemini",
        {"models": [{"name": "models/gemini-x", "inputTokenLimit": 1000, "outputTokenLimit": 10}]},
        ["gemini-x"],
    ),
    ("ollama", {"models": [{"name": "llama:8b", "model": "llama:8b"}]}, ["llama:8b"]),
    ("a bare list", [{"id": "a"}, {"id": "a"}, {"id": "b"}], ["a", "b"]),
    ("odd rows", {"data": [None, {}, {"id": 5}, {"id": ""}, {"id": "x\n"}, {"id": "n" * 300}, {"id": "ok"}]}, ["ok"]),
]


@pytest.mark.parametrize(("told", "names"), [row[1:] for row in LISTS], ids=[row[0] for row in LISTS])
def test_a_vendors_list_is_read_in_any_shape(told, names):
    assert [one.id for one in read_listing(json.dumps(told).encode())] == names


@pytest.mark.parametrize("body", [b"", b"<html>", b'"x"', b"{}", b'{"data": 1}', b"[1"])
def test_what_is_no_list_is_none(body):
    assert not read_listing(body)


def test_what_a_vendor_says_of_a_model_is_kept():
    row = {
        "id": "v/m",
        "context_length": 4096,
        "architecture": {"input_modalities": ["text", "image"]},
        "pricing": {"prompt": "0.000002", "completion": "0.00001", "image": "-1", "input_cache_read": "-1"},
    }
    (one,) = read_listing(json.dumps({"data": [row]}).encode())
    assert (one.facts.context_window, one.facts.input, one.facts.max_output) == (4096, ("text", "image"), None)
    assert (one.facts.prices.input, one.facts.prices.output) == (2.0, 10.0)
    assert one.facts.prices.cached_input is None


def test_a_list_serves_on_while_it_cannot_be_fetched():
    kept = Listings()
    assert kept.is_due("p", 0)
    assert not kept.is_known("p")
    models = read_listing(b'[{"id": "a"}]')
    kept.took("p", models, 0)
    assert (kept.of("p"), kept.version) == (models, 1)
    assert not kept.is_due("p", FRESH_S - 1)
    assert kept.is_due("p", FRESH_S)
    kept.took("p", None, FRESH_S)
    assert (kept.of("p"), kept.version) == (models, 1)
    assert not kept.is_due("p", FRESH_S + 1)
    kept.took("p", (), FRESH_S + 100)
    assert (kept.of("p"), kept.version) == ((), 2)


ROWS = """
[[providers]]
id = "oai"
kind = "openai"
[[providers.credentials]]
id = "c"
secret = "env:K"
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "https://acme.example/v1"
[models]
mini = "oai/gpt-4o-mini"
"claude-*" = "acme/{model}"
[[keys]]
id = "all"
secret = "env:A"
[[keys]]
id = "some"
secret = "env:B"
models = ["mini", "claude-*"]
"""


def names(answer):
    return [one["id"] for one in json.loads(answer.body)["data"]]


def test_the_list_is_of_names_aliases_and_what_providers_list():
    of = gateway(ROWS, {"K": "sk-1", "A": "sk-a", "B": "sk-b"})
    assert names(of.models("openai_chat")) == ["mini"]
    of.listings.took("acme", read_listing(b'[{"id": "claude-z", "context_window": 9}, {"id": "other"}]'), 0)
    assert names(of.models("openai_chat")) == ["mini", "claude-z", "acme/claude-z", "acme/other"]
    by_name = {one["id"]: one for one in json.loads(of.models("openai_chat").body)["data"]}
    assert by_name["mini"]["context_window"] == 128_000
    assert by_name["mini"]["usd_per_million_tokens"]["output"] == 0.6
    assert by_name["claude-z"]["context_window"] == 9
    assert "usd_per_million_tokens" not in by_name["claude-z"]
    (one,) = [row for row in json.loads(of.models("anthropic_messages").body)["data"] if row["id"] == "claude-z"]
    assert one["max_input_tokens"] == 9


def test_a_key_sees_what_it_may_ask_for():
    of = gateway(ROWS, {"K": "sk-1", "A": "sk-a", "B": "sk-b"})
    of.listings.took("acme", read_listing(b'[{"id": "claude-z"}, {"id": "other"}]'), 0)
    for key, seen in (("sk-a", ["mini", "claude-z", "acme/claude-z", "acme/other"]), ("sk-b", ["mini", "claude-z"])):
        asked = FakeRequest(operation="models", protocol="openai_chat", sent={"x-api-key": key})
        assert names(of.decide(asked)) == seen
