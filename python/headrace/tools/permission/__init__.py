"""Permission: what may be done, decided by rules, a mode and, where they ask, a person.

`shell` reads lines, `questions` and `acts` say what a call would do, `rules` and `policy` decide, `grants` remembers
what a person allowed, `load` reads the files. Each is pure but `load`.
"""

from headrace.tools.permission.acts import Act, Connect, Mention, Open, Other, Query, Run
from headrace.tools.permission.grants import Grants
from headrace.tools.permission.load import find_files, load_policy, parse_layer
from headrace.tools.permission.policy import LAYERS, MODES, Decision, Layer, Mode, Policy
from headrace.tools.permission.questions import line_acts
from headrace.tools.permission.rules import Rule

__all__ = [
    "LAYERS",
    "MODES",
    "Act",
    "Connect",
    "Decision",
    "Grants",
    "Layer",
    "Mention",
    "Mode",
    "Open",
    "Other",
    "Policy",
    "Query",
    "Rule",
    "Run",
    "find_files",
    "line_acts",
    "load_policy",
    "parse_layer",
]
