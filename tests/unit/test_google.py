"""Google's two doors: which URL, which key, what a model takes; and what a Gemini client gets of lists and counts."""

import json
from dataclasses import replace

import pytest
from support.control import FakeRequest
from unit.test_providers import runtime

from headrace.capabilities import EmbedRequest
from headrace.catalogue import UNKNOWN, written
from headrace.keys import GatewayKey, KeyRing
from headrace.providers import google, vertex
from headrace.providers._embeddings import GOOGLE
from headrace.requests import REMOVE, Secret


@pytest.mark.parametrize(
    ("base", "settings", "stream", "operation", "url"),
    [
        (None, {}, True, "generate", "v1beta/models/upstream-model:streamGenerateContent?alt=sse"),
        (None, {"api_version": "v1"}, False, "generate", "v1/models/upstream-model:generateContent"),
        (None, {}, False, "count_tokens", "v1beta/models/upstream-model:countTokens"),
        (
            "https://generativelanguage.googleapis.com/v1alpha/",
            {},
            False,
            "generate",
            "v1alpha/models/upstream-model:generateContent",
        ),
    ],
)
def test_where_a_gemini_request_goes(base, settings, stream, operation, url):
    request = FakeRequest(protocol="google_gemini", stream=stream, operation=operation)
    made = google.prepare(runtime("google", "google_gemini", google.Settings(**settings), base), request)
    assert made.url == f"https://generativelanguage.googleapis.com/{url}"


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({}, "aiplatform.googleapis.com/v1beta1/publishers"),
        ({"project": "p"}, "aiplatform.googleapis.com/v1beta1/projects/p/locations/global/publishers"),
        (
            {"project": "p", "location": "europe-west4"},
            "europe-west4-aiplatform.googleapis.com/v1beta1/projects/p/locations/europe-west4/publishers",
        ),
        (
            {"project": "p", "location": "eu"},
            "aiplatform.eu.rep.googleapis.com/v1beta1/projects/p/locations/eu/publishers",
        ),
    ],
)
def test_where_a_vertex_request_goes(settings, url):
    made = vertex.prepare(runtime("vertex", "google_gemini", vertex.Settings(**settings)), FakeRequest())
    assert made.url == f"https://{url}/google/models/upstream-model:streamGenerateContent?alt=sse"


def test_claude_on_vertex_has_its_version_in_the_body_and_its_model_in_the_url():
    request = FakeRequest(protocol="anthropic_messages", stream=False)
    settings = vertex.Settings(project="p", location="us", user_project="payer")
    made = vertex.prepare_claude(runtime("vertex", "anthropic_messages", settings), request)
    where = "https://aiplatform.us.rep.googleapis.com/v1/projects/p/locations/us/publishers/anthropic/models"
    assert made.url == f"{where}/upstream-model:rawPredict"
    assert request.recipes[0].edits == {"/anthropic_version": "vertex-2023-10-16", "/model": REMOVE}
    assert dict(made.headers)["x-goog-user-project"] == "payer"
    # What the model takes is told by its name; the version of the body stands nowhere else.
    old = replace(runtime("vertex", "anthropic_messages", settings), model="claude-3-7-sonnet@20250219")
    sent = FakeRequest(protocol="anthropic_messages", sent={"anthropic-version": "2026-10-21", "anthropic-beta": "b1"})
    made = vertex.prepare_claude(old, sent)
    assert {"thinking_budget", "no_adaptive_thinking", "no_system_messages"} <= set(sent.recipes[0].target_flags)
    assert "anthropic-version" not in dict(made.headers)
    assert dict(made.headers)["anthropic-beta"] == "b1"
    assert [one.protocol for one in vertex.DEFINITION.speaks("language_model")] == ["google_gemini"]
    assert [one.protocol for one in vertex.DEFINITION.speaks("language_model", "anthropic_messages")]


def test_a_token_is_a_bearer_and_a_key_has_its_own_header():
    assert google.authorize(Secret("AIzaX")) == (("x-goog-api-key", "AIzaX"),)
    assert vertex.authorize(Secret("AIzaX")) == (("x-goog-api-key", "AIzaX"),)
    assert vertex.authorize(Secret("ya29.x")) == (("authorization", "Bearer ya29.x"),)


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("gemini-2.0-flash", ("no_effort",)),
        ("gemini-2.5-pro", ("thinking_budget",)),
        ("gemini-3.1-pro-preview", ("skip_signatures",)),
        ("gemini-pro-latest", ()),
        ("gemma-3-27b", ("no_effort",)),
    ],
)
def test_a_gemini_models_number_says_what_it_takes(model, flags):
    assert google.flags_of(model) == flags


def test_a_gemini_client_shows_its_key_in_its_own_header():
    ring = KeyRing([(GatewayKey("a"), Secret("team-key"))], salt=b"0" * 16)
    assert ring.admit(FakeRequest(sent={"x-goog-api-key": "team-key"})).id == "a"
    assert ring.admit(FakeRequest(sent={"x-goog-api-key": "other"})).status == 401


def test_the_list_of_models_in_googles_shape():
    listed = json.loads(written({"acme/m": ("acme", UNKNOWN)}, "google"))
    assert listed["models"][0]["name"] == "models/acme/m"
    assert "generateContent" in listed["models"][0]["supportedGenerationMethods"]


def test_a_models_name_ends_no_path():
    asked = EmbedRequest(model="", input=("hi",))
    wanted = runtime("google", "google_embed", google.Settings())
    for name, path in [("m?key=x#y", "models/m%3Fkey%3Dx%23y"), ("tunedModels/t", "tunedModels/t")]:
        made = GOOGLE.prepare(replace(wanted, model=name), asked)
        assert made.url.endswith(f"/v1beta/{path}:embedContent")
