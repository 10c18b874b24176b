"""The library face: one question to a model, its answer as typed events.

    async with headrace.Runtime() as runtime:
        async with runtime.stream(request) as stream:
            async for event in stream:
                ...

`SyncRuntime` is the same without `async`. Both decide with the very `Gateway` that the server uses.

Never here: a tool, a loop over turns, state beyond one request.
"""

from headrace.runtime._asynchronous import Runtime, Stream
from headrace.runtime._call import ModelResult, RefusedError
from headrace.runtime._facts import AttemptFacts, RouteFacts
from headrace.runtime._synchronous import SyncRuntime, SyncStream

__all__ = [
    "AttemptFacts",
    "ModelResult",
    "RefusedError",
    "RouteFacts",
    "Runtime",
    "Stream",
    "SyncRuntime",
    "SyncStream",
]
