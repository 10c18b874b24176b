"""One file per kind of provider: how a request to it is prepared. Pure, and no provider's stream is read here."""
