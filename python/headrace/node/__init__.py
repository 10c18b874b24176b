"""What gateways share through the store: who spent what, which credential is in which state, how much is left.

    node = Node(url, ...)
    await node.start()
    refused = node.admit(key)          # before a request: a limit of its key, or a full journal
    node.settled(...)                  # after it: one row, and one for each attempt
    await node.stop()

1. No request waits for the store, but one whose key has used up its leased block.
2. What happened is committed in groups, within 20 ms; *settled* means committed. A row has one name for ever, so that
   writing it twice is writing it once.
3. While the store is away the node goes on by what it knows: rows go to a local journal, bounded in number and time;
   beyond, new requests are refused.
4. Limits are leased in blocks. What a crash loses of a block counts as spent.

Never here: a decision about providers, a stream's bytes, a secret.
"""

from headrace.node._ledger import Settled
from headrace.node._node import Node
from headrace.node._tables import SCHEMA

__all__ = ["SCHEMA", "Node", "Settled"]
