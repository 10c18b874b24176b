"""Credentials that get their tokens themselves: who gives them, how a person logs in, who renews them and when.

`Grant` is what is configured, `Tokens` what was got, `VENDORS` the ways to get it. `Keeper` renews: one at a time over
all processes, under the lock of the login's row, and never a request waits that needs no new token.

Never here: which member of a pool is taken, a request to a provider.
"""

from headrace.credentials.oauth._acts import put_login, refresh_login, take_out
from headrace.credentials.oauth._ask import Answer, TokenRequest, ask, client, endpoint
from headrace.credentials.oauth._keeper import Keeper, fetch, login_id
from headrace.credentials.oauth._kept import CHANNEL, SCHEMA, Login, Logins, lock_name
from headrace.credentials.oauth._login import (
    CodeLogin,
    DeviceLogin,
    begin_code,
    begin_device,
    finish_code,
    listen,
    pasted,
    redirected,
    wait_device,
)
from headrace.credentials.oauth._values import Grant, Renewal, TokenError, Tokens, pause, renew_at, useless_at
from headrace.credentials.oauth._vendors import VENDORS, Vendor, check_grant, claims_of, judge, taken

__all__ = [
    "CHANNEL",
    "SCHEMA",
    "VENDORS",
    "Answer",
    "CodeLogin",
    "DeviceLogin",
    "Grant",
    "Keeper",
    "Login",
    "Logins",
    "Renewal",
    "TokenError",
    "TokenRequest",
    "Tokens",
    "Vendor",
    "ask",
    "begin_code",
    "begin_device",
    "check_grant",
    "claims_of",
    "client",
    "endpoint",
    "fetch",
    "finish_code",
    "judge",
    "listen",
    "lock_name",
    "login_id",
    "pasted",
    "pause",
    "put_login",
    "redirected",
    "refresh_login",
    "renew_at",
    "take_out",
    "taken",
    "useless_at",
    "wait_device",
]
