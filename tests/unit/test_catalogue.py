"""What is known of models: the dated file, what the configuration says instead, and what a response cost."""

import re

import pytest

from headrace.catalogue import UNKNOWN, Facts, Prices, as_of
from headrace.config import ModelTable


def test_the_file_has_a_date_and_knows_what_it_knows():
    assert re.fullmatch(r"20\d\d-[01]\d", as_of())
    of = Facts()
    assert of.of("openai", "oai", "gpt-3.5-turbo").blind
    assert not of.of("openai", "oai", "gpt-4o-mini-2024-07-18").blind
    assert of.of("anthropic", "a", "claude-sonnet-4-5-20250929").context_window == 200_000


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
