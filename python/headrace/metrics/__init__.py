"""What a gateway counts of its requests, and the page that whoever watches it reads (`GET /metrics`).

1. A request touches a fixed number of counters, once, at its end. A page is made of them when it is asked for.
2. A label's values are bounded: names of the configuration and words of this package. What a client wrote is none.

Never here: a socket, a clock, a file, a request's or an answer's content.
"""

from headrace.metrics._exposition import Family, Histogram, content_type, page
from headrace.metrics._figures import Metrics
from headrace.metrics._state import Books, books_families, pool_families, running_family
from headrace.metrics._watched import Figures

__all__ = [
    "Books",
    "Family",
    "Figures",
    "Histogram",
    "Metrics",
    "books_families",
    "content_type",
    "page",
    "pool_families",
    "running_family",
]
