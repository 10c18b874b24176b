"""One model by its name, over real sockets, asked by the vendors' own clients."""

import json

import anthropic
import httpx
import openai
import pytest
from google import genai
from google.genai import errors, types
from support.gateway import served, upstream

LISTED = (200, {}, json.dumps({"data": [{"id": "maker/big:8b", "context_length": 4096}, {"id": "small"}]}).encode())


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "headrace.toml"
    with upstream(LISTED) as far, upstream((404, {}, b"{}")) as mute:
        path.write_text(
            f"""
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "{far.url}/v1"
[[providers]]
id = "mute"
kind = "openai_compatible"
base_url = "{mute.url}/v1"
[models]
"fast" = "acme/small"
"team-*" = "acme/{{model}}"
[profiles]
primary = "acme/small"
[catalogue."acme/team-x"]
context_window = 77
[[keys]]
id = "all"
secret = "env:ALL"
[[keys]]
id = "few"
secret = "env:FEW"
models = ["fast"]
"""
        )
        with served(path, ALL="sk-all", FEW="sk-few") as near:
            yield f"http://127.0.0.1:{near.port}"


def test_openai_retrieves_one(gateway):
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="sk-all", max_retries=0) as client:
        found = client.models.retrieve("acme/maker/big:8b")
        assert (found.id, found.object, found.owned_by) == ("acme/maker/big:8b", "model", "acme")
        assert found.context_window == 4096
        # What the list has, its rows have alone.
        for row in client.models.list():
            assert client.models.retrieve(row.id) == row
        with pytest.raises(openai.NotFoundError) as caught:
            client.models.retrieve("acme/none")
        assert (caught.value.code, caught.value.param, caught.value.type) == (
            "model_not_found",
            "model",
            "invalid_request_error",
        )
        assert "'acme/none'" in str(caught.value)


def test_anthropic_retrieves_one(gateway):
    with anthropic.Anthropic(base_url=gateway, api_key="sk-all", max_retries=0) as client:
        found = client.models.retrieve("acme/maker/big:8b")
        assert (found.type, found.id, found.max_input_tokens) == ("model", "acme/maker/big:8b", 4096)
        for row in client.models.list():
            assert client.models.retrieve(row.id) == row
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.models.retrieve("nothing")
        assert caught.value.body["error"]["type"] == "not_found_error"
        assert caught.value.body["error"]["message"].startswith("model_not_found: ")


def test_google_gets_one(gateway):
    client = genai.Client(
        api_key="sk-all",
        http_options=types.HttpOptions(base_url=gateway, retry_options=types.HttpRetryOptions(attempts=1)),
    )
    found = client.models.get(model="models/acme/maker/big:8b")
    assert (found.name, found.input_token_limit) == ("models/acme/maker/big:8b", 4096)
    for row in client.models.list():
        assert client.models.get(model=row.name) == row
    with pytest.raises(errors.ClientError) as caught:
        client.models.get(model="nothing")
    assert (caught.value.code, caught.value.status) == (404, "NOT_FOUND")
    client.close()


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("acme/small", 200),
        ("acme%2Fsmall", 200),
        ("acme%2fmaker%2Fbig%3A8b", 200),
        ("fast", 200),
        ("primary", 200),
        # A provider that tells no list may have any model.
        ("mute/whatever", 200),
        # A pattern leads there, and the configuration knows of it; of the other, the provider lists none such.
        ("team-x", 200),
        ("team-y", 404),
        ("light", 404),
        ("nobody/m", 404),
        ("acme/../small", 404),
        ("%ff", 404),
        ("", 404),
        ("x" * 3000, 404),
    ],
)
def test_names_are_looked_up_as_requests_look_them_up(gateway, name, status):
    for head in ({}, {"anthropic-version": "2023-06-01"}):
        answer = httpx.get(f"{gateway}/v1/models/{name}", headers={"authorization": "Bearer sk-all", **head})
        assert answer.status_code == status, answer.text
        assert len(answer.content) < 1000


def test_a_key_sees_the_names_that_it_may_ask_for_and_no_others(gateway):
    few = {"x-api-key": "sk-few"}
    assert httpx.get(f"{gateway}/v1/models/fast", headers=few).status_code == 200
    hidden, absent = (httpx.get(f"{gateway}/v1/models/{name}", headers=few) for name in ("acme/small", "nobody/small"))
    assert hidden.status_code == absent.status_code == 404
    assert hidden.text.replace("acme", "nobody") == absent.text
    assert httpx.get(f"{gateway}/v1/models/fast").status_code == 401
    assert httpx.head(f"{gateway}/v1/models/fast", headers=few).status_code == 200
    assert httpx.post(f"{gateway}/v1/models/fast", json={}, headers=few).status_code == 405
