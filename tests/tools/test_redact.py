"""Known secrets leave in no form, however the stream was cut."""

import base64
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.tools.known_secrets import known_secrets
from headrace.tools.redact import Redactor
from headrace.tools.workspace import Workspace

CANARY = "sk-canary/9f3+b8 &é1x"
RAW = CANARY.encode()
KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END KEY-----"


def base64_at(place, encode=base64.b64encode):
    return encode(b"xyz"[:place] + RAW + b"after")


FORMS = {
    "as it is": RAW,
    "percent-encoded": quote(CANARY, safe="").encode(),
    "as in a form": quote_plus(CANARY).encode(),
    "with the slash": quote(CANARY).encode(),
    "in lower case": quote(CANARY, safe="").replace("%2F", "%2f").replace("%2B", "%2b").lower().encode(),
    "JSON": json.dumps(CANARY).encode(),
    "JSON in UTF-8": json.dumps(CANARY, ensure_ascii=False).encode(),
    "hexadecimal": RAW.hex().encode(),
    "upper hexadecimal": RAW.hex().upper().encode(),
    "every byte in percent": "".join(f"%{byte:02X}" for byte in RAW).encode(),
    **{f"base64 at {place}": base64_at(place) for place in range(3)},
    **{f"base64url at {place}": base64_at(place, base64.urlsafe_b64encode) for place in range(3)},
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_taken_out(form):
    data = b"before " + FORMS[form] + b" after\n"
    done, count = Redactor({"acme/first": CANARY}).redact(data)
    assert count == 1
    assert b"[redacted acme/first]" in done
    for hidden in (RAW, FORMS[form][4:-8]):
        assert hidden not in done
    assert done.startswith(b"before ")
    assert done.endswith(b" after\n")


@pytest.mark.parametrize("width", [1, 4, 16])
def test_a_line_break_does_not_hide_it(width):
    coded = base64_at(1)
    folded = b"\r\n".join(coded[at : at + width] for at in range(0, len(coded), width))
    done, count = Redactor({"k": CANARY}).redact(folded)
    assert count == 1
    assert coded[4:16] not in done.replace(b"\r\n", b"")


def test_a_key_of_several_lines_goes_as_a_whole_and_line_by_line():
    redactor = Redactor({"key": KEY})
    assert redactor.redact(KEY.encode()) == (b"[redacted key]", 1)
    for line in KEY.split("\n")[1:3]:
        assert redactor.redact(line.encode()) == (b"[redacted key]", 1)
    assert redactor.redact(json.dumps(KEY).encode()) == (b'"[redacted key]"', 1)


def test_what_is_too_short_to_tell_from_text_is_counted_and_left():
    redactor = Redactor({"a": "root", "b": "long-enough"})
    assert redactor.too_short == 1
    assert redactor.text("root long-enough") == ("root [redacted b]", 1)


def test_values_of_json_are_redacted_with_their_keys():
    redactor = Redactor({"k": "s3cr3t-value"})
    value = {"s3cr3t-value": ["x s3cr3t-value", 1, None, {"a": ("s3cr3t-value",)}]}
    assert "s3cr3t" not in json.dumps(redactor.value(value))
    assert redactor.value({"a": 1}) == {"a": 1}


def test_no_repr_shows_a_secret():
    assert CANARY not in repr(Redactor({"k": CANARY})) + repr(Redactor({"k": CANARY}).stream())


@given(
    st.lists(st.sampled_from([*FORMS.values(), b"text ", b"sk-canary", b"\n", base64.b64encode(b"other")]), max_size=6),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
@example([FORMS["base64 at 2"], b"\n"], [1])
def test_a_stream_gives_the_same_however_it_is_cut(pieces, cuts):
    data = b"".join(pieces)
    redactor = Redactor({"k": CANARY, "other": "another-secret"})
    whole, count = redactor.redact(data)
    stream, out, at, turn = redactor.stream(), b"", 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        out += stream.feed(data[at : at + size])
        at += size
        turn += 1
    out += stream.finish()
    assert out == whole
    assert stream.count == count
    assert RAW not in out


@given(
    st.lists(
        st.sampled_from(
            [*(form.decode() for form in FORMS.values()), "text é ", "sk-canary", "longer-than", "-this", "\n", "s"]
        ),
        max_size=6,
    ),
    st.lists(st.integers(1, 40), min_size=1, max_size=30),
)
@example(["longer-than", "-this", "longer-than", " one", "s"], [1])
def test_a_live_text_is_what_the_whole_would_be_however_it_is_cut(pieces, cuts):
    """Also where one secret is the beginning of another."""
    text = "".join(pieces)
    redactor = Redactor({"k": CANARY, "short": "longer-than", "long": "longer-than-this"})
    live, out, at, turn = redactor.live(), "", 0, 0
    while at < len(text):
        size = cuts[turn % len(cuts)]
        out += live.feed(text[at : at + size])
        at += size
        turn += 1
    out += live.finish()
    assert out == redactor.text(text)[0]
    assert CANARY not in out


def test_a_live_text_waits_only_where_a_secret_may_begin():
    live = Redactor({"k": CANARY}).live()
    assert live.feed("Is it") == "Is it"
    assert live.feed(" sk-c") == " "
    assert live.feed("ancel?") == "sk-cancel?"
    assert live.feed(CANARY[:-1]) == ""
    assert live.feed("\n") == ""
    assert live.feed(CANARY[-1]) == "[redacted k]"
    assert live.feed("sk-can") == ""
    assert live.finish() == "sk-can"
    assert Redactor().live().feed("sk-can") == "sk-can"


def test_a_stream_holds_back_no_more_than_the_longest_form():
    redactor = Redactor({"k": CANARY})
    stream = redactor.stream()
    for _ in range(100):
        given_back = len(stream.feed(b"x" * 1000))
    assert given_back == 1000
    assert len(stream.finish()) == redactor.longest < 500


def test_secrets_are_known_from_the_configuration_the_environment_and_env_files(tmp_path):
    (tmp_path / ".env").write_text(
        "API_KEY='in-the-file-1'\nMODE=development\nexport DB_PASSWORD=in-the-file-2 # why\n"
    )
    (tmp_path / "service").mkdir()
    (tmp_path / "service/.env.local").write_text("URL=postgres://me:in%2Dan%2Daddress@host/db\n")
    (tmp_path / "linked").symlink_to("service")
    environ = {
        "ACME_TOKEN": "in-the-environment",
        "PWD": "/somewhere/else",
        "PATH": "/usr/bin",
        "KEYBOARD": "us-international",
    }
    found = known_secrets({"acme/first": "configured-key"}, environ, Workspace(tmp_path))
    assert found == {
        "acme/first": "configured-key",
        "environment ACME_TOKEN": "in-the-environment",
        ".env API_KEY": "in-the-file-1",
        ".env DB_PASSWORD": "in-the-file-2",
        "service/.env.local URL": "in%2Dan%2Daddress",
        "service/.env.local URL decoded": "in-an-address",
    }
    text, count = Redactor(found).text((tmp_path / ".env").read_text())
    assert count == 2
    assert "in-the-file" not in text
    assert "MODE=development" in text
