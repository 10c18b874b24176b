"""`headrace doctor`: where names lead, by the resolver of requests; and every credential tried for real."""

import pytest
from click.testing import CliRunner

from headrace.cli import main
from headrace.testing import Reply, Upstream

TEXT = """
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "{url}/v1"
[[providers.credentials]]
id = "good"
secret = "env:GOOD"
[[providers.credentials]]
id = "bad"
secret = "env:BAD"
[[providers]]
id = "demo"
kind = "demo"
[profiles]
primary = "acme/big"
light = "demo/text"
[subjects.team]
profiles = {{ primary = "demo/text" }}
[[routes]]
profile = "primary"
to = ["demo/text"]
[models]
fast = "light"
broken = "heavy"
"gpt-*" = "acme/{{model}}"
[catalogue."acme/big"]
input = ["text"]
"""
GOOD = b'data: {"id":"r","choices":[{"index":0,"delta":{"content":"ok"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.fixture
def doctor(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOD", "sk-good-canary")
    monkeypatch.setenv("BAD", "sk-bad-canary")

    def run(text, *arguments):
        path = tmp_path / "c.toml"
        path.write_text(text)
        done = CliRunner().invoke(main, ["doctor", "--config", str(path), *arguments])
        assert "canary" not in done.output
        return done.exit_code, done.output.splitlines()

    return run


def test_it_says_where_each_name_leads_and_sends_nothing(doctor):
    code, lines = doctor(TEXT.format(url="http://127.0.0.1:9"))
    assert code == 0, lines
    for line in (
        "ok   primary: acme/big by openai_chat, takes no images",
        "ok   fast: demo/text by openai_responses",
        "ok   primary for team: demo/text by openai_responses",
        "-    pattern gpt-*: acme/{model}",
        "ok   provider demo: built in; language_model by openai_responses; credentials: none",
    ):
        assert line in lines, lines
    assert any(line.startswith("ok   provider acme: openai_compatible at http://127.0.0.1:9/v1") for line in lines)
    assert any("credentials: good, bad" in line for line in lines)
    assert any(line.startswith("-    route of primary: demo/text on auth") for line in lines)
    assert "-    profiles: not bound: heavy, coding, vision_fallback, web_search, web_fetch, image_generate" in lines


def test_a_provider_at_the_gateway_s_own_port_is_named(doctor):
    llama = '[[providers]]\nid = "llama"\nkind = "llamacpp"\n'
    code, lines = doctor(llama)
    assert code == 0, lines
    assert any(line.startswith("-    provider llama: stands at the port where `headrace serve`") for line in lines)
    _, lines = doctor("[server]\nport = 8081\n" + llama)
    assert not any("stands at" in line for line in lines)


def test_a_configuration_that_is_refused_is_told_as_check_does(doctor):
    code, lines = doctor("[server]\nprot = 1\n")
    assert code == 1
    assert "server.prot: unknown key" in lines[0]


def test_live_tries_every_credential_once_and_names_what_failed(doctor):
    words = {"error": {"message": "no: sk-bad-canary", "type": "x", "code": "invalid_api_key"}}
    with Upstream({"*": [Reply.stream(GOOD), Reply.json(words, status=401)]}) as far:
        code, lines = doctor(TEXT.format(url=far.url), "--live")
    assert code == 1
    assert any(line.startswith("ok   acme/good: acme/big answered in") for line in lines), lines
    assert "FAIL acme/bad: acme/big: auth (status 401)" in lines
    assert any(line.startswith("ok   demo: demo/text answered in") for line in lines)


def test_live_says_why_there_is_no_connection(doctor):
    code, lines = doctor(TEXT.format(url="http://127.0.0.1:9"), "--live")
    assert code == 1
    assert "FAIL acme/good: acme/big: transport, connecting failed: connection refused" in lines


def test_a_model_that_only_a_route_names_is_tried(doctor):
    text = """
[[providers]]
id = "first"
kind = "demo"
[[providers]]
id = "second"
kind = "openai_compatible"
base_url = "{url}/v1"
list_models = false
[profiles]
primary = "first/text"
[[routes]]
profile = "primary"
to = ["second/spare"]
"""
    with Upstream({"/v1/chat/completions": Reply.stream(GOOD)}) as far:
        code, lines = doctor(text.format(url=far.url), "--live")
    assert code == 0, lines
    assert any(line.startswith("ok   second: second/spare answered in") for line in lines), lines


def test_live_goes_by_the_proxy_that_requests_go_by(doctor):
    text = """
[server]
proxy = "{url}"
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "http://acme.example/v1"
danger_plaintext = true
[[providers.credentials]]
id = "good"
secret = "env:GOOD"
"""
    script = {
        "/v1/models": Reply.json({"data": [{"id": "listed"}]}),
        "/v1/chat/completions": Reply.stream(GOOD),
    }
    with Upstream(script) as far:
        code, lines = doctor(text.format(url=far.url), "--live")
        asked = [(one.header("host"), one.target) for one in far.facts().requests]
    assert code == 0, lines
    assert asked == [("acme.example", path) for path in script]
    assert any(f"http://acme.example/v1 by way of the proxy {far.url}; " in line for line in lines), lines
    assert any(line.startswith("ok   acme/good: acme/listed answered in") for line in lines), lines


def test_models_of_unknown_price_are_named_until_somebody_says_it(tmp_path):
    line = "-    prices: not known of acme/big; what they cost is counted nowhere"
    text = TEXT.format(url="http://127.0.0.1:9")
    for more, there in [("", True), ("price_input = 1\n", True), ("price_input = 1\nprice_output = 0\n", False)]:
        path = tmp_path / "c.toml"
        path.write_text(text + more)
        told = CliRunner(env={"GOOD": "a", "BAD": "b"}).invoke(main, ["doctor", "--config", str(path)]).output
        assert (line in told) is there
