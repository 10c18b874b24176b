"""Permission: layers, modes, rules and their examples, grants (T4, C4, H3)."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.config import ConfigurationError
from headrace.log.payloads import Grant, GrantedRule
from headrace.tools.permission import (
    MODES,
    Connect,
    Grants,
    Layer,
    Mention,
    Open,
    Other,
    Policy,
    Query,
    Rule,
    find_files,
    line_acts,
    load_policy,
    parse_layer,
)
from headrace.tools.permission.grants import LIFE_MS, rules_for
from headrace.tools.permission.load import matches
from headrace.tools.permission.policy import LAYERS, ORDER
from headrace.tools.permission.rules import glob_pattern

ROOT = "/project"


def bash(line, tier="A"):
    acts, doubts = line_acts(line, root=ROOT, cwd=ROOT, home="/home/me")
    return Query(tool="bash", acts=acts, doubts=doubts, root=ROOT, tier=tier)


def write(path, tier="A"):
    return Query(tool="edit", acts=(Open(f"{ROOT}/{path}", "write"),), root=ROOT, tier=tier)


def rule(effect, **fields):
    return Rule(effect=effect, tool=fields.pop("tool", "bash"), why="a reason", **fields)


EFFECTS = st.sampled_from(["allow", "ask", "deny"])
RULES = st.one_of(
    st.builds(rule, EFFECTS, argv=st.sampled_from([("git",), ("git", "status"), ("make",), ("rm", "-rf")])),
    st.builds(rule, EFFECTS, tool=st.sampled_from(["edit", "*"]), path=st.sampled_from(["src/**", "**", "*.py"])),
    st.builds(rule, EFFECTS, tool=st.just("web_fetch"), host=st.sampled_from(["a.example", "*.example"])),
    st.builds(rule, EFFECTS, tool=st.sampled_from(["*", "edit", "bash"])),
)
QUERIES = st.sampled_from(
    [
        bash("git status"),
        bash("git status", "C"),
        bash("make && git push"),
        bash("$X"),
        bash("cat src/a.py > b.py"),
        write("src/a.py"),
        write("a.py", "C"),
        Query(tool="web_fetch", acts=(Connect("a.example"),), root=ROOT, tier="A"),
        Query(tool="plug.in", acts=(Other("write"),), root=ROOT, tier="B"),
        Query(tool="read_file", acts=(Open("/project/.env", "read", secret=True),), root=ROOT, tier="A"),
    ]
)
LAYER_RULES = st.lists(RULES, max_size=3).map(tuple)
TIGHT = st.lists(
    RULES.map(lambda one: dataclasses.replace(one, effect="deny" if one.effect == "allow" else one.effect)), max_size=3
)


@given(st.tuples(LAYER_RULES, LAYER_RULES, LAYER_RULES), QUERIES, st.sampled_from(MODES), st.integers(1, 3))
def test_t4_a_lower_layer_never_loosens_what_a_rule_of_a_higher_one_says(layers, query, mode, keep):
    names = ("organisation", "user", "session")
    all_of_them = Policy(tuple(Layer(name, rules) for name, rules in zip(names, layers, strict=True)))
    higher = Policy(all_of_them.layers[:keep])
    for act, before in zip(query.acts, higher.decide(query, mode).verdicts, strict=False):
        after = all_of_them.decide(dataclasses.replace(query, acts=(act,), doubts=()), mode).verdicts[0]
        if before.by == "policy" and before.effect != "allow":
            assert ORDER[after.effect] >= ORDER[before.effect]


@given(LAYER_RULES, LAYER_RULES, TIGHT.map(tuple), QUERIES, st.sampled_from(MODES))
def test_h3_a_project_can_only_tighten(organisation, user, project, query, mode):
    without = Policy((Layer("organisation", organisation), Layer("user", user)))
    with_it = Policy((*without.layers, Layer("project", project)))
    assert ORDER[with_it.decide(query, mode).effect] >= ORDER[without.decide(query, mode).effect]


@given(st.lists(RULES, max_size=6), QUERIES, st.sampled_from(MODES), st.randoms())
def test_t4_the_order_of_rules_does_not_matter(rules, query, mode, random):
    first = Policy((Layer("user", tuple(rules)),)).decide(query, mode).effect
    random.shuffle(rules)
    assert Policy((Layer("user", tuple(rules)),)).decide(query, mode).effect == first


def test_h3_a_project_file_that_allows_is_refused_with_its_line():
    text = '[[rules]]\neffect = "allow"\ntool = "bash"\nargv = ["make"]\nwhy = "trust me"\n'
    with pytest.raises(ConfigurationError) as caught:
        parse_layer(text, "project", "policy.toml")
    assert str(caught.value).startswith("policy.toml:2:")
    assert "rules[0].effect: a project's file can only tighten" in str(caught.value)
    assert parse_layer(text, "user").rules[0].effect == "allow"
    with pytest.raises(ValueError, match="can only tighten"):
        Layer("project", (rule("allow", argv=("make",)),))


def test_an_example_that_fails_refuses_the_file_with_line_and_key():
    text = """
[[rules]]
effect = "allow"
tool = "bash"
argv = ["git", "status"]
why = "reading"
match = [
  "git status",
  "git push",
]
not_match = ["git status --short"]
"""
    with pytest.raises(ConfigurationError) as caught:
        parse_layer(text, "user", "p.toml")
    lines = str(caught.value).split("\n")
    assert [line.partition(": ")[0].rpartition(":")[0] for line in lines] == ["p.toml:9", "p.toml:11"]
    assert "rules[0].match[1]: the rule does not match this example" in lines[0]
    assert "rules[0].not_match[0]: the rule matches this example and must not" in lines[1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "x"),
        ('[[rules]]\neffect = "maybe"\ntool = "bash"\nwhy = "x"', "rules[0].effect"),
        ('[[rules]]\neffect = "deny"\ntool = "bash"', "rules[0].why"),
        ('[[rules]]\neffect = "deny"\ntool = "bash"\nwhy = " "', "rules[0].why: is empty"),
        ('[[rules]]\neffect = "deny"\ntool = "bash"\nwhy = "x"\nargv = []', "rules[0].argv: is empty"),
        (
            '[[rules]]\neffect = "deny"\ntool = "b"\nwhy = "x"\nargv = ["a"]\npath = "b"',
            "rules[0].path: a rule is about one",
        ),
        ("[[rules]", "no TOML"),
        ("version = 2", "version: is not known"),
        ('modes = ["bold"]', "modes"),
    ],
)
def test_a_wrong_file_is_refused_with_its_key(text, words):
    with pytest.raises(ConfigurationError) as caught:
        parse_layer(text, "user", "p.toml")
    assert words in str(caught.value)
    assert str(caught.value).startswith("p.toml:")


def test_the_files_of_all_layers_are_one_policy(tmp_path):
    (tmp_path / "config/headrace").mkdir(parents=True)
    (tmp_path / "config/headrace/policy.toml").write_text('[[rules]]\neffect = "allow"\ntool = "*"\nwhy = "mine"')
    (tmp_path / "project/.headrace").mkdir(parents=True)
    (tmp_path / "project/.headrace/policy.toml").write_text(
        '[[rules]]\neffect = "deny"\ntool = "bash"\nwhy = "no shell"'
    )
    files = find_files(tmp_path / "project", {"XDG_CONFIG_HOME": str(tmp_path / "config")})
    assert {"user", "project"} <= set(files) <= {"organisation", "user", "project"}
    policy = load_policy({name: files[name] for name in ("user", "project")})
    assert policy.decide(bash("ls")).rule == "project:1"
    assert policy.decide(write("x")).effect == "allow"
    assert load_policy({}).hash != policy.hash
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_policy({"user": tmp_path / "nowhere.toml"})


@pytest.mark.parametrize(
    ("mode", "read", "edit", "run", "fetch"),
    [
        ("plan", "allow", "deny", "deny", "ask"),
        ("default", "allow", "ask", "ask", "ask"),
        ("accept-edits", "allow", "allow", "ask", "ask"),
        ("auto", "allow", "allow", "allow", "ask"),
        ("headless", "allow", "deny", "deny", "deny"),
        ("danger-bypass", "allow", "allow", "allow", "allow"),
    ],
)
def test_each_mode_without_rules(mode, read, edit, run, fetch):
    policy = Policy()
    reading = Query(tool="read_file", acts=(Open("/project/a", "read"),), root=ROOT, tier="A")
    assert policy.decide(reading, mode).effect == read
    assert policy.decide(write("a"), mode).effect == edit
    assert policy.decide(bash("make"), mode).effect == run
    assert (
        policy.decide(Query(tool="web_fetch", acts=(Connect("x.example"),), root=ROOT, tier="A"), mode).effect == fetch
    )


def test_auto_is_for_the_sandboxed_only():
    assert Policy().decide(bash("make", "B"), "auto").effect == "allow"
    assert Policy().decide(bash("make", "C"), "auto").effect == "ask"
    assert Policy().decide(write("a", "C"), "auto").effect == "ask"
    assert Policy().decide(bash("cat /etc/passwd", "C"), "auto").effect == "ask"


def test_without_a_sandbox_a_rule_that_allows_is_asked_about():
    policy = Policy((Layer("user", (rule("allow", argv=("make",)),)),))
    assert policy.decide(bash("make", "A")).effect == "allow"
    decision = policy.decide(bash("make", "C"))
    assert (decision.effect, decision.why, decision.rule_may_answer) == ("ask", "there is no sandbox to hold it", False)


def test_danger_bypass_obeys_deny_and_keeps_secrets():
    policy = Policy((Layer("user", (rule("deny", argv=("make",)), rule("ask", argv=("ls",)))),))
    assert policy.decide(bash("make"), "danger-bypass").effect == "deny"
    assert policy.decide(bash("ls"), "danger-bypass").effect == "allow"
    assert policy.decide(bash("cat .env"), "danger-bypass").effect == "deny"
    allowed = Policy(
        (Layer("user", (rule("allow", tool="*", path="**"), rule("allow", tool="*"))),),
    )
    assert allowed.decide(bash("cat .env")).effect == "deny"


def test_a_layer_can_close_modes():
    policy = Policy((Layer("organisation", modes=("plan", "default")), Layer("user", modes=None)))
    assert policy.decide(bash("true"), "danger-bypass").effect == "deny"
    assert policy.decide(bash("true"), "default").effect == "allow"


def test_what_forbids_a_file_forbids_it_to_the_shell():
    policy = Policy(
        (Layer("user", (rule("deny", tool="read_file", path="notes/**"), rule("deny", tool="edit", path="made/**"))),)
    )
    assert policy.decide(bash("cat notes/a", "A"), "auto").effect == "deny"
    assert policy.decide(bash("sed -i s/a/b/ made/a", "A"), "auto").effect == "ask"
    assert policy.decide(bash("echo x > made/a", "A"), "auto").effect == "deny"
    assert policy.decide(bash("cat other/a", "A"), "auto").effect == "allow"


@pytest.mark.parametrize(
    ("glob", "path", "hits"),
    [
        ("src/**", "src/a/b.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a/b.py", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**", "a/b", True),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("[!a]b", "cb", True),
        ("[!a]b", "ab", False),
        ("*.{py,rs}", "a.rs", True),
        ("a.b", "axb", False),
    ],
)
def test_globs_of_paths(glob, path, hits):
    assert bool(glob_pattern(glob).fullmatch(path)) == hits


def test_hosts_are_compared_without_case_and_with_their_subdomains():
    one = rule("deny", tool="web_fetch", host="*.Example.com")
    assert matches(one, "https://www.EXAMPLE.com/x")
    assert matches(one, "example.com.")
    assert not matches(one, "https://example.com.evil.net")


NOW = 1_000_000


def answered(policy, query, scope="session", /, **changes):
    """Whether a grant for one call answers for another."""
    grants = Grants()
    grants.give(scope, digest="d1", cwd=ROOT, policy=policy, query=query, now_ms=NOW)
    facts = {"digest": "d1", "cwd": ROOT, "policy": policy, "query": query, "now_ms": NOW + 1, **changes}
    decision = facts["policy"].decide(facts["query"], "default")
    return grants.find(decision, **facts) is not None


def test_a_grant_binds_digest_directory_policy_and_expiry():
    policy = Policy()
    assert answered(policy, bash("make"))
    assert not answered(policy, bash("make"), digest="d2")
    assert not answered(policy, bash("make"), cwd="/project/other")
    assert not answered(policy, bash("make"), policy=Policy((Layer("user", (rule("ask", argv=("ls",)),)),)))
    assert not answered(policy, bash("make"), now_ms=NOW + LIFE_MS)
    assert not answered(policy, bash("make"), "once")


def test_a_grant_never_lifts_a_denial():
    policy = Policy((Layer("user", (rule("deny", argv=("make",)),)),))
    assert not answered(policy, bash("make"))
    assert not answered(policy, bash("make"), "rule")


def test_a_grant_by_rule_covers_the_same_words_and_no_others():
    policy = Policy()
    assert answered(policy, bash("make test"), "rule", digest="other")
    assert answered(policy, bash("make test"), "rule", digest="other", query=bash("make test && echo done"))
    assert not answered(policy, bash("make test"), "rule", digest="other", query=bash("make install"))
    assert not answered(policy, bash("make test"), "rule", digest="other", query=bash("make test; rm x"))
    assert not answered(policy, bash("make test", "C"), "rule", digest="other")
    asked = Policy((Layer("user", (rule("ask", argv=("make",)),)),))
    assert not answered(asked, bash("make test"), "rule", digest="other")
    assert answered(policy, write("a*b"), "rule", query=write("a*b"))
    assert not answered(policy, write("a*b"), "rule", digest="other", query=write("axb"))


def test_rules_made_of_a_question_say_no_more_than_it():
    assert rules_for(bash("make test")) == (GrantedRule(tool="bash", argv=("make", "test")),)
    assert rules_for(Query(tool="plug.in", acts=(Other("write"),))) == (GrantedRule(tool="plug.in"),)


def test_grants_of_a_log_are_taken_if_they_still_hold():
    policy, grants = Policy(), Grants()
    kept = Grant(intent_digest="d", cwd=ROOT, policy=policy.hash, expires_ms=NOW + 5, scope="session")
    old = dataclasses.replace(kept, intent_digest="e", expires_ms=NOW)
    other = dataclasses.replace(kept, intent_digest="f", policy="another")
    by_rule = dataclasses.replace(kept, intent_digest="", scope="rule")
    once = dataclasses.replace(kept, intent_digest="g", scope="once")
    assert grants.restore([kept, old, other, by_rule, once], policy.hash, NOW) == 3
    question = policy.decide(bash("make"))
    facts = {"cwd": ROOT, "policy": policy, "query": bash("make"), "now_ms": NOW}
    assert grants.find(question, digest="d", **facts) == kept
    assert grants.find(question, digest="g", **facts) is None


def test_t4_a_grant_by_rule_of_a_log_allows_what_it_allowed_and_no_longer():
    policy, given = Policy(), Grants()
    grant = given.give("rule", digest="d", cwd=ROOT, policy=policy, query=bash("make test"), now_ms=NOW)
    read_back = Grant.from_dict(json.loads(json.dumps(grant.to_dict())))
    assert read_back == grant

    def found(taken, query, now_ms=NOW + 1, policy=policy):
        decision = policy.decide(query)
        return taken.find(decision, digest="other", cwd=ROOT, policy=policy, query=query, now_ms=now_ms)

    taken = Grants()
    assert taken.restore([grant, read_back], policy.hash, NOW + 1) == 0
    assert found(taken, bash("make test")) == grant
    assert found(taken, bash("make install")) is None
    assert found(taken, bash("make test"), NOW + LIFE_MS) is None
    denies = Policy((Layer("user", (rule("deny", argv=("make",)),)),))
    assert found(taken, bash("make test"), policy=denies) is None
    longer = dataclasses.replace(grant, expires_ms=NOW + LIFE_MS + 1)
    without = dataclasses.replace(grant, rules=())
    nothing = Grants()
    assert nothing.restore([longer, without], policy.hash, NOW) == 2
    assert found(nothing, bash("make test")) is None


def test_a_word_of_a_command_allows_nothing():
    only_path = Policy((Layer("user", (rule("allow", tool="bash", path="**"),)),))
    assert only_path.decide(bash("make src/a")).effect == "ask"
    outside = Query(tool="bash", acts=(Mention("/etc/x", inside=False),), root=ROOT, tier="A")
    assert Policy((Layer("user", (rule("allow", tool="bash", path="/etc/**"),)),)).decide(outside).effect == "ask"


def test_layers_have_one_order():
    with pytest.raises(ValueError, match="layers stand once each"):
        Policy((Layer("session"), Layer("user")))
    assert [layer.name for layer in Policy((Layer("session"),)).with_layer(Layer("user")).layers] == ["user", "session"]
    assert LAYERS == ("organisation", "user", "project", "session")


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".git/config", ".headrace/policy.toml", "a/.git/hooks/x"])
def test_what_runs_by_itself_is_written_only_if_somebody_says_so(path):
    for mode in ("default", "accept-edits", "auto"):
        assert Policy().decide(write(path), mode).effect == "ask"
        assert Policy().decide(bash(f"echo x > {path}"), mode).effect == "ask"
    assert Policy().decide(write(path), "headless").effect == "deny"
    assert Policy().decide(write(".github/README.md"), "accept-edits").effect == "allow"
    assert Policy().decide(write(".gitignore"), "accept-edits").effect == "allow"
