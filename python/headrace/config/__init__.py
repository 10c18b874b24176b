"""The configuration: one TOML file, one schema, references to secrets, and a clear no with its line.

The file is looked for at `--config`, `HEADRACE_CONFIG` and the user's configuration directory; never in the working
directory, where a cloned repository could redirect keys.

Never here: policy. What a kind of provider or a selector may be is checked by functions that the caller hands in.
"""

from headrace.config._environment import from_environment, listens
from headrace.config._errors import ConfigurationError, Problem
from headrace.config._load import Check, Source, find, is_loopback, load, parse
from headrace.config._reload import Reloader, stamp_of
from headrace.config._schema import (
    DEFAULT_ON,
    BreakerTable,
    Config,
    Credential,
    DeadlineTable,
    Defaults,
    Key,
    Metrics,
    ModelTable,
    PoolTable,
    Provider,
    RouteTable,
    Server,
    Store,
    Subject,
    guess,
    json_schema,
    validate,
)

__all__ = [
    "DEFAULT_ON",
    "BreakerTable",
    "Check",
    "Config",
    "ConfigurationError",
    "Credential",
    "DeadlineTable",
    "Defaults",
    "Key",
    "Metrics",
    "ModelTable",
    "PoolTable",
    "Problem",
    "Provider",
    "Reloader",
    "RouteTable",
    "Server",
    "Source",
    "Store",
    "Subject",
    "find",
    "from_environment",
    "guess",
    "is_loopback",
    "json_schema",
    "listens",
    "load",
    "parse",
    "stamp_of",
    "validate",
]
