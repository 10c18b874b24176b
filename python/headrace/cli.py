"""The command `headrace`: thin over the package, one function each.

1. What a command needs is imported inside it: help and completion stay quick.
2. Results go to standard output, words about them to standard error.
3. A user's mistake is one line and exit status 2, and never a traceback.

Work that a caller of the library might want must not be added here: it belongs in the module that it is about.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headrace.cli_auth import auth
from headrace.cli_bodies import COMMANDS as BODIES
from headrace.cli_conform import conform
from headrace.cli_log import log
from headrace.cli_run import COMMANDS
from headrace.cli_store import store
from headrace.cli_trace import trace

if TYPE_CHECKING:
    from headrace.registry import Registry
    from headrace.tools.permission.policy import LayerName, Mode

__all__ = ["main"]

MODES = ("plan", "default", "accept-edits", "auto", "headless", "danger-bypass")
"""Permission modes. Written here as help must not wait for what knows them."""


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", message="headrace %(version)s")
def main() -> None:
    """Carry language models' streams: a gateway, a normaliser, and tools around them."""


main.add_command(conform)
main.add_command(auth)
main.add_command(log)
main.add_command(store)
main.add_command(trace)
for _command in (*BODIES, *COMMANDS):
    main.add_command(_command)


@main.command()
@click.option("--config", "path", type=click.Path(path_type=Path), help="The file; by default as `check` finds it.")
@click.option("--host", help="The address to listen on, instead of the configuration's.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port, instead of the configuration's; 0 is any.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="warning",
    show_default=True,
    help="info tells of every attempt that failed and of what followed.",
)
def serve(path: Path | None, host: str | None, port: int | None, log_level: str) -> None:
    """Run the gateway in the foreground."""
    import logging
    import os

    from headrace.config import ConfigurationError
    from headrace.errors import HeadraceError
    from headrace.startup import configure

    said = {name: value for name, value in (("host", host), ("port", port)) if value is not None}
    try:
        setup = configure(path, environ=os.environ, server=said)
    except ConfigurationError as error:
        click.echo(error, err=True)
        sys.exit(2)
    _report_plugins(setup.registry)
    logging.basicConfig(level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    # At info it logs whole addresses, also those of plug-ins, in whose queries a secret may stand.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    from headrace.server import serve as run

    try:
        run(setup.config, registry=setup.registry, reloader=setup.reloader)
    except OSError as error:
        server = setup.config.server
        where = f"{server.host} port {server.port}"
        click.echo(f"headrace: cannot listen on {where}: {error.strerror or error}; --port takes another", err=True)
        sys.exit(1)
    except HeadraceError as error:
        click.echo(f"headrace: {error}", err=True)
        sys.exit(1)


@main.command(short_help="Check the configuration: one line for each fault.")
@click.option("--config", "path", type=click.Path(path_type=Path), help="The file to check.")
@click.option("--schema", is_flag=True, help="Print the file's JSON schema, for an editor, and check nothing.")
@click.option(
    "--kinds",
    is_flag=True,
    help="List the kinds of provider with wires, address and the variable of a key, and check nothing.",
)
def check(path: Path | None, *, schema: bool, kinds: bool) -> None:
    """Check the configuration: one line for each fault, with file, line, key and the way out.

    Looked for at --config, $HEADRACE_CONFIG and in the user's configuration directory. Ends with 1 if it is refused.
    """
    import os

    from headrace.config import ConfigurationError, json_schema
    from headrace.registry import Registry
    from headrace.startup import configure

    if schema:
        import orjson

        click.echo(orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2))
        return
    try:
        registry = Registry()
        if kinds:
            from headrace.doctor import BUILT_IN

            for kind, definition in registry.definitions.items():
                wires = ",".join(dict.fromkeys(one.protocol for one in definition.capabilities))
                address = definition.base_url if kind not in BUILT_IN else None
                click.echo(f"{kind}\t{wires}\t{address or '-'}\t{definition.environment or '-'}")
            _report_plugins(registry)
            return
        setup = configure(path, environ=os.environ, registry=registry)
    except ConfigurationError as error:
        click.echo(error)
        sys.exit(1)
    _report_plugins(registry)
    rows = ", ".join(row.id for row in setup.config.providers) or "none"
    keys = len(setup.config.keys)
    click.echo(f"{setup.path or 'no file, by the environment'}: ok; providers: {rows}; keys: {keys or 'none'}")


@main.command(short_help="Say who is asked for each name; try credentials.")
@click.option("--config", "path", type=click.Path(path_type=Path), help="The file; by default as `check` finds it.")
@click.option("--live", is_flag=True, help="Make one real request of a few tokens with every credential.")
@click.option("--project", type=click.Path(file_okay=False), default=".", help="The workspace of runs.")
def doctor(path: Path | None, *, live: bool, project: str) -> None:
    """Say who is asked for each name, as requests and runs find it; and which sandbox, store and policy runs have.

    With --live, try every credential. Ends with 1 if anything is wrong.
    """
    import os

    from headrace.config import ConfigurationError
    from headrace.doctor import examine, try_out
    from headrace.harness.health import examine_host
    from headrace.startup import configure

    try:
        setup = configure(path, environ=os.environ)
    except ConfigurationError as error:
        click.echo(error)
        sys.exit(1)
    wrong = False
    looks = [examine(setup.config, setup.registry), examine_host(setup.config.store.url, project, os.environ)]
    if live:
        looks.append(try_out(setup.config, setup.registry))
    for look in looks:
        for finding in look:
            click.echo(finding)
            wrong |= finding.ok is False
    sys.exit(1 if wrong else 0)


def _report_plugins(registry: Registry) -> None:
    for broken in registry.broken:
        click.echo(f"headrace: the plug-in {broken.source} is left out: {broken.reason}", err=True)


@main.group()
def policy() -> None:
    """Look at what tools may do: docs/TOOLS.md has the rules."""


@policy.command("check", short_help="Check policy files and the examples of their rules.")
@click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False))
@click.option("--explain", "line", metavar="LINE", help="Say what would be decided of a shell line, and why.")
@click.option("--project", type=click.Path(path_type=Path, file_okay=False), default=".", help="The workspace.")
@click.option("--mode", default="default", show_default=True, type=click.Choice(MODES), help="The permission mode.")
@click.option("--tier", default="A", show_default=True, type=click.Choice(["A", "B", "C"]), help="The sandbox's tier.")
def policy_check(file: Path | None, *, line: str | None, project: Path, mode: Mode, tier: str) -> None:
    """Check policy files, the examples of their rules as well: one line for each fault.

    FILE is read as your own policy. Without it, the organisation's, your own and the project's are read. Ends with 1 if
    one is refused.
    """
    import os

    from headrace.config import ConfigurationError
    from headrace.tools.permission import find_files, load_policy
    from headrace.tools.permission.explain import explain_line

    root = os.path.realpath(project)
    files: dict[LayerName, Path] = find_files(Path(root), os.environ) if file is None else {"user": file}
    try:
        policy = load_policy(files, os.environ.get("HOME"))
    except ConfigurationError as error:
        click.echo(error)
        sys.exit(1)
    if line is not None:
        for row in explain_line(policy, line, root=root, mode=mode, tier=tier):
            click.echo(row)
        return
    for layer in policy.layers:
        examples = sum(len(rule.match) + len(rule.not_match) for rule in layer.rules)
        click.echo(f"{files[layer.name]}: ok; {layer.name}; rules: {len(layer.rules)}; examples: {examples}")
    if not policy.layers:
        click.echo("no policy file; every mode goes by its own word")


if __name__ == "__main__":
    main()
