"""Each client protocol with each provider protocol: what a vendor's own SDK makes of an answer that came through a
gateway is what the decoder makes of the provider's bytes.

1. Recordings (beside the repository) and the fixtures of our own are replayed over real sockets.
2. Every body is asked for as a stream, and read in both ways that the SDK has, and as one object: an answer that came
   otherwise than it was asked for is encoded anew.
3. What a client's protocol or its SDK cannot show stands in `pair_exceptions.json`, with the reason; a row that no
   longer differs fails.
4. A relay in the client's own protocol has the very bytes of the provider. Fixtures are read by the SDK only where the
   gateway encoded them: as they are they hold what no SDK takes.
"""

from __future__ import annotations

import json
from typing import Any

import anthropic
import httpx
import openai
import pytest
from google.genai import errors as google_errors

from headrace import Decoder, error_reply
from headrace.testing import Gate, Reply
from tests.support import matrix
from tests.support.cases import Case, fixtures, recordings
from tests.support.clients import WAYS, Clients, Outcome, clients, direct
from tests.support.pairs import FIELDS, TEXTS, Exceptions, apply, is_encoded, same_calls
from tests.support.recordings import load
from tests.support.replay import CLIENTS, PROVIDERS, Stage, asking, path_of, replaying
from tests.support.sdks import shown

# The SDKs' types are behind what was recorded.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning:pydantic"),
    pytest.mark.filterwarnings("ignore:.* is not a valid:UserWarning"),
    pytest.mark.timeout(60),
]

OK = 200


def differences(case: Case, client: str, way: str, want: Outcome, got: Outcome) -> dict[str, Any]:
    """Field -> what the SDK shows, where it is not what is wanted."""
    if "raises" in got:
        return {"raises": got["raises"]}
    if ("error" in want) != ("error" in got):
        return {"error": type(got["error"]).__name__ if "error" in got else None}
    told_in_stream = way != "whole" and case.halves is not None
    fields = FIELDS if "finish" in want else TEXTS if told_in_stream else ()
    found = {field: shown(got.get(field)) for field in fields if got.get(field) != want[field]}
    if "calls" in found and same_calls(want, got):
        del found["calls"]
    if "error" in want:
        if not told_in_stream:
            found |= wrong_reply(client, want["error"], got["error"])
        elif is_encoded(case, client, way):
            found |= wrong_error(client, want["error"], got["error"])
    return found


def wrong_reply(client: str, event: Any, error: Any) -> dict[str, Any]:
    """What an SDK's exception says otherwise than the HTTP answer that the failure has to be."""
    status, _, body = error_reply(client, event)
    found: dict[str, Any] = {}
    if client == "google_gemini":
        # This SDK's code is the status; ours is a detail.
        if error.code != status:
            found["status"] = error.code
        if error.details.get("error", {}).get("details") != json.loads(body)["error"].get("details"):
            found["code"] = error.details
        return found
    if getattr(error, "status_code", None) != status:
        found["status"] = getattr(error, "status_code", None)
    if client != "anthropic_messages" and error.code != json.loads(body)["error"]["code"]:
        found["code"] = error.code
    return found


def wrong_error(client: str, event: Any, error: Any) -> dict[str, Any]:
    """The same of a failure in mid-stream."""
    body = json.loads(error_reply(client, event)[2])
    right = {
        "openai_chat": lambda: type(error) is openai.APIError and error.code == body["error"]["code"],
        "openai_responses": lambda: bool(error.code and error.message),
        "google_gemini": lambda: error.details == body and error.code == body["error"]["code"],
        "anthropic_messages": lambda: (
            isinstance(error, anthropic.APIStatusError)
            and error.status_code == OK
            and error.body["error"] == body["error"]
        ),
    }[client]()
    return {} if right else {"error": repr(error)}


@pytest.fixture(scope="module", params=["fixtures", "recordings"])
def cases(request):
    if request.param == "fixtures":
        return fixtures()
    return recordings(request.getfixturevalue("shared"))


@pytest.fixture(scope="module")
def stage(cases):
    replies = {case.name: Reply((case.body,), headers=(("content-type", case.content_type),)) for case in cases}
    # What fails within one read has reached nobody, and is an HTTP error. Here the client has the beginning by then.
    for case in cases:
        if case.halves:
            first, rest = case.halves
            for name in (gated(case, client, way) for client in CLIENTS for way in ("raw", "helper", "bytes")):
                replies[name] = Reply((first, Gate(name), rest), headers=(("content-type", case.content_type),))
    with replaying(replies) as served:
        yield served


@pytest.fixture(scope="module")
def sdk(stage):
    with clients(stage.url) as both:
        yield both


def gated(case: Case, client: str, way: str) -> str:
    """The reply that waits, after its first words, at a gate of its own name."""
    return f"{case.name}/{client}/{way}"


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_the_sdk_accumulates_what_the_decoder_reads(
    client: str, provider: str, cases: list[Case], stage: Stage, sdk: Clients
):
    exceptions, wrong, read = Exceptions.load(), [], 0
    for case in cases:
        if case.provider != provider:
            continue
        for way in WAYS:
            if case.source == "fixtures" and not is_encoded(case, client, way):
                continue
            read += 1
            name = gated(case, client, way) if case.halves and way != "whole" else case.name
            got = sdk.read(client, way, f"{provider}/{name}", lambda name=name: stage.upstream.open(name))
            differs = differences(case, client, way, exceptions.expected(case, client, way), got)
            known = exceptions.files.get((case.file, client, way), {})
            if differs != known:
                wrong.append({"file": case.file, "way": way, "differs": differs, "known": known})
    assert not wrong, "\n".join(map(str, wrong))
    # There are no fixtures of a dialect: they stand with its protocol's.
    assert read > 20 or all(case.provider != provider for case in cases)
    assert stage.facts().malformed == 0


@pytest.mark.parametrize("protocol", CLIENTS)
def test_a_relay_in_the_clients_own_protocol_has_the_providers_bytes(protocol, cases, stage):
    compared = 0
    with httpx.Client(timeout=20) as client:
        for case in cases:
            if case.provider != protocol:
                continue
            name = gated(case, protocol, "bytes") if case.halves else case.name
            model = f"{protocol}/{name}"
            ask = asking(protocol, model, stream=case.is_stream)
            path = path_of(protocol, model, stream=case.is_stream)
            with client.stream("POST", stage.url + path, json=ask) as answer:
                content = b""
                for piece in answer.iter_raw():
                    content += piece
                    stage.upstream.open(name)
            if "error" in case.direct and not case.halves:
                assert answer.status_code >= 400, case.file
                continue
            assert (answer.status_code, answer.headers["content-type"]) == (OK, case.content_type), case.file
            compared += 1
            passed = direct(protocol, content)
            # An event that no blank line closes, where the stream breaks off, does not pass.
            unclosed = "error" in case.direct and not case.body.endswith(b"\n\n")
            told = case.direct["text"][: len(passed["text"])] if unclosed else case.direct["text"]
            assert passed["text"] == told, case.file
            assert ("error" in passed) == ("error" in case.direct), case.file
            # What follows the end of an answer is no part of it.
            if not case.body.startswith(content):
                told = next(i for i, (a, b) in enumerate(zip(case.body + b" ", content, strict=False)) if a != b)
                whole = content[:told].rindex(b"\n\n") + 2
                assert b"error" in content[whole:], case.file
                # Up to there it was in order, and with the next event, which did not pass, it was not.
                decoder = Decoder(protocol)
                decoder.feed(case.body[:whole])
                assert not decoder.is_done, case.file
                following = case.body.find(b"\n\n", whole)
                if following > 0:
                    assert decoder.feed(case.body[whole : following + 2])[-1].type == "provider.error", case.file
    assert compared > 20


@pytest.mark.parametrize("client", CLIENTS)
def test_recorded_errors_are_the_sdks_own(client, shared):
    expected = {}
    for line in (shared / "recordings" / "errors.expected.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["decoder"] in PROVIDERS and row["status"] != OK and row["file"].startswith("errors/"):
            expected[row["file"]] = row
    recorded = {one.file: one for one in load(shared, {"errors": ""}) if one.file in expected}
    assert len(recorded) == len(expected) > 30
    framing = ("content-length", "transfer-encoding", "connection")
    replies = {
        file: Reply((one.body,), one.status, tuple((n, v) for n, v in one.headers if n not in framing))
        for file, one in recorded.items()
    }
    classes = set()
    with replaying(replies) as stage, clients(stage.url) as sdk:
        for file, one in recorded.items():
            protocol = expected[file]["decoder"]
            event = direct(protocol, one.body, one.status, one.headers)["error"]
            assert event.kind == expected[file]["kind"]
            for way in WAYS:
                got = sdk.read(client, way, f"{protocol}/{file}")
                refused = (openai.APIStatusError, anthropic.APIStatusError, google_errors.APIError)
                assert isinstance(got["error"], refused), (file, way)
                found = wrong_reply(client, event, got["error"])
                if client == protocol:
                    # A client's own mistake is told in its vendor's words.
                    found.pop("code", None)
                assert not found, (file, way)
                classes.add(type(got["error"]).__name__)
    of_google = {"ClientError", "ServerError"}
    wanted = of_google if client == "google_gemini" else {"RateLimitError", "BadRequestError", "InternalServerError"}
    assert wanted <= classes


def test_no_exception_has_lost_its_ground(shared):
    exceptions, cases = Exceptions.load(), fixtures() + recordings(shared)
    known = {case.file for case in cases}
    assert {file for file, _, _ in exceptions.files} <= known
    for rule in exceptions.rules:
        needed = False
        for case in cases:
            outcome = dict(case.direct)
            if "finish" in outcome:
                apply(rule, outcome)
                needed = needed or outcome != case.direct
        assert needed, rule


def test_the_table_of_pairs_is_true(request):
    again = "write it anew: python -m tests.support.matrix"
    own = matrix.counts(fixtures())
    rows = matrix.ROW.findall(matrix.written())
    assert [row[:2] for row in rows] == [(client, provider) for client in CLIENTS for provider in PROVIDERS]
    for _, provider, _, _, streams, _, bodies in rows:
        assert (int(streams), int(bodies)) == (own[provider, True], own[provider, False]), again
    recorded = matrix.counts(recordings(request.getfixturevalue("shared")))
    assert matrix.written() == matrix.table(recorded, own), again
