"""The event log: append-only, gapless, hash-chained; what a run was, and all that is known of it.

The parts: `payloads` says what an event tells.
"""
