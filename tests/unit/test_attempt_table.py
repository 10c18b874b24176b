"""The table of attempts: each row with every strategy and with and without affinity, and a sample over real sockets."""

import itertools
import pathlib
import tomllib

import pytest
from support.control import failure

from headrace.attempts import CredentialAttempts
from headrace.codes import ErrorKind
from headrace.config import parse
from headrace.credentials import STRATEGIES, Credential, Pool
from headrace.messages import Message, ModelRequest
from headrace.plugins import bearer
from headrace.registry import Registry
from headrace.requests import AttemptSpec, PreparedRequest, Refusal, Secret
from headrace.runtime import SyncRuntime
from headrace.testing import Reply, Upstream

NOW = 1_000_000.0
TABLE = tomllib.loads((pathlib.Path(__file__).parent.parent / "tables/attempts.toml").read_text(encoding="utf-8"))
ROWS = TABLE["failure"]
ORDERS = TABLE["order"]
NAMES = [row["name"] for row in ROWS]
HELD = "talk"


def pool(size, strategy, *, affinity):
    members = [Credential(f"c{at}", Secret(f"sk-{at}")) for at in range(size)]
    return Pool("acme", members, strategy=strategy, affinity=affinity)


def run(members, error):
    """Let every attempt fail in one way; give the members in the order of their attempts, and the answer."""
    facts = dict(error)
    kind = facts.pop("kind")
    headers = tuple(map(tuple, facts.pop("headers", ())))
    attempts = CredentialAttempts(
        pool=members, model="m", authorize=bearer, started=NOW, conversation=HELD, dead_codes={"gone"}
    )
    assert attempts.choose(now=NOW, random=lambda: 0.5) is None
    prepared = PreparedRequest(url="https://acme.example/v1", headers=(), body=b"", protocol="openai_chat")
    step, used = attempts.begin(prepared, now=NOW), []
    while isinstance(step, AttemptSpec):
        assert step.provider == "acme"
        assert step.attempt == len(used) + 1
        used.append(attempts.credential)
        told = failure(kind, attempt=step.attempt, headers=headers, **facts)
        step = attempts.next(told, now=NOW, random=lambda: 0.5)
    assert isinstance(step, Refusal)
    return used, step


@pytest.mark.parametrize("affinity", [True, False])
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_a_failure_marks_and_ends_as_the_table_says(row, strategy, affinity):
    for size, (count, answer) in row["pools"].items():
        members = pool(int(size), strategy, affinity=affinity)
        used, step = run(members, row["error"])
        assert len(used) == count, (size, used)
        marked = {one.id: str(one.status) for one in members.members("m", NOW) if str(one.status) != "ready"}
        expected = {} if row["mark"] == "none" else dict.fromkeys(filter(None, used), row["mark"])
        assert marked == expected, size
        if answer == "failure":
            assert step.error.kind == row["error"]["kind"]
        else:
            code = {"429": "credential_pool_exhausted", "502": "upstream_response_failed"}[answer]
            assert (step.status, step.code, step.error) == (int(answer), code, None), size
        if answer == "429" and "retry_in" in row:
            assert step.retry_at == NOW + row["retry_in"]


@pytest.mark.parametrize(
    "row", ORDERS, ids=[f"{row['strategy']}-{row['size']}-{row.get('held', 'free')}" for row in ORDERS]
)
def test_members_are_tried_in_the_order_of_the_table(row):
    free = next(
        one for one in ORDERS if "held" not in one and (one["strategy"], one["size"]) == (row["strategy"], row["size"])
    )
    for affinity in (True, False):
        members = pool(row["size"], row["strategy"], affinity=affinity)
        if "held" in row:
            members.remember(HELD, f"c{row['held']}")
        used, _ = run(members, {"kind": "auth", "status": 401})
        assert used == [f"c{at}" for at in (row if affinity else free)["order"]]


def test_the_table_has_every_kind_every_size_and_every_strategy():
    kinds = {row["error"]["kind"] for row in ROWS}
    assert kinds == set(ErrorKind.__args__)
    assert all(set(row["pools"]) == {"0", "1", "2", "5"} for row in ROWS)
    assert {(row["strategy"], row["size"], "held" in row) for row in ORDERS} == set(
        itertools.product(STRATEGIES, (2, 5), (True, False))
    )


WIRED = [row for row in ROWS if "wire" in row]


@pytest.mark.parametrize("size", [0, 1, 2])
@pytest.mark.parametrize("row", WIRED, ids=[row["name"] for row in WIRED])
def test_the_same_over_sockets(row, size, tmp_path):
    wire = row["wire"]
    body = {"error": {"message": "no", "type": "t", "code": None}}
    reply = Reply.json(body, status=wire["status"], headers=tuple(map(tuple, wire.get("headers", ()))))
    with Upstream(reply) as far:
        text = f'[[providers]]\nid = "acme"\nkind = "openai_compatible"\nbase_url = "{far.url}/v1"\n'
        for at in range(size):
            text += f'[[providers.credentials]]\nid = "c{at}"\nsecret = "env:K{at}"\n'
        environ = {f"K{at}": f"sk-up-{at}" for at in range(size)}
        config = parse(text, name="c", folder=tmp_path, environ=environ, checks=(Registry(tuple).check,))
        with SyncRuntime(config) as runtime:
            with runtime.stream(ModelRequest("acme/m", (Message.user("hi"),))) as stream:
                (last,) = list(stream)
            facts = far.facts()
        count, answer = row["pools"][str(size)]
        # With real luck a backoff may be longer than a mark, and a second round follows.
        again = row["mark"] == "cooling" and size > 1 and not wire.get("headers")
        assert count <= len(facts.requests) <= (2 * count if again else count)
        assert last.kind == ("unknown" if answer == "502" and wire["status"] < 400 else row["error"]["kind"])
        seen = [dict(one.headers).get("authorization") for one in facts.requests]
        assert set(seen) == ({f"Bearer sk-up-{at}" for at in range(min(size, count))} or {None})
