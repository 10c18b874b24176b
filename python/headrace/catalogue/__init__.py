"""What is known of models: how much they read, what they take and give, what they cost; and which a provider lists.

Never here: a decision, a credential, a request of a client.
"""

from headrace.catalogue._facts import UNKNOWN, Facts, ModelFacts, Prices, as_of

__all__ = ["UNKNOWN", "Facts", "ModelFacts", "Prices", "as_of"]
