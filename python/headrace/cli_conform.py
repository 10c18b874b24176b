"""The command `headrace conform`: the corpus over our engine, and over others.

Judging and running must not be added here: `headrace.conform` has them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

__all__ = ["conform"]


def _cache() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")  # noqa: PTH111, PTH118 - Path.home raises where there is none
    return Path(home) / "headrace" / "conform"


@click.command(short_help="Hold engines to the conformance corpus.")
@click.option("--engine", "-e", "engines", multiple=True, metavar="NAME", help="An engine, or all; by default ours.")
@click.option("--family", "-f", "families", multiple=True, metavar="NAME", help="Only this family's cases.")
@click.option("--corpus", type=click.Path(path_type=Path), help="The folder; by default the repository's conformance/.")
@click.option("--cache", type=click.Path(path_type=Path), help="Where engines are installed; by default in ~/.cache.")
@click.option("--json", "is_json", is_flag=True, help="Print every verdict as JSON instead of a table.")
@click.option("--list", "is_list", is_flag=True, help="List the engines, and run none.")
@click.option("--write", type=click.Path(path_type=Path, dir_okay=False), help="Write the results into this page too.")
def conform(
    *,
    engines: tuple[str, ...],
    families: tuple[str, ...],
    corpus: Path | None,
    cache: Path | None,
    is_json: bool,
    is_list: bool,
    write: Path | None,
) -> None:
    """Hold engines to the conformance corpus: what they make of providers' bytes.

    Ours runs in process. Another one is installed by pip or npm into the cache folder when it is first named, and runs
    against a scripted upstream on loopback. Ends with 1 if ours is not right in every case, or an engine cannot be run.
    """
    import orjson

    from headrace.conform import CorpusError, default_corpus, engines_of, load, run
    from headrace.conform.report import as_json, table, write_page

    try:
        folder = corpus or default_corpus()
        known = ["headrace", *engines_of(folder)]
        if is_list:
            click.echo("\n".join(known))
            return
        cases = load(folder, families)
        names = known if "all" in engines else engines or ["headrace"]
        runs = run(names, cases, corpus=folder, cache=cache or _cache(), say=lambda line: click.echo(line, err=True))
        if write is not None:
            write_page(write, runs, cases, folder)
    except (CorpusError, OSError) as error:
        click.echo(f"headrace: {error}", err=True)
        sys.exit(2)
    if is_json:
        click.echo(orjson.dumps(as_json(runs, cases, folder), option=orjson.OPT_INDENT_2))
    else:
        click.echo(table(runs, cases))
    ours = next((one for one in runs if one.name == "headrace"), None)
    wrong = {
        name: verdict.why for name, verdict in (ours.verdicts if ours else {}).items() if verdict.status != "right"
    }
    for name, why in wrong.items():
        click.echo(f"headrace: {name}: {why}", err=True)
    sys.exit(1 if wrong or any(one.failure for one in runs) else 0)
