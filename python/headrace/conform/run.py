"""Run engines over the corpus: ours in process, each other one in a process of its own.

1. An adapter reads one JSON object a line (`case, family, protocol, url, is_stream`) and answers each with one line
   `{"case", "outcome"}`; its first line is `{"versions"}`. It asks `url` as its library asks its vendor.
2. Each case is served by a scripted upstream of its own, so that a second request or a hanging read is that case's.
3. An engine that cannot be installed or started is a row of the result, with the reason.

Knowledge of a particular engine must not be added here: `conformance/engines` has it.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import sys
import threading
import tomllib
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from typing import IO, TYPE_CHECKING, Any, Literal, Self, cast

from headrace.conform.corpus import CorpusError
from headrace.conform.judge import Verdict, judge
from headrace.conform.ours import outcome_of, read
from headrace.testing import Reply, Upstream

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from headrace.conform.corpus import Case

__all__ = ["OURS", "Engine", "Run", "engines_of", "run"]

OURS = "headrace"
"""The engine that needs no installing."""

START_S = 300.0
"""Seconds for an adapter's first line: some libraries take minutes to import on a busy machine."""

CASE_S = 30.0
"""Seconds for one case; then the adapter hangs in it, is killed and started anew."""

INSTALL_S = 900.0
"""Seconds for installing one engine."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine as `engines.toml` has it; `language` says what runs its file and installs what it requires."""

    name: str
    label: str
    language: Literal["python", "node"]
    file: Path
    requirements: tuple[str, ...]
    note: str = ""


@dataclass(slots=True)
class Run:
    """What came of one engine: its versions, a verdict for each case's id; or why it could not be run."""

    name: str
    label: str
    versions: dict[str, str] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    failure: str = ""
    note: str = ""


def engines_of(corpus: Path) -> dict[str, Engine]:
    """Read `engines/engines.toml` of a corpus's folder: name -> engine. Ours is not among them."""
    path = corpus / "engines" / "engines.toml"
    if not path.is_file():
        return {}
    rows = tomllib.loads(path.read_text(encoding="utf-8"))
    return {
        name: Engine(
            name=name,
            label=row["label"],
            language=row["language"],
            file=path.parent / row["file"],
            requirements=tuple(row["requirements"]),
            note=row.get("note", ""),
        )
        for name, row in rows.items()
    }


def run(
    names: Iterable[str], cases: list[Case], *, corpus: Path, cache: Path, say: Callable[[str], None] = lambda _: None
) -> list[Run]:
    """Run the named engines over the cases, one after the other.

    - `cache`: the folder where engines are installed; it is made where it is not there.
    - `say`: is told what goes on.

    Raises `CorpusError` for a name that nobody has.
    """
    known = engines_of(corpus)
    chosen = list(dict.fromkeys(names))
    if unknown := [name for name in chosen if name != OURS and name not in known]:
        raise CorpusError(f"no such engine: {', '.join(unknown)}; there are {', '.join([OURS, *known])}")
    runs = []
    for name in chosen:
        say(f"{name}: {len(cases)} cases")
        runs.append(_ours(cases) if name == OURS else _theirs(known[name], cases, cache, say))
    return runs


def _ours(cases: list[Case]) -> Run:
    """Every case whole and byte by byte; what is not the same both times is wrong."""
    try:
        done = Run(OURS, "Headrace", {"headrace": version("headrace")})
    except PackageNotFoundError:
        done = Run(OURS, "Headrace", {"headrace": "not installed, run from its source"})
    for case in cases:
        events = read(case)
        singly = events if case.is_websocket else read(case, [bytes([byte]) for byte in case.pieces[0]])
        if [event.to_json() for event in events] != [event.to_json() for event in singly]:
            done.verdicts[case.id] = Verdict("wrong", "byte by byte, other events come of it")
        else:
            done.verdicts[case.id] = judge(case, outcome_of(events), strict=True)
    return done


def _theirs(engine: Engine, cases: list[Case], cache: Path, say: Callable[[str], None]) -> Run:
    done = Run(engine.name, engine.label, note=engine.note)
    try:
        command, environment = _install(engine, cache, say)
        with _Adapter(command, environment) as adapter:
            done.versions = adapter.versions
            for case in cases:
                done.verdicts[case.id] = _one(adapter, case)
    except (OSError, subprocess.SubprocessError, _AdapterError) as error:
        done.failure = str(error)
    return done


def _one(adapter: _Adapter, case: Case) -> Verdict:
    """Judge one case. Who hangs or dies in it is asked once more, in a new process: it may have been the machine."""
    if case.unasked:
        return Verdict("not_offered", case.unasked)
    try:
        return _asked(adapter, case)
    except _AdapterError:
        adapter.restart()
    try:
        return _asked(adapter, case)
    except _AdapterError as error:
        adapter.restart()
        return Verdict("wrong", str(error))


def _asked(adapter: _Adapter, case: Case) -> Verdict:
    (body,) = case.pieces
    is_body = dict(case.headers).get("content-type") == "application/json"
    reply = Reply((body,), case.status, case.headers, "length" if is_body else "chunked", close=True)
    with Upstream(reply) as upstream:
        outcome = adapter.ask(
            {
                "case": case.id,
                "family": case.family,
                "protocol": case.protocol,
                "url": upstream.url,
                "is_stream": case.is_stream,
            }
        )
        if not upstream.facts().request_count and "not_offered" not in outcome:
            return Verdict("not_offered", f"it asked nobody: {outcome}")
    return judge(case, outcome)


class _AdapterError(Exception):
    """The adapter does not answer."""


class _Adapter:
    """A running adapter: a line in, a line out."""

    def __init__(self, command: list[str], environment: dict[str, str]) -> None:
        self._command, self._environment = command, environment
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - an adapter of the corpus, by the user's own word
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._questions = cast("IO[bytes]", self._process.stdin)
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=self._pump, args=(self._process.stdout, self._lines), daemon=True).start()
        self.versions: dict[str, str] = self._next(START_S, "starts")["versions"]

    @staticmethod
    def _pump(out: Iterable[bytes], lines: queue.SimpleQueue[bytes]) -> None:
        for line in out:
            lines.put(line)
        lines.put(b"")

    def _next(self, limit: float, does: str) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=limit)
        except queue.Empty:
            raise _AdapterError(f"hangs: nothing for {limit:.0f} s as it {does}") from None
        if not line:
            raise _AdapterError(f"its process ends as it {does}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Give it a case, and wait for the outcome."""
        try:
            self._questions.write(json.dumps(question).encode() + b"\n")
            self._questions.flush()
        except OSError:
            raise _AdapterError("its process has ended") from None
        answer = self._next(CASE_S, "reads")
        if answer.get("case") != question["case"]:
            raise _AdapterError(f"answers another case: {answer.get('case')}")
        outcome: dict[str, Any] = answer["outcome"]
        return outcome

    def restart(self) -> None:
        """Begin again with a process that is in no unknown state."""
        self.close()
        self._start()

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _install(engine: Engine, cache: Path, say: Callable[[str], None]) -> tuple[list[str], dict[str, str]]:
    """Install an engine where it is not, and return how its adapter is started."""
    wanted = sha256("\n".join(engine.requirements).encode()).hexdigest()[:12]
    home = cache / engine.name
    mark = home / f".installed-{wanted}"
    if not mark.exists():
        say(f"{engine.name}: installing {' '.join(engine.requirements)}")
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(parents=True)
        for command in _installing(engine, home):
            _carry_out(command, home)
        mark.touch()
    environment = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG", "TMPDIR")}
    if engine.language == "python":
        return [str(home / "bin" / "python"), str(engine.file)], environment | {"PYTHONDONTWRITEBYTECODE": "1"}
    return ["node", str(engine.file)], environment | {"ENGINE_MODULES": str(home)}


def _installing(engine: Engine, home: Path) -> Iterator[list[str]]:
    if engine.language == "python":
        yield [sys.executable, "-m", "venv", str(home)]
        pip = [str(home / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        yield [*pip, *engine.requirements]
    else:
        yield ["npm", "init", "--yes"]
        yield ["npm", "install", "--no-audit", "--no-fund", *engine.requirements]


def _carry_out(command: list[str], home: Path) -> None:
    done = subprocess.run(  # noqa: S603 - the registries' own clients
        command, cwd=home, capture_output=True, text=True, timeout=INSTALL_S, check=False
    )
    if done.returncode:
        words = (done.stderr or done.stdout).strip().splitlines() or ["no word why"]
        raise _AdapterError(f"not installed: {words[-1]}")
