"""Counters of requests and the text of their page, without a socket."""

import re
from dataclasses import replace
from importlib.metadata import PackageNotFoundError

import pytest
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families
from support.control import FakeError, FakeRequest, configured, gateway
from test_gateway import ENVIRON, TEXT

from headrace.metrics import Family, Figures, Histogram, Metrics, content_type, page
from headrace.requests import Plan, Settlement
from headrace.server._figures import edge_families, process_families
from tests.conftest import ROOT

PLAIN, OPEN = content_type(None), content_type("application/openmetrics-text")


def test_texts_of_labels_are_escaped_and_read_back():
    nasty = 'a"b\\c\nd{}=,'
    family = Family("x", "counter", "Of x.", [((("l", nasty),), 3)])
    for form, parse in [
        (PLAIN, text_string_to_metric_families),
        (OPEN, openmetrics.text_string_to_metric_families),
    ]:
        (read,) = parse(page([family], form).decode())
        assert [(one.name, one.labels, one.value) for one in read.samples] == [("x_total", {"l": nasty}, 3)]


def test_a_histogram_counts_every_value_in_each_bound_that_holds_it():
    histogram = Histogram((0.5, 2.0))
    for value in (0.5, 0.6, 2.0, 9.0):
        histogram.observe(value)
    assert histogram.buckets() == [(0.5, 1), (2.0, 3), (float("inf"), 4)]
    text = page([Family("h", "histogram", "Of h.", [((), histogram)])], OPEN).decode()
    (read,) = openmetrics.text_string_to_metric_families(text)
    assert [(one.name, one.labels.get("le"), one.value) for one in read.samples] == [
        ("h_bucket", "0.5", 1),
        ("h_bucket", "2.0", 3),
        ("h_bucket", "+Inf", 4),
        ("h_count", None, 4),
        ("h_sum", None, pytest.approx(12.1)),
    ]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, PLAIN),
        ("*/*", PLAIN),
        ("text/plain;version=0.0.4", PLAIN),
        ("text/plain, Application/OpenMetrics-Text ; version=1.0.0;q=0.9", OPEN),
        ("application/openmetrics-texts", PLAIN),
    ],
)
def test_the_format_is_what_is_asked_for(accept, form):
    assert content_type(accept) == form


def test_labels_are_bounded_whatever_is_named_and_refused():
    counts = Metrics()
    counts.name(("p", f"m{at}") for at in range(10_000))
    assert counts.label("p", "m1") == ("p", "m1")
    assert counts.label("p", "m9999") == ("p", "other")
    for at in range(1000):
        counts.refused("openai_chat", f"code{at}")
    refused = next(family for family in counts.families() if family.name == "headrace_refused")
    assert len(refused.samples) <= 65
    assert sum(value for _, value in refused.samples) == 1000


def counting():
    figures = Figures(salt=bytes(16))
    return figures, gateway(
        TEXT + '[catalogue."acme/big"]\nprice_input = 2\nprice_output = 4\n', ENVIRON, figures=figures
    )


def sample(figures, family, **labels):
    found = next(one for one in figures.counts.families() if one.name == family)
    return dict(found.samples).get(tuple(labels.items()))


@pytest.mark.parametrize(
    ("told", "cost", "missing", "unpriced"),
    [
        ({"input_tokens": 1_000_000, "output_tokens": 500_000}, 4.0, {}, 1),
        ({"input_tokens": 1_000_000}, 0, {"usage": 1}, 1),
        ({}, 0, {"usage": 1}, 1),
        # Nothing was generated, so nothing is missing.
        ({"error": FakeError("overloaded", 503), "finish": None}, 0, {}, 0),
        # A client that left has had a part, and nobody told what it costs.
        ({"error": FakeError("aborted"), "finish": None, "events": 9}, 0, {"usage": 1}, 1),
    ],
)
def test_what_is_not_known_of_a_cost_is_said_and_not_taken_for_nothing(told, cost, missing, unpriced):
    figures, of = counting()
    for name in ("acme/big", "acme/free"):
        made = of.decide(FakeRequest(model=name))
        assert isinstance(made, Plan)
        end = Settlement(token=made.token, attempts=1, status=200, finish="stop")
        of.settle(replace(end, **told))
    to = {"provider": "acme", "model": "big"}
    assert sample(figures, "headrace_cost_usd", **to) == pytest.approx(cost)
    for why in ("price", "usage"):
        assert sample(figures, "headrace_cost_unknown", **to, missing=why) == missing.get(why, 0)
    to["model"] = "other"
    assert sample(figures, "headrace_cost_usd", **to) == 0
    assert sample(figures, "headrace_cost_unknown", **to, missing="price") == unpriced


def test_a_gateway_that_nobody_watches_counts_nothing_and_has_no_page():
    of = gateway(TEXT, ENVIRON)
    assert of.decide(FakeRequest(operation="metrics", model=None)).status == 404


def test_another_configuration_says_anew_who_may_read_and_what_has_a_name():
    figures, of = counting()
    page = FakeRequest(operation="metrics", model=None)
    assert of.decide(page).status == 200
    assert figures.counts.label("acme", "new") == ("acme", "other")
    text = TEXT + '[metrics]\nsecret = "env:TEAM_A"\n[profiles.light]\ndefault = "acme/new"\n'
    of.reload(configured(text, ENVIRON))
    assert (of.decide(page).status, figures.counts.label("acme", "new")) == (401, ("acme", "new"))
    shown = FakeRequest(operation="metrics", model=None, sent={"authorization": f"Bearer {ENVIRON['TEAM_A']}"})
    assert of.decide(shown).status == 200


class Edge:
    """Counts nothing."""

    def connections(self):
        return 0, 0

    def refused(self):
        return []

    def counters(self):
        return []


def test_the_documents_list_is_what_there_is():
    text = (ROOT / "docs" / "METRICS.md").read_text(encoding="utf-8")
    listed = {}
    for names, kind in re.findall(r"^\| (`[^|]*`) \| (counter|gauge|histogram) \|", text, re.MULTILINE):
        listed.update(dict.fromkeys(re.findall(r"`(\w+)`", names), kind))
    figures, of = counting()
    answer = of.decide(FakeRequest(operation="metrics", model=None))
    assert answer.status == 200
    families = [*figures.counts.families(), *edge_families(Edge()), *process_families(0.0)]
    made = {one.name + ("_total" if one.kind == "counter" else ""): one.kind for one in families}
    assert made.items() <= listed.items()
    state = {name for name in listed if name not in made}
    assert state == {
        "headrace_in_flight",
        "headrace_credential_state",
        "headrace_credential_models_tired",
        "headrace_breakers_open",
        "headrace_ledger_waiting",
        "headrace_ledger_journal",
        "headrace_ledger_committed_total",
        "headrace_store_errors_total",
        "headrace_store_away",
    }


def test_a_package_that_nobody_installed_has_figures_all_the_same(monkeypatch):
    def version(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.version", version)
    text = page(process_families(0.0), content_type(None)).decode()
    assert "process_cpu_seconds_total" in text
    assert "headrace_build_info" not in text
