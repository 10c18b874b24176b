"""The resolver: subjects and what they inherit, capabilities, defaults, sight; and refusals that name what exists."""

import json

import pytest
from support.control import FakeRequest, configured, gateway

from headrace.config import ConfigurationError
from headrace.plugins import Capability, ProviderDefinition
from headrace.registry import Registry
from headrace.requests import Plan, Refusal
from headrace.resolver import Resolver, Target, compile_rows

TEXT = """
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "https://acme.example/v1"
[[providers.credentials]]
id = "first"
secret = "env:KEY"
[[providers]]
id = "local"
kind = "openai_compatible"
base_url = "http://127.0.0.1:9/v1"
[profiles]
primary = "acme/big"
light = "acme/small"
web_search = "acme/search"
web_search.news = "acme/news"
[subjects.research]
profiles = { primary = "local/own" }
[subjects.students]
inherits = "research"
profiles = { light = "local/tiny" }
[models]
fast = "light"
"claude-*" = "acme/{model}"
[catalogue."acme/small"]
input = ["text"]
context_window = 8000
[[keys]]
id = "team-a"
secret = "env:A"
subject = "students"
[[keys]]
id = "research"
secret = "env:B"
[[keys]]
id = "other"
secret = "env:C"
"""
# A table cannot be text and have a name in it at the same time.
TEXT = TEXT.replace('web_search = "acme/search"\nweb_search.news = "acme/news"', 'web_search.news = "acme/news"')
ENVIRON = {"KEY": "sk-up", "A": "sk-a", "B": "sk-b", "C": "sk-c"}


def resolver(text=TEXT, registry=None):
    config = configured(text, ENVIRON)
    return Resolver(config, compile_rows(config, registry or Registry(tuple)))


@pytest.mark.parametrize(
    ("subject", "primary", "light"),
    [
        (None, "acme/big", "acme/small"),
        ("nobody", "acme/big", "acme/small"),
        ("research", "local/own", "acme/small"),
        ("students", "local/own", "local/tiny"),
    ],
)
def test_a_subjects_bindings_stand_before_those_it_inherits(subject, primary, light):
    of = resolver()
    assert of.resolve("primary", subject=subject).name == primary
    assert of.resolve("primary.default", subject=subject).name == primary
    assert of.resolve("light", subject=subject).name == light
    assert of.resolve("fast", subject=subject).name == light  # a name of [models] leads to the subject's own profile
    assert of.resolve("claude-9", subject=subject).name == "acme/claude-9"


@pytest.mark.parametrize(("key", "provider"), [("sk-a", "local"), ("sk-b", "local"), ("sk-c", "acme")])
def test_a_key_is_its_own_subject_or_the_one_it_names(key, provider):
    made = gateway(TEXT, ENVIRON).decide(FakeRequest(model="primary", sent={"x-api-key": key}))
    assert isinstance(made, Plan)
    assert made.spec.provider == provider


def test_the_result_is_frozen_and_has_the_exact_credential():
    of = resolver()
    target = of.resolve("primary", client="openai_chat")
    runtime = of.runtime(target, "first")
    assert (runtime.provider, runtime.kind, runtime.model) == ("acme", "openai_compatible", "big")
    assert (runtime.credential, runtime.capability, runtime.profile) == ("first", "language_model", "primary")
    assert of.runtime(target, "first") is runtime
    assert of.runtime(target, "second").credential == "second"
    with pytest.raises(AttributeError):
        runtime.credential = "other"
    assert of.resolve("primary", client="openai_chat") is target


@pytest.mark.parametrize(
    ("selector", "capability", "code", "words"),
    [
        ("gpt-9", "language_model", "unknown_model_selector", ("'gpt-9'", "acme/MODEL", "fast")),
        ("heavy", "language_model", "model_binding_not_configured", ("'heavy'", "primary")),
        ("web_search", "web_search", "model_binding_not_configured", ("'web_search'", "web_search.news")),
        ("web_search.news", "web_search", "unsupported_capability", ("web_search", "language_model")),
        ("web_search.news", "language_model", "unsupported_capability", ("'web_search.news'", "language_model")),
        ("acme/m", "web_fetch", "unsupported_capability", ("'acme/m'", "web_fetch", "have web_fetch: none")),
        ("primary", "embeddings", "unsupported_capability", ("'primary'", "embeddings")),
        (None, "embeddings", "model_binding_not_configured", ("[defaults]", "embeddings")),
        (None, "language_model", "missing_required_parameter", ("names no model",)),
    ],
)
def test_a_no_names_what_was_asked_and_what_exists(selector, capability, code, words):
    no = resolver().resolve(selector, capability)
    assert isinstance(no, Refusal)
    assert (no.code, no.param) == (code, "model")
    assert no.status == (400 if code == "missing_required_parameter" else 422)
    assert [word for word in words if word not in no.message] == []


class Plugged(Registry):
    """With one more kind, that has every capability."""

    def __init__(self):
        super().__init__(tuple)
        names = ("embeddings", "rerank", "web_search", "web_fetch", "image_generate")
        able = tuple(Capability(name, f"{name}_wire", lambda *_: None) for name in names)
        self._definitions["every"] = ProviderDefinition(
            kind="every", label="Every", base_url="https://e.example", capabilities=able
        )


def test_every_capability_goes_to_its_own_wire_and_defaults_serve_the_nameless():
    from headrace.config import parse
    from headrace.startup import check_selectors

    registry = Plugged()
    text = (
        '[[providers]]\nid = "e"\nkind = "every"\n[defaults]\nembeddings = "e/vectors"\n'
        '[profiles]\nimage_generate = "e/paint"\nweb_search.news = "e/news"\n[models]\nvec = "e/v2"\n'
    )
    config = parse(text, name="c", folder=None, environ={}, checks=(registry.check, check_selectors))
    of = Resolver(config, compile_rows(config, registry))
    for selector, capability, model in [
        (None, "embeddings", "vectors"),
        ("e/v", "embeddings", "v"),
        ("vec", "embeddings", "v2"),
        ("e/r", "rerank", "r"),
        ("image_generate", "image_generate", "paint"),
        ("web_search.news", "web_search", "news"),
        ("e/page", "web_fetch", "page"),
    ]:
        target = of.resolve(selector, capability)
        assert isinstance(target, Target), target
        assert (target.model, target.wire.protocol) == (model, f"{capability}_wire")
    assert of.resolve("e/m").code == "unsupported_capability"
    assert of.explicit("e/v", "embeddings").name == "e/v"
    assert of.explicit("e/v", "language_model") is None


SEEING = TEXT.replace('light = "acme/small"', 'light = "acme/small"\nvision_fallback = "local/eyes"')


def test_a_request_with_images_goes_to_the_model_that_sees():
    asked = []

    def images(answer):
        def has():
            asked.append(answer)
            return answer

        return has

    of = resolver(SEEING)
    found = of.resolve("light", has_images=images(True))
    assert (found.name, found.instead_of, found.asked) == ("local/eyes", "acme/small", "light")
    assert of.resolve("light", has_images=images(False)).name == "acme/small"
    # Nobody looks at the prompt of a model of which nothing is known.
    assert of.resolve("primary", has_images=images(True)).name == "acme/big"
    assert asked == [True, False]
    made = gateway(SEEING, ENVIRON).decide(FakeRequest(model="light", has_images=True, sent={"x-api-key": "sk-c"}))
    assert made.spec.provider == "local"


@pytest.mark.parametrize(
    ("extra", "words"),
    [("", "is not bound"), ('\n[catalogue."local/eyes"]\ninput = ["text"]\n', "takes none either")],
)
def test_images_that_nobody_can_see_are_refused(extra, words):
    no = resolver((SEEING if extra else TEXT) + extra).resolve("light", has_images=lambda: True)
    assert (no.status, no.code) == (422, "unsupported_capability")
    assert words in no.message.replace("is known to take none either", "takes none either")
    assert '[catalogue."acme/small"]' in no.message


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ('[subjects.a]\ninherits = "b"\n', "subjects.a.inherits", "no such subject"),
        ('[subjects.a]\ninherits = "b"\n[subjects.b]\ninherits = "a"\n', "subjects.a.inherits", "circle"),
        ('[subjects.a]\ninherits = "a"\n', "subjects.a.inherits", "circle"),
        ("[subjects.A]\n", "subjects.A", "lower-case"),
        ('[subjects.a.profiles]\nbest = "x/y"\n', "subjects.a.profiles.best", "no profile"),
        ('[subjects.a.profiles]\nprimary = "x/y"\n', "subjects.a.profiles.primary", "no provider 'x'"),
        ('[defaults]\nembeddings = "x/y"\n', "defaults.embeddings", "no provider 'x'"),
        ('[defaults]\nrerank = "primary"\n', "defaults.rerank", "provider_id/model"),
        ('[[keys]]\nid = "k"\nsecret = "env:A"\nsubject = "x"\n', "keys[0].subject", "no such subject"),
        ('[catalogue."a/b"]\ninput = ["smell"]\n', 'catalogue."a/b".input[0]', "must be"),
    ],
)
def test_a_wrong_subject_or_default_is_told_with_its_place(text, key, words):
    with pytest.raises(ConfigurationError) as caught:
        configured(text, ENVIRON)
    problems = [one for one in caught.value.problems if one.key == key]
    assert problems, caught.value
    assert words in problems[0].message
    assert problems[0].line


def test_the_models_that_a_list_shows_lead_somewhere():
    of = gateway(TEXT, ENVIRON)
    listed = json.loads(of.models("openai_chat").body)["data"]
    for one in listed:
        assert not isinstance(of.resolver.names.resolve(one["id"]), Refusal)
