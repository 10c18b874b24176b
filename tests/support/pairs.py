"""What a client of one protocol has to see of a provider's answer in another, and what is known to differ."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.conftest import ROOT
from tests.support.cases import Case
from tests.support.clients import Outcome

FILE = ROOT / "tests" / "server" / "pair_exceptions.json"
TEXTS = ("text", "refusal", "reasoning")
FIELDS = (*TEXTS, "calls", "usage", "finish")


@dataclass(frozen=True)
class Exceptions:
    """What is known to differ, and why."""

    rules: list[dict[str, Any]]
    """What no client of a protocol can be shown, wherever the gateway encodes the answer."""
    files: dict[tuple[str, str, str], dict[str, Any]]
    """(file, client, way) -> field -> what this client shows."""

    @classmethod
    def load(cls) -> Exceptions:
        read = json.loads(FILE.read_text(encoding="utf-8"))
        files: dict[tuple[str, str, str], dict[str, Any]] = {}
        for row in read["files"]:
            assert set(row) == {"file", "clients", "ways", "field", "shows", "reason"}, row
            for client in row["clients"]:
                for way in row["ways"]:
                    fields = files.setdefault((row["file"], client, way), {})
                    assert row["field"] not in fields, f"twice: {row}"
                    fields[row["field"]] = row["shows"]
        assert all(len(row["reason"]) > 20 for row in read["rules"] + read["files"])
        return cls(read["rules"], files)

    def expected(self, case: Case, client: str, way: str) -> Outcome:
        """What this client has to see of a case."""
        native = client == case.protocol
        return self.told(client, case.direct, native=native) if is_encoded(case, client, way) else case.direct

    def told(self, client: str, outcome: Outcome, *, native: bool = False) -> Outcome:
        """What a client of this protocol can be told of an answer. `native`: which its own protocol gave."""
        outcome = dict(outcome)
        for rule in self.rules:
            if client in rule["clients"] and not (native and rule.get("foreign")):
                apply(rule, outcome)
        return outcome


def is_encoded(case: Case, client: str, way: str) -> bool:
    """Whether the gateway encodes this answer, and does not pass its bytes."""
    return client != case.provider or case.is_stream != (way != "whole")


def apply(rule: dict[str, Any], outcome: Outcome) -> None:
    """Change what a client's protocol has no other place for."""
    field = rule["field"]
    value = outcome.get(field)
    match rule:
        case {"from": before, "becomes": becomes}:
            fits = all(bool(outcome[name]) is wanted for name, wanted in rule.get("where", {}).items())
            if value == before and fits:
                outcome[field] = becomes
        case {"joins": joins}:
            outcome[joins] += value
            outcome[field] = ""
        case {"unknown": known, "at": at}:
            if value or rule.get("always"):
                outcome[field] = [known if i in at and n is None else n for i, n in enumerate(value or [None] * 4)]
        case {"wraps": key}:
            outcome[field] = [[name, {key: given} if isinstance(given, str) else given] for name, given in value or []]
        case _:
            raise AssertionError(rule)


def same_calls(want: Outcome, got: Outcome) -> bool:
    """Whether the calls are those that are wanted. One that was cut may stand there as the client's protocol tells it:
    the finish says that it is none."""
    told = iter(got["calls"])
    return all(call in told for call in want["calls"]) and len(got["calls"]) - len(want["calls"]) <= want["cut"]
