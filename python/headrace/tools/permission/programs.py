"""What is known of programs that run other programs. Data for `shell.py`.

1. A wrapper is looked through; whether it also counts as a command of its own is said by `counts`.
2. What is not listed is an ordinary program: its arguments are its own, and a rule has to name it.
3. An option that makes a program run or write something that its arguments do not show is listed in `TELLING`: a call
   with it is never allowed by a rule for the program's name alone.

To be added to, and never to hold a rule of policy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "HARMLESS_VARIABLES",
    "NEUTRAL",
    "SHELLS",
    "TELLING",
    "WRAPPERS",
    "Wrapper",
    "inline_options",
    "is_interpreter",
    "loose_names",
]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """How to find the wrapped command.

    - `values`: options whose next word is theirs.
    - `skip`: words before the command that are the wrapper's own (a duration, a file).
    - `assigns`: words `NAME=value` may stand before the command.
    - `counts`: the wrapper changes what the command can do, so it has to be allowed as well.
    - `tail`: more arguments come from elsewhere (a pipe).
    - `asks`: why no rule may allow it, or "".
    """

    values: frozenset[str] = frozenset()
    skip: int = 0
    assigns: bool = False
    counts: bool = False
    tail: bool = False
    asks: str = ""


def _values(words: str) -> frozenset[str]:
    return frozenset(words.split())


WRAPPERS: Final[dict[str, Wrapper]] = {
    "env": Wrapper(_values("-u --unset -C --chdir -S --split-string"), assigns=True),
    "sudo": Wrapper(
        _values("-u --user -g --group -h --host -p --prompt -C --close-from -T -r --role -t --type -U -D --chdir -R"),
        assigns=True,
        counts=True,
    ),
    "doas": Wrapper(_values("-u -C"), counts=True),
    "pkexec": Wrapper(_values("--user"), counts=True),
    "xargs": Wrapper(
        _values(
            "-I -n -P -L -s -d -E -a --arg-file --max-args --max-procs --max-lines --max-chars --delimiter --replace"
            " --process-slot-var"
        ),
        tail=True,
    ),
    "timeout": Wrapper(_values("-s --signal -k --kill-after"), skip=1),
    "nice": Wrapper(_values("-n --adjustment")),
    "ionice": Wrapper(_values("-c --class -n --classdata")),
    "chrt": Wrapper(skip=1),
    "taskset": Wrapper(skip=1),
    "nohup": Wrapper(),
    "setsid": Wrapper(),
    "stdbuf": Wrapper(_values("-i -o -e --input --output --error")),
    "unbuffer": Wrapper(),
    "time": Wrapper(_values("-f --format -o --output")),
    "command": Wrapper(),
    "builtin": Wrapper(),
    "exec": Wrapper(_values("-a")),
    "busybox": Wrapper(),
    "toybox": Wrapper(),
    "strace": Wrapper(_values("-o -e -p -s -u -E -a -O -S -P -b -I"), counts=True),
    "ltrace": Wrapper(_values("-o -e -p -s -u -a -l -x -n"), counts=True),
    "watch": Wrapper(_values("-n --interval"), counts=True),
    "chroot": Wrapper(_values("--userspec --groups"), skip=1, counts=True),
    "unshare": Wrapper(_values("-S -G --setuid --setgid --map-user --map-group -R -w --root --wd"), counts=True),
    "nsenter": Wrapper(_values("-t --target -S -G"), counts=True),
    "systemd-run": Wrapper(_values("-p --property -u --unit -E --setenv -M -H"), counts=True),
    "parallel": Wrapper(_values("-j --jobs -a --arg-file -I -N -n -L"), counts=True, tail=True),
    "entr": Wrapper(counts=True, tail=True),
    "ld.so": Wrapper(_values("--library-path --preload --argv0 --audit --inhibit-rpath"), counts=True),
    "coproc": Wrapper(asks="it runs beside the rest of the line"),
}
"""Words that end with another command line."""

SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash"})

NEUTRAL: Final = frozenset(
    {":", "true", "false", "pwd", "exit", "return", "break", "continue", "wait", "shift", "test", "[", "echo", "printf"}
)
"""Builtins that touch nothing: they need no rule."""

HARMLESS_VARIABLES: Final = (
    r"LANG|LC_[A-Z]+|TZ|TERM|COLUMNS|LINES|CI|NO_COLOR|FORCE_COLOR|CLICOLOR(_FORCE)?|DEBUG|VERBOSE|RUST_BACKTRACE"
    r"|RUST_LOG|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|PYTHONHASHSEED|NODE_ENV|CARGO_TERM_COLOR|[a-z_][a-z0-9_]*"
)
"""Variables that a command may be given without a question. `PATH`, `LD_PRELOAD`, `GIT_SSH_COMMAND`, `BASH_ENV` and
their kind choose what runs, and new ones of their kind are made every year: hence a list of the harmless."""

INLINE: Final[dict[str, frozenset[str]]] = {
    "python": _values("-c"),
    "pypy": _values("-c"),
    "perl": _values("-e -E"),
    "ruby": _values("-e"),
    "node": _values("-e -p --eval --print"),
    "bun": _values("-e --eval -p --print"),
    "deno": _values("eval"),
    "php": _values("-r"),
    "lua": _values("-e"),
    "Rscript": _values("-e"),
    "osascript": _values("-e"),
}
"""Options after which a program's text stands in the line: a rule has to name the option as well."""

TELLING: Final[dict[str, tuple[str, ...]]] = {
    "awk": ("-i", "-f", "-l", "--include", "--load", "-e"),
    "gawk": ("-i", "-f", "-l", "--include", "--load", "-e"),
    "cargo": ("--config",),
    "curl": (
        "-o",
        "-O",
        "-K",
        "-T",
        "--output",
        "--remote-name",
        "--config",
        "--upload-file",
        "--output-dir",
        "-F",
        "-d",
    ),
    "find": ("-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-ok", "-okdir"),
    "git": (
        *("-c", "--config-env", "--exec-path", "--upload-pack", "--receive-pack", "--ext-diff", "--textconv"),
        *("--open-files-in-pager", "-O", "--output", "--exec", "-x", "--git-dir", "--work-tree"),
    ),
    "go": ("-exec", "-toolexec", "-vettool", "-overlay"),
    "man": ("-P", "--pager", "-H", "--html", "-C", "--config-file"),
    "make": ("-f", "-C", "--eval", "--file", "--makefile", "--directory", "-I"),
    "rg": ("--pre", "--hostname-bin"),
    "rsync": ("-e", "--rsh", "--rsync-path"),
    "scp": ("-o", "-F", "-S"),
    "sed": ("-i", "--in-place", "-f", "--file"),
    "sort": ("-o", "--output", "--compress-program", "-T"),
    "split": ("--filter",),
    "ssh": ("-o", "-F", "-S", "-L", "-R", "-D"),
    "tar": (
        *("-I", "-F", "--checkpoint-action", "--to-command", "--use-compress-program", "--info-script"),
        *("--new-volume-script", "--rsh-command", "--rmt-command"),
    ),
    "tee": ("",),
    "tree": ("-o",),
    "uniq": (),
    "vi": ("",),
    "vim": ("",),
    "wget": ("-O", "-o", "-i", "-e", "--execute", "--output-document", "--use-askpass", "--post-file"),
    "xxd": ("-r",),
    "zip": ("-T", "-TT", "--unzip-command"),
}
"""Options that write, or that run what the line does not show. The empty word: every call."""


def is_interpreter(name: str) -> bool:
    """Tell whether a program runs a text that stands in the line, or in its input."""
    return inline_options(name) != frozenset()


def inline_options(name: str) -> frozenset[str]:
    """Name the options after which a program's text stands in the line; `python3.12` is `python`."""
    return INLINE.get(name) or INLINE.get(name.rstrip("0123456789."), frozenset())


FLAG_NAMES: Final[dict[str, frozenset[str]]] = {
    "r": _values("recursive R"),
    "R": _values("recursive r"),
    "f": _values("force"),
    "h": frozenset(),
}


def loose_names(letter: str) -> frozenset[str]:
    """Name the other spellings of a short flag, as a rule that denies has to know them."""
    return FLAG_NAMES.get(letter, frozenset())
