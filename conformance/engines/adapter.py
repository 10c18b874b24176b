"""What every Python adapter does: versions first, then a line of outcome for a line of case.

Standard library only: it runs in the environment of the library that it asks.
"""

import json
import sys
import traceback
from importlib.metadata import version

HI = "Open the lock."


class NotOffered(Exception):
    """The library does not read this."""


def serve(packages, read):
    """Answer cases until there are no more. `read(case)` gives an outcome, or raises what the library raises."""
    out, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    print(json.dumps({"versions": {name: version(name) for name in packages}}), file=out, flush=True)
    for line in sys.stdin:
        case = json.loads(line)
        try:
            outcome = read(case)
        except NotOffered as word:
            outcome = {"not_offered": str(word)}
        except Exception as error:  # any class: it is the library's way to say that the answer failed
            outcome = {"error": {"type": type(error).__name__}}
            traceback.print_exc()
        print(json.dumps({"case": case["case"], "outcome": outcome}, default=str), file=out, flush=True)


def only(case, *families):
    """Refuse the families that the library does not read."""
    if case["family"] not in families:
        raise NotOffered("no client for this family")


def call(name, arguments, id=None):
    return {"id": id, "name": name, "arguments": arguments}


def usage(input, output, cached=None, reasoning=None):
    return {"input": input, "output": output, "cached": cached, "reasoning": reasoning}
