"""The payload of every event type of the log: who proposed, recorded, allowed, ran, observed, and what the model saw.

    run                run.started run.paused run.resumed run.forked run.finished budget.exceeded verification.recorded
    conversation       user.message context.projected context.compacted
    model              model.requested model.attempt.started model.attempt.finished model.fallback, then the model's own
                       events, in `headrace.log.model_payloads`
    tools              tool_intent.proposed tool.validated hook.decided permission.requested permission.decided
                       tool.execution.started tool.execution.finished tool.execution.in_doubt tool.observed
    the log itself     log.sealed

1. An intent, its validation, a permission, an execution and an observation are five facts, and five classes.
2. Nothing here is a secret: what a payload holds was redacted by whoever made it.
3. Names and meanings are for ever; see `headrace.log._payload` for how a class may grow.
4. `*_ms` is whole milliseconds (an instant: since the Unix epoch), `*_micros` whole millionths of the currency,
   `digest`-like fields are lower-case hexadecimal SHA-256.

Behaviour, I/O and a provider's field names must not be added here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from headrace.codes import CallKind
from headrace.log._payload import CLASSES, Payload, PayloadError, Value, decode, register
from headrace.log.model_payloads import (
    ModelAnnotated,
    ModelAttemptFinished,
    ModelAttemptStarted,
    ModelContinued,
    ModelEnded,
    ModelFailed,
    ModelFellBack,
    ModelHostedTool,
    ModelMedia,
    ModelReasoned,
    ModelRefused,
    ModelRequested,
    ModelSpoke,
    ModelStarted,
    ModelUsed,
)

__all__ = [
    "CLASSES",
    "Answer",
    "Argv",
    "ArtifactRef",
    "AssembledFrom",
    "Budget",
    "BudgetExceeded",
    "ContextCompacted",
    "ContextProjected",
    "Effect",
    "ExecutionFinished",
    "ExecutionInDoubt",
    "ExecutionStarted",
    "FileChange",
    "Grant",
    "GrantedRule",
    "HookDecided",
    "LedgerEntry",
    "Limits",
    "LogSealed",
    "ModelAnnotated",
    "ModelAttemptFinished",
    "ModelAttemptStarted",
    "ModelContinued",
    "ModelEnded",
    "ModelFailed",
    "ModelFellBack",
    "ModelHostedTool",
    "ModelMedia",
    "ModelReasoned",
    "ModelRefused",
    "ModelRequested",
    "ModelSpoke",
    "ModelStarted",
    "ModelUsed",
    "ObservationCode",
    "Payload",
    "PayloadError",
    "PermissionAnswer",
    "PermissionDecided",
    "PermissionRequested",
    "Phase",
    "RunFinished",
    "RunForked",
    "RunPaused",
    "RunResumed",
    "RunStarted",
    "ToolIntent",
    "ToolObserved",
    "ToolValidated",
    "UserMessage",
    "Value",
    "VerificationRecorded",
    "decode",
]

Argv: TypeAlias = tuple[str, ...]
Answer: TypeAlias = Literal["allow", "deny", "ask"]
Effect: TypeAlias = Literal["read", "write", "execute", "network", "none"]
Phase: TypeAlias = Literal[
    "lookup",
    "visible",
    "schema",
    "preconditions",
    "risk",
    "policy",
    "ask",
    "execute",
    "normalise",
    "redact",
    "budget",
    "observe",
]
"""A step of the tool pipeline (T1), in its order."""
ObservationCode: TypeAlias = Literal[
    "ok",
    "unknown_tool",
    "tool_not_visible",
    "malformed_intent",
    "schema_invalid",
    "precondition_failed",
    "permission_denied",
    "timeout",
    "cancelled",
    "tool_error",
    "in_doubt",
    "budget_exceeded",
]
"""What an observation came to (T2). After a start only `ok`, `timeout`, `cancelled`, `tool_error`, `in_doubt`."""


# --- values


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRef(Value):
    """A content that the artifacts keep. `digest` is of the content itself; `size` in bytes, uncompressed."""

    digest: str
    size: int
    media: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Value):
    """What a run may spend. None: no limit."""

    steps: int | None = None
    tokens: int | None = None
    money_micros: int | None = None
    time_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry(Value):
    """What a projection did with the events `first` to `last` (their seq), and why."""

    first: int
    last: int
    status: Literal["included", "excluded", "compacted"]
    why: str
    tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AssembledFrom(Value):
    """What an intent was put together from: a provider's frames."""

    event_count: int
    first_offset: int = 0
    last_offset: int = 0
    had_repair: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantedRule(Value):
    """What a grant by rule allows: a tool with these words first, this file, or this host. None of them: the tool."""

    tool: str
    argv: tuple[str, ...] = ()
    path: str = ""
    host: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant(Value):
    """What an allowance is bound to: it holds for this and nothing else.

    - `intent_digest`: of the tool's name and its normalised input; "" for a grant by rule.
    - `policy`: hash of the merged policy under which it was given.
    - `expires_ms`: an instant.
    - `rules`: of a grant by rule; empty where a secret stands in them: then it ends with the process.
    """

    intent_digest: str = ""
    cwd: str = ""
    policy: str = ""
    expires_ms: int | None = None
    scope: Literal["once", "session", "rule"] = "once"
    rules: tuple[GrantedRule, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits(Value):
    """What an execution may use at most. None: no limit of ours."""

    wall_ms: int | None = None
    cpu_ms: int | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = None
    processes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange(Value):
    """A file that an execution changed. A digest is absent where the file was (`before`) or is (`after`) not."""

    path: str
    before: str | None = None
    after: str | None = None
    diff: ArtifactRef | None = None


# --- the run


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Payload):
    """A run began. First event of every run, also of a fork (where it is the parent's own)."""

    type: ClassVar[str] = "run.started"

    goal: str
    model: str
    """The selector that is asked."""
    cwd: str
    instructions: str = ""
    """The system text that leads every request."""
    workspace: str | None = None
    """Hash of the workspace's content."""
    policy: str | None = None
    """Hash of the merged policy."""
    mode: str = "default"
    """The permission mode."""
    budget: Budget = Budget()
    fallbacks: tuple[str, ...] = ()
    """Selectors to go on with when a model fails for good."""
    release: str = ""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RunPaused(Payload):
    """The run stands still and may be resumed."""

    type: ClassVar[str] = "run.paused"

    reason: Literal["asked", "interrupted", "budget", "provider", "in_doubt", "stopped"]
    detail: str = ""
    workspace: str | None = None
    """Hash of the workspace's content as the run leaves it."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RunResumed(Payload):
    """A run goes on after its gate was passed: what was checked, and what was found."""

    type: ClassVar[str] = "run.resumed"

    workspace: str | None = None
    policy: str | None = None
    accepted: tuple[str, ...] = ()
    """Findings of the gate that a person accepted, by name."""
    expired_grants: int = 0
    budget: Budget | None = None
    """A new budget, where one was given."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RunForked(Payload):
    """What stands before this event was copied from `from_run` up to `from_seq`, whose chain was `from_chain`."""

    type: ClassVar[str] = "run.forked"

    from_run: str
    from_seq: int
    from_chain: str
    why: str = ""
    model: str | None = None
    """Another selector, to go on with."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Payload):
    """The run is over.

    - `outcome`: `completed` is the model's word for it, `verified` has a passed verification to show.
    """

    type: ClassVar[str] = "run.finished"

    outcome: Literal["completed", "verified", "failed", "stopped", "budget_exceeded"]
    reason: str = ""
    text: str = ""
    verification_seq: int | None = None
    workspace: str | None = None
    """Hash of the workspace's content as the run leaves it."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetExceeded(Payload):
    """A budget is used up; the step that would have gone over it was not begun."""

    type: ClassVar[str] = "budget.exceeded"

    which: Literal["steps", "tokens", "money", "time"]
    limit: int
    used: int


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationRecorded(Payload):
    """Something that was claimed was checked."""

    type: ClassVar[str] = "verification.recorded"

    claim: str
    method: Literal["command", "tool", "person"]
    passed: bool
    detail: str = ""
    intent_id: str | None = None
    execution_id: str | None = None


# --- the conversation


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class UserMessage(Payload):
    """Somebody said something. `steering`: while the run was under way."""

    type: ClassVar[str] = "user.message"

    text: str
    kind: Literal["task", "reply", "steering"] = "task"
    attachments: tuple[ArtifactRef, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextProjected(Payload):
    """The log was projected to a request: what went in, what stayed out, why, and what it weighs.

    - `base`: seq of the projection whose ledger this one continues; 0: this ledger is whole. The last entry of the
      one before is said again, as it may have grown.
    - `request`: digest of what the request tells: model and messages.
    - `family`, `provider`: whose state (continuations) went back; None: nobody's.
    """

    type: ClassVar[str] = "context.projected"

    turn_id: str
    upto: int
    """The last seq that was read."""
    ledger: tuple[LedgerEntry, ...]
    request: str
    messages: int
    tokens: int
    model: str = ""
    family: str | None = None
    provider: str | None = None
    base: int = 0
    estimator: str = ""
    """How tokens were counted."""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCompacted(Payload):
    """The events `first` to `last` are told to models by `summary` from now on. Nothing is overwritten.

    - `replaced`: the seq of every event that the summary stands for; `chain`: the chain's hash at `last`.
    - `by`: the selector of the model that wrote it, or `rule`.
    """

    type: ClassVar[str] = "context.compacted"

    first: int
    last: int
    replaced: tuple[int, ...]
    chain: str
    summary: str
    by: str
    tokens_before: int
    tokens_after: int


# --- tools


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolIntent(Payload):
    """A model wants a tool to be run. It counts only once its response has finished.

    - `intent_id`: ours; `provider_call_id` is a reference and names nothing by itself.
    - `raw_input_text`: as the model wrote it: a JSON object for a function, any text for a custom tool.
    - `tool_version`: of the tool on the menu of that request; None where the menu has no such tool.
    """

    type: ClassVar[str] = "tool_intent.proposed"

    turn_id: str
    intent_id: str
    tool_name: str
    raw_input_text: str
    call: int = 0
    kind: CallKind = "function"
    provider_call_id: str | None = None
    tool_version: str | None = None
    assembled_from: AssembledFrom | None = None
    provider: str | None = None
    model: str | None = None
    request_id: str | None = None

    @property
    def input(self) -> Any:
        """The input as data: a dict for a function, the text for a custom tool.

        - Raises `ValueError`: a function's input is not JSON (a log that was made by hand).
        """
        if self.kind == "custom":
            return self.raw_input_text
        import orjson

        return orjson.loads(self.raw_input_text)


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolValidated(Payload):
    """An intent was looked up, checked against its schema and preconditions, and brought into normal form.

    - `normalised`: JSON text of the input that will be run, beside the raw one in the intent.
    - `intent_digest`: of the tool's name and `normalised`: what a grant binds.
    """

    type: ClassVar[str] = "tool.validated"

    intent_id: str
    ok: bool
    phase: Phase
    code: ObservationCode = "ok"
    message: str = ""
    normalised: str = ""
    intent_digest: str = ""
    tool_version: str | None = None
    effects: tuple[Effect, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class HookDecided(Payload):
    """A hook was asked about an intent."""

    type: ClassVar[str] = "hook.decided"

    intent_id: str
    hook: str
    decision: Answer
    reason: str = ""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionRequested(Payload):
    """Somebody has to be asked before an intent is run: everything that the card shows."""

    type: ClassVar[str] = "permission.requested"

    intent_id: str
    tool_name: str
    intent_digest: str
    summary: str
    """One line of what would be done."""
    argv: Argv = ()
    cwd: str = ""
    tier: str = ""
    """The sandbox that it would run in."""
    rule: str = ""
    """The rule that asks; "" if none does and asking is the default."""
    why: str = ""
    effects: tuple[Effect, ...] = ()
    policy: str = ""
    diff: ArtifactRef | None = None
    choices: tuple[Literal["once", "session", "rule", "deny"], ...] = ("once", "session", "rule", "deny")


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDecided(Payload):
    """An intent is allowed or denied: by whom, by which rule, within which bounds.

    - `by`: `policy` (a rule), `mode`, `grant` (an earlier allowance), `hook`, `person`, `default`.
    """

    type: ClassVar[str] = "permission.decided"

    intent_id: str
    decision: Literal["allow", "deny"]
    by: Literal["policy", "mode", "grant", "hook", "person", "default"]
    rule: str = ""
    reason: str = ""
    grant: Grant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionAnswer:
    """What a person (or whoever answers for one) says to a `PermissionRequested`. No event: it becomes one."""

    decision: Literal["allow", "deny"]
    scope: Literal["once", "session", "rule"] = "once"
    reason: str = ""
    by: Literal["person", "default"] = "person"


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionStarted(Payload):
    """An execution is about to begin: durable before anything is spawned or written.

    - `executor`: what runs it (`process`, `file`, `gateway`, a plug-in's name).
    - `sandbox`: the tier that was really there, not the one that was wished for.
    - `environment`: names of the variables that it gets, never their values.
    """

    type: ClassVar[str] = "tool.execution.started"

    intent_id: str
    execution_id: str
    tool_name: str
    executor: str
    cwd: str
    intent_digest: str = ""
    tool_version: str | None = None
    argv: Argv = ()
    sandbox: str = "none"
    limits: Limits = Limits()
    environment: tuple[str, ...] = ()
    effects: tuple[Effect, ...] = ()


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionFinished(Payload):
    """An execution ended, one way or another."""

    type: ClassVar[str] = "tool.execution.finished"

    intent_id: str
    execution_id: str
    outcome: Literal["ok", "tool_error", "timeout", "cancelled", "killed"]
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: int = 0
    cpu_ms: int | None = None
    peak_memory_bytes: int | None = None
    output_bytes: int = 0
    output: ArtifactRef | None = None
    changes: tuple[FileChange, ...] = ()
    message: str = ""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionInDoubt(Payload):
    """An execution started and nobody saw its end. It is never run again by itself."""

    type: ClassVar[str] = "tool.execution.in_doubt"

    intent_id: str
    execution_id: str
    started_seq: int
    why: str = ""


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class ToolObserved(Payload):
    """What an intent came to, as the model is told: exactly one for each intent.

    - `text`: what the model sees, redacted and cut; untrusted data, never an instruction.
    - `omitted_bytes`: how much of the whole is left out of `text`; `whole` has all of it.
    - `read_hashes`: `PATH=DIGEST` of files that this execution read whole: what a later edit must still find.
    """

    type: ClassVar[str] = "tool.observed"

    intent_id: str
    phase: Phase
    code: ObservationCode
    text: str
    retryable: bool = False
    execution_id: str | None = None
    omitted_bytes: int = 0
    whole: ArtifactRef | None = None
    media: tuple[ArtifactRef, ...] = ()
    redactions: int = 0
    read_hashes: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        """Whether the model is told that it did not work."""
        return self.code != "ok"


# --- the log itself


@register
@dataclass(frozen=True, slots=True, kw_only=True)
class LogSealed(Payload):
    """A signature over the chain's head: what stood up to `upto` can no longer be changed unseen.

    - `signature`: Ed25519, base64, over `headrace.log.v1 RUN_ID UPTO CHAIN` in ASCII.
    """

    type: ClassVar[str] = "log.sealed"

    upto: int
    chain: str
    public_key: str
    signature: str
    algorithm: Literal["ed25519"] = "ed25519"
