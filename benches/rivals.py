"""Gateways that do the same job, each under the same load as ours: LiteLLM's proxy and Portkey's gateway.

1. They stand in environments of their own, pinned; they report to nobody and ask for no list of prices.
2. Each answers one request of each kind rightly before load is put on it, as in `benches.gateway`.
3. Nothing was asked of these rows: 1 is the rival's own cost.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import statistics
import tempfile
from collections.abc import Iterator

from benches import gateway as g
from benches.environment import environment, modules
from benches.measure import Row, ratio, tree_memory

#: LiteLLM's proxy takes this long to import on a busy machine.
START_LIMIT_S = 120.0
KINDS = ("fast", "burst", "paced")
LITELLM = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "DO_NOT_TRACK": "1"}
#: Made up; the proxy does not start without one.
MASTER_KEY = "sk-bench-3c1d5e7f9a"
#: With newer versions of its web framework every stream is answered 500.
PORTKEY = {
    "private": True,
    "dependencies": {"@portkey-ai/gateway": "1.15.2"},
    "overrides": {"@hono/node-server": "1.13.8", "hono": "4.9.7"},
}
#: Figure -> what it is, its unit.
FIGURES = {
    "fast": ("a completion, c=16", "CPU s per 1,000"),
    "burst": ("a burst, c=16", "CPU s per million events"),
    "paced": ("paced streams", "CPU s per million events"),
    "idle": ("memory at idle", "MiB"),
    "start": ("start to first answer", "s"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Rival:
    label: str
    subject: g.Subject
    #: The row's names of what ours does beside it.
    work: str
    ours: g.Subject


def run(rounds: int) -> list[Row]:
    """Measure each rival beside ours with the same client's protocol."""
    built = g.tools()
    with tempfile.TemporaryDirectory() as name, g.upstream(built) as port:
        folder = pathlib.Path(name)
        rivals = _rivals(port)
        took: dict[str, list[dict[str, float]]] = {}
        for _ in range(rounds):
            subjects = {s.name: s for rival in rivals for s in (rival.ours, rival.subject)}
            for subject in subjects.values():
                took.setdefault(subject.name, []).append(_measured(subject, built, port, folder))
    return [_row(rival, figure, took) for rival in rivals for figure in took[rival.subject.name][0]]


def _rivals(upstream: int) -> list[_Rival]:
    chat, messages = g.Subject("headrace"), g.Subject("headrace, translated", "anthropic_messages")
    key = ("authorization", f"Bearer {MASTER_KEY}")
    portkey = (
        ("authorization", "Bearer bench"),
        ("x-portkey-provider", "openai"),
        ("x-portkey-custom-host", f"http://127.0.0.1:{upstream}/v1"),
    )
    return [
        _Rival("LiteLLM 1.108.7", g.Subject("litellm", headers=(key,)), "Chat to Chat", chat),
        _Rival(
            "LiteLLM 1.108.7",
            g.Subject("litellm, translated", "anthropic_messages", (key,)),
            "Messages to Chat",
            messages,
        ),
        _Rival("Portkey 1.15.2", g.Subject("portkey", headers=portkey), "Chat to Chat", chat),
    ]


def _row(rival: _Rival, figure: str, took: dict[str, list[dict[str, float]]]) -> Row:
    what, unit = FIGURES[figure]
    ours, theirs = ([one[figure] for one in took[name]] for name in (rival.ours.name, rival.subject.name))
    return Row(
        work=f"gateway beside others, {rival.work}: {what}",
        anchor=rival.label,
        figure=ratio(theirs, ours),
        must=1.0,
        sense="at least",
        note=f"{statistics.median(ours):.3g} against {statistics.median(theirs):.3g} {unit}",
    )


def _measured(subject: g.Subject, built: pathlib.Path, upstream: int, folder: pathlib.Path) -> dict[str, float]:
    with _gateway(subject, upstream, folder) as (pid, port, start):
        figures = {"start": start, "idle": tree_memory(pid)}
        g.check(subject, port)
        load = g.Loader(subject, built, folder, pid, port).put
        load("fast", 16, "--seconds", "1")
        load("burst", 16, "--seconds", "1")
        result, cpu = load("fast", 16, "--seconds", "3")
        figures["fast"] = cpu / result["good"] * 1e3
        result, cpu = load("burst", 16, "--seconds", "3")
        figures["burst"] = cpu / result["events"] * 1e6
        result, cpu = load("paced", 16, "--requests", "16")
        figures["paced"] = cpu / result["events"] * 1e6
        if subject.protocol == "anthropic_messages":
            # Of the process itself the other row has them.
            del figures["start"], figures["idle"]
        return figures


@contextlib.contextmanager
def _gateway(subject: g.Subject, upstream: int, folder: pathlib.Path) -> Iterator[tuple[int, int, float]]:
    """A started gateway: its process id, its port, the seconds to its first answer."""
    if subject.name.startswith("headrace"):
        with g.gateway(subject, upstream, folder) as (process, port, start):
            yield process.pid, port, start
        return
    port, here = g.free_port(), pathlib.Path(tempfile.mkdtemp(dir=folder))
    if subject.name == "portkey":
        server = modules("bench-portkey", PORTKEY) / "node_modules/@portkey-ai/gateway/build/start-server.js"
        command, added = ["node", str(server), f"--port={port}", "--headless"], {"NODE_ENV": "production"}
    else:
        config = here / "litellm.yaml"
        config.write_text(_litellm(upstream))
        program = environment("bench-peers").with_name("litellm")
        command, added = [str(program), "--config", str(config), "--host", "127.0.0.1", "--port", str(port)], LITELLM
    with g.started(command, subject, port, here, added, limit_s=START_LIMIT_S) as (process, start):
        yield process.pid, port, start


def _litellm(upstream: int) -> str:
    models = "".join(
        f"  - {{model_name: bench-{kind}, litellm_params: {{model: openai/bench-{kind}, "
        f'api_base: "http://127.0.0.1:{upstream}/v1", api_key: sk-bench}}}}\n'
        for kind in KINDS
    )
    return (
        f"model_list:\n{models}litellm_settings: {{telemetry: false, num_retries: 0, set_verbose: false, "
        # Or it asks the upstream for Responses, which that does not speak.
        "use_chat_completions_url_for_anthropic_messages: true}\n"
        f'general_settings: {{master_key: "{MASTER_KEY}"}}\n'
    )
