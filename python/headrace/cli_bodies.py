"""The commands about recorded bodies: `normalize`, what they say, and `bench`, what reading them costs.

Reading must not be added here: `headrace.Decoder` has it.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import IO, TYPE_CHECKING, get_args

import click

from headrace.codes import End, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

__all__ = ["COMMANDS", "READ"]

READ_SIZE = 64 * 1024
"""Bytes of one read of `normalize`: a pipe's usual size."""

READ: tuple[Protocol, ...] = get_args(Protocol)
"""Protocols that have a decoder."""

CONTENT_TYPES = {
    "sse": "text/event-stream",
    "ndjson": "application/x-ndjson",
    "eventstream": "application/vnd.amazon.eventstream",
    "json": "application/json",
    "payloads": "text/event-stream",
}


def _header(context: click.Context, parameter: click.Parameter, values: Sequence[str]) -> list[tuple[str, str]]:
    """Split headers written as `Name: value`, as in curl."""
    pairs = []
    for value in values:
        name, colon, rest = value.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"{value!r} is not 'Name: value'", context, parameter)
        pairs.append((name.strip(), rest.strip()))
    return pairs


@click.command(short_help="Turn a recorded response body into events.")
@click.argument("file", type=click.File("rb"))
@click.option("--protocol", "-p", type=click.Choice(READ), required=True, help="How to read the bytes.")
@click.option("--status", type=click.IntRange(100, 599), default=200, show_default=True, help="The response's status.")
@click.option("--header", "-H", "headers", callback=_header, multiple=True, help="A response header, 'Name: value'.")
@click.option(
    "--framing",
    type=click.Choice(["auto", *CONTENT_TYPES]),
    default="auto",
    show_default=True,
    help="auto: by content type, else by the first bytes. payloads: one event's payload a line (auto for .jsonl).",
)
@click.option("--websocket", is_flag=True, help="Each line is one message of a WebSocket.")
@click.option("--turn-id", default="t0", show_default=True, help="Intents get the ids TURN_ID.0, TURN_ID.1, ...")
@click.option("--think-tags", is_flag=True, help="Text in <think> tags is reasoning.")
@click.option("--end", type=click.Choice(get_args(End)), default="eof", show_default=True, help="What ended the body.")
def normalize(
    file: IO[bytes],
    *,
    protocol: Protocol,
    status: int,
    headers: Sequence[tuple[str, str]],
    framing: str,
    websocket: bool,
    turn_id: str,
    think_tags: bool,
    end: End,
) -> None:
    """Turn a recorded response body into events, one JSON object a line.

    FILE is what a provider sent, or - for standard input.
    """
    from headrace.translate import Decoder

    if framing == "auto" and str(getattr(file, "name", "")).endswith(".jsonl"):
        framing = "payloads"
    pairs = [pair for pair in headers if framing == "auto" or pair[0].lower() != "content-type"]
    if framing != "auto":
        pairs.append(("content-type", CONTENT_TYPES[framing]))
    decoder = Decoder(
        protocol,
        status=status,
        headers=pairs,
        transport="websocket" if websocket else None,
        think_tags=think_tags,
        turn_id=turn_id,
    )
    out = sys.stdout.buffer
    try:
        for piece in _pieces(file, by_line=websocket, wrapped=framing == "payloads" and not websocket):
            out.writelines(event.to_json() + b"\n" for event in decoder.feed(piece))
        out.writelines(event.to_json() + b"\n" for event in decoder.finish(end))
        out.flush()
    except BrokenPipeError:
        sys.stderr.close()  # the reader has left, and Python would say so at exit
        sys.exit(1)


def _pieces(file: IO[bytes], *, by_line: bool, wrapped: bool) -> Iterator[bytes]:
    if not by_line and not wrapped:
        yield from iter(lambda: file.read(READ_SIZE), b"")
        return
    lines: Iterable[bytes] = (line.rstrip(b"\r\n") for line in file)
    for line in lines:
        if line:
            yield line if by_line else b"data: " + line + b"\n\n"


@click.command(short_help="Measure what reading recorded bodies costs.")
@click.argument("files", nargs=-1, required=True, type=click.File("rb"))
@click.option("--protocol", "-p", type=click.Choice(READ), required=True, help="How to read the bytes.")
@click.option(
    "--seconds", type=click.FloatRange(0.01, 60), default=0.5, show_default=True, help="CPU time for each figure."
)
@click.option("--json", "is_json", is_flag=True, help="Print JSON instead of a table.")
def bench(files: Sequence[IO[bytes]], *, protocol: Protocol, seconds: float, is_json: bool) -> None:
    """Measure what turning recorded bodies into events costs on this machine.

    FILES are what a provider sent, as for `normalize`. Each is first read whole, event by event, in blocks and, up to a
    MiB, byte by byte: a body that is not the same all ways is an error, and no time is taken of it. One read for each
    event is what a live model comes to, 16 KiB reads are a full socket.
    """
    from headrace.reading_costs import cost_of

    costs = []
    for file in files:
        name = str(getattr(file, "name", "-"))
        body = b"".join(_pieces(file, by_line=False, wrapped=name.endswith(".jsonl")))
        try:
            costs.append((name, cost_of(body, protocol, seconds=seconds)))
        except ValueError as error:
            click.echo(f"headrace: {name}: {error}", err=True)
            sys.exit(1)
    if is_json:
        import orjson

        rows = [{"file": name, **asdict(cost)} for name, cost in costs]
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        return
    click.echo(f"{'events':>9} {'bytes':>11} {'one a read':>11} {'16 KiB':>8} {'orjson':>8}  file (µs CPU per event)")
    for name, cost in costs:
        alone = "-" if cost.json_us is None else f"{cost.json_us:.2f}"
        row = f"{cost.events:>9,} {cost.bytes:>11,} {cost.event_reads_us:>11.2f} {cost.block_reads_us:>8.2f} {alone:>8}"
        click.echo(f"{row}  {name}")


COMMANDS = (normalize, bench)
