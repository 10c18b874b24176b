"""The core: it leads runs. A model proposes, the log records, a tool runtime executes, the log says what came of it.

    opened = await start(log, RunStarted(goal="mend the test", model="primary", cwd=os.getcwd()))
    async with Runtime() as models:
        state = await opened.run(models=models, tools=tools, ask=ask).go()

`start`, `resume` and `fork` give an `Opened`; `Opened.run` makes the `Run` that leads it.
"""

from headrace.loop._bombs import EffectError, bombs
from headrace.loop._budgets import exceeded
from headrace.loop._owners import ACTS, Act, act_on
from headrace.loop._ports import (
    Ask,
    AskLater,
    Models,
    ModelStream,
    NoTools,
    RecordFact,
    Seen,
    Settings,
    SharingToolRuntime,
    ToolRuntime,
)
from headrace.loop._replay import (
    Again,
    RecordedTools,
    Replayed,
    replay_dry,
    replay_model,
    replay_sandbox,
    replay_trace,
)
from headrace.loop._run import Run
from headrace.loop._runs import Finding, GateClosed, Opened, fork, gate, resume, start
from headrace.loop._tools import BoxedTools
from headrace.loop._workspace import hash_workspace

__all__ = [
    "ACTS",
    "Act",
    "Again",
    "Ask",
    "AskLater",
    "BoxedTools",
    "EffectError",
    "Finding",
    "GateClosed",
    "ModelStream",
    "Models",
    "NoTools",
    "Opened",
    "RecordFact",
    "RecordedTools",
    "Replayed",
    "Run",
    "Seen",
    "Settings",
    "SharingToolRuntime",
    "ToolRuntime",
    "act_on",
    "bombs",
    "exceeded",
    "fork",
    "gate",
    "hash_workspace",
    "replay_dry",
    "replay_model",
    "replay_sandbox",
    "replay_trace",
    "resume",
    "start",
]
