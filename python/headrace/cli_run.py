"""`headrace run`, `chat`, `resume`, `fork`, `approve`, `replay`: runs of the harness. docs/HARNESS.md tells of them.

Thin over `headrace.harness`; a part of `headrace.cli`, whose rules hold here.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from headrace.harness.commands import Wanted

__all__ = ["COMMANDS"]

MODES = ("plan", "default", "accept-edits", "auto", "headless", "danger-bypass")
REPLAYS = ("trace", "model", "dry-run", "sandbox")
FINDINGS = ("workspace_changed", "policy_changed", "budget_exhausted", "artifacts_missing")


def _with(*options: Callable[..., Any]) -> Callable[..., Any]:
    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


_STORE = (
    click.option("--config", type=click.Path(path_type=Path), help="The configuration file."),
    click.option("--store", help="The store's URL, instead of the configuration's."),
)
_JSON = (click.option("--json", "as_json", is_flag=True, help="One JSON object a line, and nothing else."),)
_PLACE = (
    click.option("--tier", type=click.Choice(["A", "B", "C"]), help="The sandbox; by default the strongest there is."),
    click.option("--network", is_flag=True, help="Let commands reach the network, where the sandbox can tell."),
)
_LED = (
    *_STORE,
    *_JSON,
    *_PLACE,
    click.option("--mode", type=click.Choice(MODES), help="The permission mode; by default default, or the run's own."),
    click.option("--headless", is_flag=True, help="Ask nobody: a question pauses the run."),
    click.option("--check", metavar="COMMAND", help="Has to end with 0 before the run counts as verified."),
    click.option("--max-steps", type=click.IntRange(1), help="Requests to models."),
    click.option("--max-tokens", type=click.IntRange(1), help="Tokens, in and out."),
    click.option("--max-cost", type=click.FloatRange(0, min_open=True), help="US dollars."),
    click.option("--max-time", type=click.FloatRange(0, min_open=True), help="Seconds under way."),
)
_BEGUN = (
    click.option("--model", help="PROVIDER/MODEL or a profile; by default coding, else primary."),
    click.option("--fallback", "fallbacks", multiple=True, help="A model to go on with; may be given more than once."),
    click.option("--project", default=".", show_default=True, type=click.Path(file_okay=False), help="The workspace."),
)
_ACCEPT = (
    click.option(
        "--accept",
        type=click.Choice(FINDINGS),
        multiple=True,
        help="Go on although this does not hold any longer; may be given more than once.",
    ),
)


def _wanted(
    *,
    max_steps: int | None = None,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    max_time: float | None = None,
    **options: Any,
) -> Wanted:
    from headrace.harness.commands import Wanted
    from headrace.log.payloads import Budget

    budget = Budget(
        steps=max_steps,
        tokens=max_tokens,
        money_micros=None if max_cost is None else max(1, round(max_cost * 1_000_000)),
        time_ms=None if max_time is None else max(1, round(max_time * 1000)),
    )
    return Wanted(budget=budget, **options)


@click.command(short_help="Have a model do TASK with tools, and record it.")
@click.argument("task", required=False)
@click.option("--demo", is_flag=True, help="Mend a small project of ours; needs no key unless --model names one.")
@_with(*_BEGUN, *_LED)
def run(task: str | None, *, demo: bool, **options: Any) -> None:
    """Have a model do TASK with tools, in a workspace, and record all of it.

    Ctrl-C once calls off what is under way, twice pauses the run. The exit statuses are in docs/HARNESS.md.
    """
    if demo == (task is not None):
        raise click.UsageError("say TASK or --demo, and not both" if demo else "say what is to be done, or --demo")
    from headrace.harness import commands

    wanted = _wanted(**options)
    view = commands.view_for(wanted)
    act = commands.run_demo(wanted, view) if demo else commands.run(wanted, task or "", view)
    sys.exit(commands.ended_with(view, act))


@click.command()
@click.argument("text", required=False)
@_with(*_BEGUN, *_LED)
def chat(text: str | None, **options: Any) -> None:
    """Talk with a model that has tools. Each line is one message; the end of input, or Ctrl-C, pauses the run."""
    from headrace.harness import commands

    wanted = _wanted(is_chat=True, **options)
    view = commands.view_for(wanted)
    sys.exit(commands.ended_with(view, commands.chat(wanted, text, view)))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--say", metavar="TEXT", help="What you say next.")
@click.option("--chat", "is_chat", is_flag=True, help="Go on as a conversation.")
@_with(*_ACCEPT, *_LED)
def resume(run_id: str, *, say: str | None, accept: Sequence[Any], **options: Any) -> None:
    """Take RUN up again, wherever it was left. What it relied on is looked at first."""
    from headrace.harness import commands

    wanted = _wanted(**options)
    view = commands.view_for(wanted)
    sys.exit(commands.ended_with(view, commands.resumed(wanted, run_id, view, accept=accept, say=say)))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--allow", type=click.Choice(["once", "session", "rule"]), help="Allow it.")
@click.option("--deny", metavar="REASON", help="Deny it, and tell the model why.")
@_with(*_ACCEPT, *_LED)
def approve(run_id: str, *, allow: str | None, deny: str | None, accept: Sequence[Any], **options: Any) -> None:
    """Answer the question that RUN waits with, and lead it on. Shows the question if neither answer is given."""
    if allow is not None and deny is not None:
        raise click.UsageError("say --allow or --deny, and not both")
    from headrace.harness import commands
    from headrace.log.payloads import PermissionAnswer

    answer = None
    if allow is not None or deny is not None:
        said: dict[str, Any] = {"scope": allow} if allow else {"reason": deny}
        answer = PermissionAnswer(decision="deny" if allow is None else "allow", **said)
    wanted = _wanted(**options)
    view = commands.view_for(wanted)
    sys.exit(commands.ended_with(view, commands.approve(wanted, run_id, view, answer=answer, accept=accept)))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--at", type=click.IntRange(1), help="The last event that the new run has; by default the last there is.")
@click.option("--model", help="Another model to go on with.")
@_with(*_STORE, *_JSON)
def fork(run_id: str, *, at: int | None, model: str | None, **options: Any) -> None:
    """Branch a run of its own off RUN, and print its id.

    The workspace stays as it is: what RUN has done to files since then is not undone, and you are told what it was.
    """
    from headrace.harness import commands

    wanted = _wanted(**options)
    view = commands.view_for(wanted)

    async def act() -> int:
        made = await commands.branch(wanted, run_id, at=at, model=model)
        if wanted.as_json:
            from headrace.harness.jsonl import write_line

            told = {"line": "fork", "run_id": made.run_id, "from_run": run_id, "from_seq": made.at}
            write_line({**told, "workspace": "kept", "changed": made.changed, "commands": made.commands})
        else:
            view.note(made.words())
            click.echo(made.run_id)
        return 0

    sys.exit(commands.ended_with(view, act()))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--mode", "replay_mode", type=click.Choice(REPLAYS), default="trace", show_default=True, help="What is done."
)
@click.option("--model", help="With --mode model: who is asked, instead of the run's own.")
@_with(*_STORE, *_JSON, *_PLACE)
def replay(run_id: str, *, replay_mode: str, **options: Any) -> None:
    """Replay RUN without what the world would see of it. Ends with 1 where something differs.

    trace: the events again, nothing else. model: a model over the recorded observations. dry-run: validation and
    permission by today's rules. sandbox: executions once more, on a copy of the workspace.
    """
    from headrace.harness import commands, replays

    wanted = _wanted(**options)
    view = commands.view_for(wanted)

    def tell(told: dict[str, Any]) -> None:
        if wanted.as_json:
            from headrace.harness.jsonl import write_line

            write_line({"line": "replay", "mode": replay_mode, **told})
        else:
            from headrace.harness.view import clean

            click.echo("  ".join(f"{name}: {clean(str(value))}" for name, value in told.items()))

    sys.exit(commands.ended_with(view, replays.again(wanted, run_id, replay_mode, tell)))


COMMANDS = (run, chat, resume, approve, fork, replay)
