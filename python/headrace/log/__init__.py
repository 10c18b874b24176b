"""The event log: append-only, gapless, hash-chained; what a run was, and all that is known of it.

    payloads, model_payloads   what each event says; `upcast` reads what older releases wrote
    records                    the envelope, the chain, and the one check of both
    eventlog, artifacts        over the store: create, append, read, verify, erase; large contents
    seals, jsonl               signatures over the chain; a run as a file
    state, trace, menus        the fold; who did what about an intent; the tools that a request offered

Nothing here asks a model, runs a tool, or says what a model is told.
"""
