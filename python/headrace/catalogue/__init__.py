"""What is known of models: how much they read, what they take and give, what they cost; and which a provider lists.

Never here: a decision, a credential, a request of a client.
"""

from headrace.catalogue._facts import UNKNOWN, Facts, ModelFacts, Prices, as_of
from headrace.catalogue._listing import Listed, Listings, ask, read_listing
from headrace.catalogue._lists import Shape, merged, written, written_one

__all__ = [
    "UNKNOWN",
    "Facts",
    "Listed",
    "Listings",
    "ModelFacts",
    "Prices",
    "Shape",
    "as_of",
    "ask",
    "merged",
    "read_listing",
    "written",
    "written_one",
]
