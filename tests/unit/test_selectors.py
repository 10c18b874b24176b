"""Selectors: the grammar, the order of lookup, and answers that name what was asked and what exists."""

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.selectors import (
    CAPABILITY_OF,
    PROFILES,
    Explicit,
    Names,
    Pattern,
    Profile,
    Route,
    Unresolved,
    check_names,
    parse,
)

IDS = st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,62}\Z")


def names(models=(), bindings=(), providers=("acme", "other")):
    return Names(models=dict(models), bindings=dict(bindings), providers=providers)


@pytest.mark.parametrize(
    ("text", "selector"),
    [
        ("primary", Profile("primary")),
        ("primary.default", Profile("primary")),
        ("web_search.news", Profile("web_search", "news")),
        ("acme/m", Explicit("acme", "m")),
        ("acme/org/model:free", Explicit("acme", "org/model:free")),
        ("0a-_/m", Explicit("0a-_", "m")),
        ("acme/ m", Explicit("acme", " m")),
    ],
)
def test_what_is_a_selector(text, selector):
    assert parse(text) == selector


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "acme/",
        "/m",
        "Acme/m",
        "-a/m",
        "a" * 64 + "/m",
        "gpt-5",
        "primary.",
        "primary.A",
        "primary.a.b",
        "Primary",
        "é/m",
        "a\n/m",
        "primary.news\n",
    ],
)
def test_what_is_none(text):
    assert parse(text) is None


@given(IDS, st.text(min_size=1))
def test_the_first_slash_splits_and_the_text_comes_back(provider, model):
    assert parse(f"{provider}/{model}") == Explicit(provider, model)
    assert str(parse(f"{provider}/{model}")) == f"{provider}/{model}"


@given(st.sampled_from(PROFILES), IDS)
def test_a_profile_comes_back(profile, binding):
    selector = parse(f"{profile}.{binding}")
    assert selector == Profile(profile, binding)
    assert parse(str(selector)) == selector


@given(st.text())
def test_nothing_breaks_the_parser_and_what_it_reads_it_writes(text):
    selector = parse(text)
    if selector is not None:
        assert parse(str(selector)) == selector


def test_the_order_of_lookup():
    table = names(
        models={"acme/m": "other/exact", "primary": "other/named", "acme/*": "other/{model}", "*": "other/any"},
        bindings={"primary": "acme/p", "light": "acme/l"},
    )
    assert table.resolve("acme/m") == Route("other", "exact")  # an exact name, before the provider it looks like
    assert table.resolve("primary") == Route("other", "named")  # and before the profile
    assert table.resolve("light") == Route("acme", "l")
    assert table.resolve("acme/n") == Route("acme", "n")  # a known provider, before the pattern
    assert table.resolve("nobody/n") == Route("other", "any")
    assert table.resolve("x") == Route("other", "any")


def test_patterns_fit_in_the_files_order_and_model_is_the_whole_name():
    table = names(models={"claude-*-fast": "acme/fast", "claude-*": "acme/{model}"})
    assert table.resolve("claude-4-fast") == Route("acme", "fast")
    assert table.resolve("claude-4") == Route("acme", "claude-4")
    assert isinstance(table.resolve("claude"), Unresolved)
    assert isinstance(table.resolve("claude-fast"), Route)  # `claude-*`: the pieces of the first may not overlap


def test_a_name_may_lead_to_a_profile():
    table = names(models={"fast": "light"}, bindings={"light": "acme/small", "web_search.news": "other/news"})
    assert table.resolve("fast") == Route("acme", "small")
    assert table.resolve("web_search.news") == Route("other", "news", "web_search")


def test_every_profile_asks_for_a_capability():
    assert len(PROFILES) == 8
    table = names(bindings=dict.fromkeys(PROFILES, "acme/m"))
    for profile in PROFILES:
        assert table.resolve(profile).capability == CAPABILITY_OF[profile]
        assert table.resolve(f"{profile}.default") == table.resolve(profile)


def test_an_unknown_name_is_told_with_what_exists():
    no = names(models={"mock": "acme/mock", "c-*": "acme/{model}"}, bindings={"primary": "acme/p"}).resolve("gpt-5")
    assert no.code == "unknown_model_selector"
    for word in ("'gpt-5'", "mock", "c-*", "primary", "acme/MODEL", "other/MODEL"):
        assert word in no.message


def test_a_profile_without_a_binding_is_told_with_what_is_bound():
    no = names(bindings={"primary": "acme/p"}).resolve("web_search.news")
    assert no.code == "model_binding_not_configured"
    assert "'web_search.news'" in no.message
    assert "primary" in no.message


@pytest.mark.parametrize("name", ["acme/small-1/../big", "acme/..", "acme/./big", "../acme/big", "claude-/../big"])
def test_a_name_that_climbs_out_of_a_path_is_nobodys(name):
    known = names(models={"claude-*": "acme/{model}", "own/../name": "acme/fine"})
    assert known.resolve(name).code == "unknown_model_selector"
    assert known.resolve("acme/a..b/...") == Route("acme", "a..b/...")
    assert known.resolve("own/../name") == Route("acme", "fine")


def test_a_long_list_and_a_long_name_are_told_in_short():
    no = names(models={f"m{n}": "acme/m" for n in range(100)}).resolve("x" * 5000)
    assert no.code == "unknown_model_selector"
    assert "and 82 more" in no.message
    assert len(no.message) < 400


@given(st.text(alphabet=string.ascii_lowercase + "*", max_size=8), st.text(alphabet=string.ascii_lowercase, max_size=8))
def test_a_pattern_fits_what_begins_and_ends_so(text, name):
    before, star, after = text.partition("*")
    expected = re.fullmatch(re.escape(before) + (".*" if star else "") + re.escape(after), name) is not None
    assert Pattern.of(text).fits(name) is expected
    assert str(Pattern.of(text)) == text


def test_public_names_are_those_that_lead_somewhere():
    table = names(models={"mock": "acme/mock", "x-*": "acme/{model}", "dead": "heavy"}, bindings={"primary": "acme/p"})
    assert dict(table.public()) == {"mock": Route("acme", "mock"), "primary": Route("acme", "p")}


def test_what_is_wrong_with_names():
    faults = dict(
        check_names(
            models={"a*b*c": "acme/m", "x": "acme/{model}", "y": "Nonsense", "z": "acne/m", "ok-*": "acme/{model}"},
            profiles={"best": "acme/m", "primary": "light", "web_search.news": "acne/m", "heavy": "acme/m"},
            providers=["acme"],
            like=lambda word: f" (like {word})",
        )
    )
    assert set(faults) == {
        ("models", "a*b*c"),
        ("models", "x"),
        ("models", "y"),
        ("models", "z"),
        ("profiles", "best"),
        ("profiles", "primary"),
        ("profiles", "web_search", "news"),
    }
    assert "no provider 'acne' (like acne)" in faults["models", "z"]
