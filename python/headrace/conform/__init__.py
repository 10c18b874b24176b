"""The conformance corpus: read it, judge what an engine made of it, run engines over it, report.

1. The corpus and the adapters of the other engines lie in the repository's `conformance/`, beside the package and not
   in it: `conformance/README.md` has the format, for anyone's runner.
2. An engine only tells what it put together. Judging is here, in one place, and is the same for all.
3. A peer is installed by the ordinary clients of its registry, into a cache folder, and runs in a process of its own
   against a scripted upstream on loopback.

Cases, and anything about one particular peer, must not be added here.
"""

from headrace.conform.corpus import Case, CorpusError, default_corpus, load
from headrace.conform.judge import Verdict, judge
from headrace.conform.ours import outcome_of, read
from headrace.conform.run import Engine, Run, engines_of, run

__all__ = [
    "Case",
    "CorpusError",
    "Engine",
    "Run",
    "Verdict",
    "default_corpus",
    "engines_of",
    "judge",
    "load",
    "outcome_of",
    "read",
    "run",
]
