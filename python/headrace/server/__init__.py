"""The gateway's process: the edge's listener on one side, the policy on the other, an event loop between.

1. The edge's threads carry every byte; this package runs once when a request is whole, once per failed attempt and
   once at its end, and all that wait at a time are taken together.
2. Policy runs on the main thread's event loop. It is called plainly; a task is made only for what has to wait.
3. Nothing here may take the processor for long: everything that decides stands behind it.

Never here: a decision, a stream's bytes.
"""

from headrace.server._hands import Hands
from headrace.server._serve import GRACE_S, serve

__all__ = ["GRACE_S", "Hands", "serve"]
