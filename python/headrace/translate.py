"""The sans-IO face: bytes to events, events to bytes, one protocol's request to another's.

Nothing here does I/O, knows a clock or makes an id: what such a thing would give is an argument.
"""

from __future__ import annotations

from headrace._bridge import filter_response_headers

__all__ = ["filter_response_headers"]
