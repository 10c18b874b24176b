"""The command `headrace`: thin over the package, one function each.

1. What a command needs is imported inside it: help and completion stay quick.
2. Results go to standard output, words about them to standard error.
3. A user's mistake is one line and exit status 2, and never a traceback.

Work that a caller of the library might want must not be added here: it belongs in the module that it is about.
"""

from __future__ import annotations

import click

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="headrace", message="headrace %(version)s")
def main() -> None:
    """Carry language models' streams: a gateway, a normaliser, and tools around them."""


if __name__ == "__main__":
    main()
