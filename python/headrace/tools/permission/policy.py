"""The policy: rules in layers, a mode, and one decision for each question.

1. Deny beats ask beats allow, over all layers together. So no lower layer can loosen what a higher one says, and a
   project's own file, which may come with a cloned repository, holds no allowance at all: it can only tighten.
2. Each act of a call is decided by itself and the strictest decides the call; a doubt asks.
3. A rule's word comes before the mode's. The mode says what happens to acts that no rule names, and what asking means
   where nobody can be asked.
4. Files that hold secrets are denied, and without a sandbox nothing is executed unasked, whatever the rules say.
5. Pure: the same policy, mode and question give the same decision, with the same reasons in the same order.

Never here: reading files (`load.py`), asking, grants (`grants.py`).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from headrace.tools.permission.acts import Act, ActKind, Connect, Mention, Open, Query, Run

if TYPE_CHECKING:
    from headrace.tools.permission.rules import Effect, Rule
from headrace.tools.permission.special_files import is_guarded

__all__ = ["LAYERS", "MODES", "Decision", "Layer", "Mode", "Policy", "Verdict", "strictest"]

Mode: TypeAlias = Literal["plan", "default", "accept-edits", "auto", "headless", "danger-bypass"]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
LayerName: TypeAlias = Literal["organisation", "user", "project", "session"]
LAYERS: Final[tuple[LayerName, ...]] = get_args(LayerName)
By: TypeAlias = Literal["policy", "mode", "default"]

ORDER: Final[dict[str, int]] = {"allow": 0, "ask": 1, "deny": 2}
POLICY_VERSION: Final = 1
"""Of the meaning of rules: a grant that was given under another reading does not hold."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided of one act, and by what. `rule` is `LAYER:NUMBER`, counted from 1."""

    effect: Effect
    by: By
    rule: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """What was decided of a call: the strictest of its verdicts, and all of them in the order of the acts."""

    effect: Effect
    by: By
    rule: str = ""
    why: str = ""
    verdicts: tuple[Verdict, ...] = ()
    rule_may_answer: bool = False
    """Whether an allowance for all calls of this kind can answer the question: nothing but the default asks."""


@dataclass(frozen=True, slots=True)
class Layer:
    """The rules of one layer. `modes`: the only ones that may be used; None: all."""

    name: LayerName
    rules: tuple[Rule, ...] = ()
    modes: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.name == "project" and any(rule.effect == "allow" for rule in self.rules):
            raise ValueError("a project's file can only tighten: it may not allow")


@dataclass(frozen=True, slots=True)
class Policy:
    """All layers. `home`: what `~` in a rule's path stands for."""

    layers: tuple[Layer, ...] = ()
    home: str | None = None
    hash: str = field(init=False, default="")

    def __post_init__(self) -> None:
        order = [LAYERS.index(layer.name) for layer in self.layers]
        if order != sorted(set(order)):
            raise ValueError(f"layers stand once each, in the order {', '.join(LAYERS)}")
        plain = [POLICY_VERSION, self.home, [asdict(layer) for layer in self.layers]]
        digest = hashlib.sha256(json.dumps(plain, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
        object.__setattr__(self, "hash", digest)

    def allows_mode(self, mode: Mode) -> bool:
        """Tell whether every layer lets a mode be used."""
        return all(layer.modes is None or mode in layer.modes for layer in self.layers)

    def with_layer(self, layer: Layer) -> Policy:
        """Give this policy with one layer put in, or in the place of the one of its name."""
        others = [one for one in self.layers if one.name != layer.name]
        return replace(self, layers=tuple(sorted((*others, layer), key=lambda one: LAYERS.index(one.name))))

    def decide(self, query: Query, mode: Mode = "default") -> Decision:
        """Decide a question."""
        if not self.allows_mode(mode):
            return Decision("deny", "mode", "", f"the policy does not let the mode {mode} be used")
        verdicts = [self._verdict(query, act, mode) for act in query.acts]
        doubts = [_doubt(why, mode) for why in (*query.doubts, *_doubts(query))]
        if mode == "auto" and query.tier in SANDBOXED:
            doubts = []  # whatever it turns out to do, it does it inside
        told = (*verdicts, *doubts)
        if not told:
            told = (Verdict("allow", "default", "", "it touches nothing"),)
        worst = strictest(told)
        simple = all(one.effect == "allow" or (one.by == "default" and not one.rule) for one in told)
        answerable = worst.effect == "ask" and simple and not doubts and query.tier != "C"
        decision = Decision(worst.effect, worst.by, worst.rule, worst.why, told, answerable)
        return _in_mode(decision, mode)

    def _verdict(self, query: Query, act: Act, mode: Mode) -> Verdict:
        found = [
            Verdict(word, "policy", f"{layer.name}:{number}", rule.why)
            for layer in self.layers
            for number, rule in enumerate(layer.rules, 1)
            if (word := rule.says(query.tool, act, query.root, self.home)) is not None
        ]
        ruled = strictest(found) if found else None
        if ruled is not None and ruled.effect == "deny":
            return ruled
        fixed = _fixed(query, act, mode)
        if fixed is not None and (ruled is None or ORDER[fixed.effect] > ORDER[ruled.effect]):
            return fixed
        return ruled if ruled is not None else _unruled(query, act, mode)


def _fixed(query: Query, act: Act, mode: Mode) -> Verdict | None:
    """Say what no rule can loosen."""
    if isinstance(act, (Open, Mention)) and act.secret:
        return Verdict("deny", "default", "", f"{act.path.rpartition('/')[2]} is a file that holds secrets")
    if mode == "plan" and act.kind in ("write", "execute"):
        return Verdict("deny", "mode", "", "the mode plan reads and changes nothing")
    if isinstance(act, Run) and query.tier == "C" and mode != "danger-bypass":
        return Verdict("ask", "default", "", "there is no sandbox to hold it")
    return None


def _doubts(query: Query) -> list[str]:
    return [why for act in query.acts if isinstance(act, Run) for why in act.command.doubts]


def _doubt(why: str, mode: Mode) -> Verdict:
    return (
        Verdict("deny", "mode", "", f"the mode plan lets nothing run: {why}")
        if mode == "plan"
        else Verdict("ask", "default", "", why)
    )


SANDBOXED: Final = frozenset({"A", "B"})


def strictest(verdicts: list[Verdict] | tuple[Verdict, ...]) -> Verdict:
    """Take the strictest; of several, the first, so that reasons do not change by themselves."""
    return max(verdicts, key=lambda one: ORDER[one.effect])


def _unruled(query: Query, act: Act, mode: Mode) -> Verdict:
    """Decide an act that no rule names."""
    held = mode == "auto" and query.tier in SANDBOXED
    special = _special(query, act, held=held)
    if special is not None:
        return special
    untouching = isinstance(act, Run) and act.command.neutral
    mentioned = isinstance(act, Connect) and not act.certain
    if untouching or mentioned or act.kind in ("read", "none"):
        return Verdict("allow", "default", "", "it changes nothing")
    if act.kind == "write" and mode == "accept-edits":
        return Verdict("allow", "mode", "", "the mode accept-edits lets files be written")
    if act.kind in ("write", "execute") and held:
        return Verdict("allow", "mode", "", "the mode auto lets run what a sandbox holds")
    return Verdict("ask", "default", "", _ASKS[act.kind])


def _special(query: Query, act: Act, *, held: bool) -> Verdict | None:
    """Decide an act on a file that is not like others: one that something runs by, one outside."""
    if isinstance(act, Open) and act.kind == "write" and is_guarded(act.path, query.root):
        return Verdict("ask", "default", "", f"something runs by {act.path}")
    if isinstance(act, (Open, Mention)) and not act.inside:
        if held:
            return Verdict("allow", "mode", "", "the sandbox holds it")
        return Verdict("ask", "default", "", f"{act.path} is outside the workspace")
    return None


_ASKS: Final[dict[ActKind, str]] = {
    "write": "no rule lets it write",
    "execute": "no rule lets it run",
    "network": "no rule lets it reach the network",
}


def _in_mode(decision: Decision, mode: Mode) -> Decision:
    """Say what asking means in this mode."""
    if decision.effect == "ask" and mode == "headless":
        return replace(decision, effect="deny", by="mode", why=f"nobody is there to be asked: {decision.why}")
    if decision.effect == "ask" and mode == "danger-bypass":
        return replace(decision, effect="allow", by="mode", why="the mode danger-bypass asks nobody")
    return decision
