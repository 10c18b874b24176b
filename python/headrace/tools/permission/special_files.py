"""Names of files that are not like others: those that hold secrets, and those by which something runs later.

1. Secrets: no tool reads or writes them, whatever a rule says. A list of names can be too short; it is the second
   line, behind secrets that are not in the workspace at all.
2. What runs by itself, outside of every sandbox: a hook of git, a task of an editor, a workflow. Writing it is asked
   about in every mode that asks at all.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["GUARDED", "is_guarded", "is_secret"]

NAMES: Final = re.compile(
    r"\.env|\.env\.[^/]+|\.envrc|\.netrc|_netrc|\.git-credentials|\.npmrc|\.pypirc|\.htpasswd|\.pgpass|\.my\.cnf"
    r"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?|[^/]+\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg)"
    r"|credentials(?:\.json|\.toml|\.ya?ml)?|secrets?\.(?:json|toml|ya?ml|env|txt)|service[_-]account[^/]*\.json"
    r"|\.vault[_-]pass(?:word)?|\.dockercfg|master\.key|shadow|gshadow|sudoers",
    re.IGNORECASE,
)
FOLDERS: Final = re.compile(
    r"/(?:\.ssh|\.gnupg|\.aws|\.azure|\.kube|\.docker|\.config/gcloud|\.config/gh|\.config/headrace|\.local/state/headrace"
    r"|\.password-store)(?:/|$)|^/proc/[^/]+/(?:environ|mem|maps|fd)(?:/|$)",
    re.IGNORECASE,
)
GUARDED: Final = (
    *(".git/hooks", ".git/config", ".git/modules", ".hg/hgrc", ".headrace", ".vscode", ".idea", ".devcontainer"),
    *(".github/workflows", ".gitlab-ci.yml", ".husky", ".pre-commit-config.yaml"),
)
"""Relative to the workspace."""
FINE: Final = re.compile(r"\.env\.(?:example|sample|template|dist|defaults?)|[^/]+\.pub", re.IGNORECASE)


def is_secret(path: str) -> bool:
    """Tell whether a path names a file, or lies in a directory, that holds secrets."""
    name = path.rstrip("/").rpartition("/")[2]
    return bool((NAMES.fullmatch(name) and not FINE.fullmatch(name)) or FOLDERS.search("/" + path.lstrip("/")))


def is_guarded(path: str, root: str) -> bool:
    """Tell whether something runs by what stands at a path of the workspace."""
    prefix = root.rstrip("/") + "/"
    relative = path.removeprefix(prefix)
    # Nested repositories have their own.
    return path.startswith(prefix) and any(f"/{one}/" in f"/{relative}/" for one in GUARDED)
