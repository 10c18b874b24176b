"""The configuration: where it is looked for, what it says, and how it is refused."""

import json
import socket
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.control import configured

from headrace.config import (
    Config,
    ConfigurationError,
    Reloader,
    find,
    from_environment,
    is_loopback,
    json_schema,
    listens,
    load,
    stamp_of,
    validate,
)
from headrace.registry import Registry

EVERYWHERE = "0.0.0.0"  # noqa: S104 - to be refused
ROW = '[[providers]]\nid = "acme"\nkind = "openai_compatible"\nbase_url = "https://acme.example/v1"\n'
CREDENTIAL = ROW + '[[providers.credentials]]\nid = "first"\nsecret = "env:ACME_KEY"\n'
KEY = '[[keys]]\nid = "team-a"\nsecret = "env:TEAM_A_KEY"\n'
ENVIRON = {"ACME_KEY": "sk-acme", "ACME_KEY_2": "sk-acme", "TEAM_A_KEY": "sk-team", "SPACED": "sk a", "EMPTY": ""}

# Each: the text, the line and the key that the message names, and words of the fault and of its way out.
BROKEN = [
    ("[server\n", 1, "", "no TOML"),
    ("[server]\nport = 1\nport = 2\n", 3, "", "duplicate key"),
    ("[server]\nprot = 1\n", 2, "server.prot", "did you mean 'port'?"),
    ('[server]\nport = "8080"\n', 2, "server.port", "must be a valid integer"),
    ("[server]\nport = 70000\n", 2, "server.port", "less than or equal to 65535"),
    ("[server]\nthreads = true\n", 2, "server.threads", "must be a valid integer"),
    ('[server]\nhost = "0.0.0.0"\n', 2, "server.host", "add keys, or set server.danger_open = true"),
    ('[server]\norigins = ["https://a.example/x"]\n', 2, "server.origins[0]", "must be an origin such as"),
    ("providers = 3\n", 1, "providers", "write [[providers]], once for each"),
    ('[[providers]]\nid = "acme"\n', 1, "providers[0].kind", "is missing; add kind"),
    (ROW.replace("acme", "Acme", 1), 2, "providers[0].id", "must be lower-case"),
    (ROW + ROW, 6, "providers[1].id", "'acme' is there twice"),
    (ROW.replace("openai_compatible", "openai_compatble"), 3, "providers[0].kind", "did you mean 'openai_compatible'?"),
    ('[[providers]]\nid = "a"\nkind = "openai_compatible"\n', 1, "providers[0].base_url", "add base_url"),
    (ROW.replace("https", "ftp"), 4, "providers[0].base_url", "must be an http or https address"),
    (ROW.replace("//acme", "//me:pw@acme"), 4, "providers[0].base_url", "a key belongs into [[providers.credentials]]"),
    (ROW.replace("/v1", "/v1?key=1"), 4, "providers[0].base_url", "holds more than an address"),
    (ROW.replace(".example", ".example:port"), 4, "providers[0].base_url", "must be an http or https address"),
    (CREDENTIAL.replace("https", "http"), 4, "providers[0].base_url", "use https, or set danger_plaintext = true"),
    (ROW + 'protocol = "openai_chatt"\n', 5, "providers[0].protocol", "'openai_chat'"),
    (
        '[[providers]]\nid = "a"\nkind = "anthropic"\nprotocol = "openai_chat"\n',
        4,
        "providers[0].protocol",
        "it speaks anthropic_messages",
    ),
    (
        CREDENTIAL.replace("env:ACME_KEY", "sk-literal"),
        7,
        "providers[0].credentials[0].secret",
        "server.danger_literal_secrets = true",
    ),
    (CREDENTIAL.replace("ACME_KEY", "NO_KEY"), 7, "providers[0].credentials[0].secret", "NO_KEY is not set; export it"),
    (CREDENTIAL.replace("ACME_KEY", "EMPTY"), 7, "providers[0].credentials[0].secret", "EMPTY is not set"),
    (CREDENTIAL.replace("ACME_KEY", "SPACED"), 7, "providers[0].credentials[0].secret", "no key has"),
    (
        CREDENTIAL.replace("env:ACME_KEY", "file:key.txt"),
        7,
        "providers[0].credentials[0].secret",
        "cannot be read: No such file",
    ),
    (
        CREDENTIAL + '[[providers.credentials]]\nid = "first"\nsecret = "env:TEAM_A_KEY"\n',
        9,
        "providers[0].credentials[1].id",
        "'first' is there twice",
    ),
    (
        CREDENTIAL + '[[providers.credentials]]\nid = "second"\nsecret = "env:ACME_KEY_2"\n',
        10,
        "providers[0].credentials[1].secret",
        "remove one of the two",
    ),
    (ROW + '[providers.pool]\nstrategy = "best"\n', 6, "providers[0].pool.strategy", "'fill_first', 'round_robin'"),
    (ROW + "[providers.deadlines]\nidle = 0\n", 6, "providers[0].deadlines.idle", "greater than 0"),
    (ROW + "[providers.deadlines]\nidle = nan\n", 6, "providers[0].deadlines.idle", "must be"),
    (ROW + "[providers.settings]\nthink = true\n", 6, "providers[0].settings.think", "did you mean 'think_tags'?"),
    (
        ROW + '[providers.settings]\nthink_tags = "yes"\n',
        6,
        "providers[0].settings.think_tags",
        "must be a valid boolean",
    ),
    (
        ROW + '[providers.settings]\nheaders = { Authorization = "Bearer x" }\n',
        6,
        "providers[0].settings.headers",
        "a key belongs into [[providers.credentials]]",
    ),
    (ROW + '[providers.settings]\ndialect = ["no_sight"]\n', 6, "providers[0].settings.dialect", "no such flag; known"),
    (
        '[[providers]]\nid = "d"\nkind = "demo"\n[providers.settings]\nx = 1\n',
        5,
        "providers[0].settings.x",
        "demo has no settings; remove it",
    ),
    ('[store]\nurl = "mysql://x"\n', 2, "store.url", "must be sqlite:"),
    (ROW + '[profiles]\nbest = "acme/m"\n', 6, "profiles.best", "use one of primary, light"),
    (ROW + '[profiles]\nprimary = "acme"\n', 6, "profiles.primary", "provider_id/model"),
    (ROW + '[profiles]\nprimary = "acne/m"\n', 6, "profiles.primary", "did you mean 'acme'?"),
    (ROW + "[profiles]\nweb_search = { news = 1 }\n", 6, "profiles.web_search.news", "must be a valid string"),
    (ROW + '[models]\n"gpt-4.1" = "nobody/m"\n', 6, 'models."gpt-4.1"', "no provider 'nobody'"),
    ('[profiles]\nprimary = "acme/m"\n', 2, "profiles.primary", "known: none; add one as [[providers]]"),
    (ROW + '[providers.credentials]\nid = "a"\n', 5, "providers[0].credentials", "write [[providers.credentials]]"),
    (ROW + '[models]\n"*-*" = "acme/m"\n', 6, 'models."*-*"', "a pattern holds one *"),
    (KEY.replace("env:TEAM_A_KEY", "secret"), 3, "keys[0].secret", "danger_literal_secrets"),
    (KEY + KEY.replace("TEAM_A_KEY", "ACME_KEY"), 5, "keys[1].id", "'team-a' is there twice"),
    (KEY + 'models = ["a*b*"]\n', 4, "keys[0].models[0]", "a pattern holds one *"),
    ('[[keys]]\nid = "k"\n', 1, "keys[0].secret", "is missing; add secret"),
]


@pytest.mark.parametrize(("text", "line", "key", "words"), BROKEN)
def test_a_broken_configuration_is_one_line_with_file_line_and_key(text, line, key, words, tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        configured(text, ENVIRON, tmp_path)
    said = str(caught.value)
    assert said.startswith(f"test.toml:{line}:")
    assert "\n" not in said
    assert words in said
    assert f": {key}: " in said or not key
    for secret in ("sk-literal", "sk-acme", "Bearer x", "sk a"):
        assert secret not in said


def test_every_fault_is_told_in_the_files_order():
    with pytest.raises(ConfigurationError) as caught:
        configured('[server]\nport = "x"\nthreads = 0\n[store]\nurl = 1\n')
    assert [(one.line, one.key) for one in caught.value.problems] == [
        (2, "server.port"),
        (3, "server.threads"),
        (5, "store.url"),
    ]


def test_the_least_that_must_work(tmp_path):
    (tmp_path / "acme.key").write_text("sk-from-file\n")
    config = configured(
        """
[server]
host = "127.0.0.1"
port = 0
threads = 2
[[providers]]
id = "acme"
kind = "openai_compatible"
base_url = "http://127.0.0.1:9000/v1"
protocol = "openai_chat"
[[providers.credentials]]
id = "first"
secret = "env:ACME_KEY"
[[providers.credentials]]
id = "second"
secret = "file:acme.key"
[providers.pool]
strategy = "round_robin"
affinity = false
[providers.deadlines]
connect = 5
first_byte = 600.5
[providers.settings]
think_tags = true
[store]
url = "memory:"
[profiles]
primary = "acme/some-model"
web_search.news = "acme/news"
[models]
"mock-fast" = "acme/mock-fast"
"claude-*" = "acme/{model}"
[[keys]]
id = "team-a"
secret = "env:TEAM_A_KEY"
models = ["mock-*"]
""",
        ENVIRON,
        tmp_path,
    )
    (row,) = config.providers
    assert [one.secret.reveal() for one in row.credentials] == ["sk-acme", "sk-from-file"]
    assert (row.pool.strategy, row.pool.affinity) == ("round_robin", False)
    assert (row.deadlines.connect, row.deadlines.first_byte, row.deadlines.idle) == (5, 600.5, 120)
    assert config.bindings == {"primary": "acme/some-model", "web_search.news": "acme/news"}
    assert list(config.models) == ["mock-fast", "claude-*"]
    assert config.keys[0].secret.reveal() == "sk-team"
    assert config.server.threads == 2


def test_an_empty_file_is_a_configuration():
    assert configured("") == Config()


@pytest.mark.parametrize(
    "text",
    [
        f'[server]\nhost = "{EVERYWHERE}"\ndanger_open = true\n',
        f'[server]\nhost = "{EVERYWHERE}"\n' + KEY,
        CREDENTIAL.replace("https", "http") + "\n[[providers]]\nid = 'x'\nkind = 'demo'\n",
        (
            '[server]\nhost = "::1"\n[[providers]]\nid = "a"\nkind = "openai_compatible"\nbase_url = "http://[::1]:1/v1"\n'
            '[[providers.credentials]]\nid = "c"\nsecret = "env:ACME_KEY"\n'
        ),
        "[server]\ndanger_literal_secrets = true\n" + CREDENTIAL.replace("env:ACME_KEY", "sk-literal"),
    ],
)
def test_what_is_dangerous_needs_its_word(text):
    if "http://acme" in text:
        with pytest.raises(ConfigurationError):
            configured(text, ENVIRON)
        text = text.replace('/v1"\n', '/v1"\ndanger_plaintext = true\n', 1)
    assert configured(text, ENVIRON)


def test_a_key_after_env_by_mistake_is_not_shown():
    with pytest.raises(ConfigurationError) as caught:
        configured(CREDENTIAL.replace("ACME_KEY", "sk-proj-abcdef"))
    assert "sk-proj" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "there"),
    [
        ("sqlite:h.db?synchronous=off", "sqlite:{folder}/h.db?synchronous=off"),
        ("sqlite:/var/h.db", "sqlite:/var/h.db"),
        ("sqlite:", "sqlite:"),
        ("sqlite:?synchronous=off", "sqlite:?synchronous=off"),
    ],
)
def test_a_store_is_looked_for_from_the_file_s_folder(url, there, tmp_path):
    config = configured(f'[store]\nurl = "{url}"\n', {}, tmp_path)
    assert config.store.url == there.format(folder=tmp_path)


def test_a_secret_file_that_cannot_be_one(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_text("x" * 70_000)
    (tmp_path / "folder").mkdir()
    for name, words in [("binary", "is not text"), ("long", "longer than"), ("folder", "Is a directory")]:
        with pytest.raises(ConfigurationError, match=words):
            configured(CREDENTIAL.replace("env:ACME_KEY", f"file:{name}"), {}, tmp_path)


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("[::1]", True),
        ("localhost", True),
        ("LOCALHOST", True),
        (EVERYWHERE, False),
        ("::", False),
        ("10.0.0.1", False),
        ("example.com", False),
        ("127.0.0.1.example.com", False),
    ],
)
def test_what_is_loopback(host, own):
    assert is_loopback(host) is own


def test_where_the_file_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "headrace").mkdir()
    (tmp_path / "headrace" / "config.toml").write_text("")
    (tmp_path / "config.toml").write_text("")
    (tmp_path / "headrace.toml").write_text("")
    home = tmp_path / "home"
    (home / ".config" / "headrace").mkdir(parents=True)
    assert find(None, {}) is None
    assert find(None, {"HOME": str(home)}) is None
    # Relative directories would be those of a cloned repository.
    assert find(None, {"XDG_CONFIG_HOME": "."}) is None
    assert find(None, {"XDG_CONFIG_HOME": str(tmp_path)}) == tmp_path / "headrace" / "config.toml"
    own = home / ".config" / "headrace" / "config.toml"
    own.write_text("")
    assert find(None, {"HOME": str(home)}) == own
    assert find(None, {"HOME": str(home), "HEADRACE_CONFIG": "/x.toml"}) == Path("/x.toml")
    assert find(Path("/y.toml"), {"HEADRACE_CONFIG": "/x.toml"}) == Path("/y.toml")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "cannot be read: No such file"),
        (b"a = 1\nb = '\xff'\n", ":2: is not UTF-8"),
        (b"#" * 5_000_000, "longer"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path, content, words):
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words):
        load(path, environ={})


def test_a_byte_order_mark_is_no_fault(tmp_path):
    path = tmp_path / "c.toml"
    path.write_bytes(b"\xef\xbb\xbf[server]\nport = 1\n")
    assert load(path, environ={}).server.port == 1


def test_a_changed_file_is_taken_and_a_bad_one_refused_once(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[server]\nport = 1\n")
    reloader = Reloader(lambda: load(path, environ={}), lambda: stamp_of(path))
    assert reloader.poll() is None
    path.write_text("[server]\nport = 22\n")
    assert reloader.poll().server.port == 22
    assert reloader.poll() is None
    path.write_text("[server]\nport = no\n")
    refused = reloader.poll()
    assert isinstance(refused, ConfigurationError)
    assert "c.toml:2:" in str(refused)
    assert reloader.poll() is None
    # A file put in the place of another, with the same size and time, is another.
    other = tmp_path / "other.toml"
    other.write_text("[server]\nport = 33\n")
    other.replace(path)
    assert reloader.poll().server.port == 33
    assert reloader.poll(force=True).server.port == 33
    path.unlink()
    assert isinstance(reloader.poll(), ConfigurationError)


def test_without_a_file_the_environment_tells():
    known = Registry(tuple).definitions.values()
    config = from_environment(
        {"OPENAI_API_KEY": "sk-o", "ANTHROPIC_API_KEY": " sk-a ", "GROQ_API_KEY": ""}, known, probe=lambda _port: False
    )
    assert [row.id for row in config.providers] == ["openai", "anthropic", "demo"]
    assert config.providers[1].credentials[0].secret.reveal() == "sk-a"
    assert config.models == {"gpt-*": "openai/{model}", "claude-*": "anthropic/{model}"}
    asked = []
    config = from_environment({}, known, probe=lambda port: not asked.append(port))
    assert [(row.id, row.base_url) for row in config.providers] == [
        ("ollama", "http://127.0.0.1:11434/v1"),
        ("demo", None),
    ]
    assert asked == [11434]


def test_the_probe_looks_at_loopback():
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        server.listen()
        assert listens(port)
    assert not listens(port)


def test_the_schema_is_exported_with_words():
    schema = json.loads(json.dumps(json_schema()))
    assert schema["additionalProperties"] is False
    server = schema["$defs"]["Server"]["properties"]
    assert server["port"]["maximum"] == 65535
    for table in schema["$defs"].values():
        for name, one in table["properties"].items():
            assert one.get("description") or "$ref" in one, name


def test_a_plain_dataclass_is_read_as_strictly():
    from headrace.providers.openai_compatible import Settings

    assert validate(Settings, {"headers": {"X-Title": "me"}})[0] == Settings(headers={"X-Title": "me"})
    _, faults = validate(Settings, {"include_usage": 1, "headers": {"a": 2}, "nothing": None})
    assert {path for path, _ in faults} == {("include_usage",), ("headers", "a"), ("nothing",)}


WHOLE = (
    '[server]\nhost = "127.0.0.1"\nport = 1\nthreads = 1\nbody_limit = 9999\norigins = ["https://a.example"]\n'
    + CREDENTIAL
    + '[providers.pool]\nstrategy = "random"\naffinity = true\n[providers.deadlines]\nidle = 3\ntotal = 4.5\n'
    + '[providers.settings]\nthink_tags = true\ndialect = ["developer"]\nheaders = { X-A = "b" }\n'
    + '[store]\nurl = "memory:"\n[profiles]\nprimary = "acme/m"\nweb_search.news = "acme/n"\n'
    + '[models]\n"a*" = "acme/{model}"\n'
    + KEY
    + 'models = ["a*"]\n'
)
VALUES = ["0", "-1", "1.5", "nan", "inf", "true", '""', '"x"', '"é\\u0000"', "[]", "[1]", '["x"]', "{}", "{ a = 1 }",
          "2026-01-01", "9223372036854775807", '"' + "y" * 5000 + '"', '[["x"]]', "[{}]"]  # fmt: skip


def refused_or_taken(text):
    try:
        return configured(text, ENVIRON)
    except ConfigurationError as error:
        refused = error
    assert refused.problems
    for problem in refused.problems:
        assert problem.file == "test.toml"
        assert "\n" not in str(problem)
    return None


def test_the_whole_example_is_taken():
    assert refused_or_taken(WHOLE)


@pytest.mark.parametrize("value", VALUES)
def test_any_value_at_any_key_is_taken_or_refused_in_words(value):
    lines = WHOLE.splitlines()
    found = []
    for at, line in enumerate(lines):
        key, equals, _ = line.partition(" = ")
        if equals:
            found.append(refused_or_taken("\n".join([*lines[:at], f"{key} = {value}", *lines[at + 1 :]])))
    assert None in found, "no value is right for every key"


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_any_damage_is_taken_or_refused_in_words(data):
    lines = WHOLE.splitlines()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "twice", "move", "insert"])):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "twice":
                lines.insert(at, lines[at])
            case "move":
                lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines.pop(at))
            case _:
                where = data.draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:where] + data.draw(st.text(max_size=3)) + lines[at][where:]
    taken = refused_or_taken("\n".join(lines))
    assert taken is None or isinstance(taken, Config)
