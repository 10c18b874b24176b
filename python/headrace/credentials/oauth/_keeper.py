"""Keeps tokens fresh: one refresh at a time over all processes, and none that a request need not wait for.

1. Who refreshes holds the lock of the login's row, and reads it first: mostly another has been there already.
2. Between the endpoint's answer and the commit nothing is done, and nobody calls it off: a request that is left waits
   for nothing, the refresh goes on. What the store could not take is kept here and written as soon as it can.
3. A process that dies in between leaves the old refresh token. The next one tries it: the endpoint takes it, or says
   that it was used, and then a person has to log in again. Nothing is guessed.
4. A final failure makes the credential dead, a passing one exhausted until it is tried again, and both are in the row:
   of N processes one is told no.
5. Tokens are renewed beside the requests some time before their end; clock and randomness are arguments.

Never here: which member of a pool is taken.
"""

from __future__ import annotations

import asyncio
import logging
import secrets as random_bytes
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from headrace.credentials.oauth._ask import ask, client
from headrace.credentials.oauth._kept import CHANNEL, SCHEMA, Login, Logins, lock_name
from headrace.credentials.oauth._values import TokenError, Tokens, pause, renew_at, useless_at
from headrace.credentials.oauth._vendors import VENDORS, judge, taken
from headrace.credentials.sealed import SCHEMA as SECRETS_SCHEMA
from headrace.credentials.sealed import Secrets
from headrace.credentials.state import Mark, Status
from headrace.credentials.vault import VaultError
from headrace.requests import Secret
from headrace.store import StoreConflict, StoreError, StoreUnavailable, open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable

    import httpx

    from headrace.credentials.oauth._values import Grant
    from headrace.credentials.oauth._vendors import Vendor
    from headrace.credentials.pool import Pool
    from headrace.credentials.vault import Vault
    from headrace.store import Store, Transaction

__all__ = ["Keeper", "fetch", "login_id"]

_LOG: Final = logging.getLogger("headrace.oauth")

#: Seconds between two tries of a store that is away, from the first to the slowest.
RETRY_S: Final = 0.25
RETRY_MOST_S: Final = 5.0
#: Seconds that a refresh under way has at a stop.
STOP_S: Final = 20.0
#: Seconds after which the times of renewals are looked at again, whatever they are.
LOOK_S: Final = 60.0
_REASON: Final = "auth"


def login_id() -> str:
    """Name a new login."""
    return random_bytes.token_hex(8)


@dataclass(slots=True, eq=False)
class _Entry:
    """A member of a pool that gets its tokens itself."""

    pool: Pool
    credential: str
    grant: Grant
    vendor: Vendor
    tokens: Tokens | None = None
    login: str = ""
    #: When it is renewed beside the requests, in Unix time.
    due: float | None = None
    failures: int = 0
    task: asyncio.Task[TokenError | None] | None = None
    #: Got and not yet written, with the refresh token that it was got by.
    unsaved: tuple[Login, Tokens, str | None] | None = None

    @property
    def provider(self) -> str:
        return self.pool.provider

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.credential}"

    def ended(self, _task: asyncio.Task[TokenError | None]) -> None:
        self.task = None


class Keeper:
    """Renews tokens. Made anywhere; everything else is called on the event loop that `start` ran on.

    - `url`: the store's.
    - `vault`: gives what seals, when it is first needed.
    - `clock`: seconds since the Unix epoch.
    - `random`: uniform in [0, 1).
    """

    def __init__(
        self,
        url: str,
        *,
        vault: Callable[[], Vault],
        clock: Callable[[], float],
        random: Callable[[], float],
        opener: Callable[[str], Awaitable[Store]] = open_store,
    ) -> None:
        self._url = url
        self._clock = clock
        self._random = random
        self._opener = opener
        self._logins = Logins(Secrets(vault, clock=clock))
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._store: Store | None = None
        self._opening = asyncio.Lock()
        #: By the proxy that they go by, and for whom not.
        self._http: dict[tuple[str, tuple[str, ...]] | None, httpx.AsyncClient] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        #: Set once there is something that other processes may renew.
        self._wanted = asyncio.Event()
        self._stopping = False

    async def start(self) -> None:
        """Read what is there, and begin to renew. Opens no store while no credential needs one."""
        self._loop = asyncio.get_running_loop()
        await self._load_all()
        self._spawn(self._tending())
        self._spawn(self._listening())

    async def stop(self) -> None:
        """End: a refresh under way is waited for, since its answer is the only one."""
        self._stopping = True
        running = [entry.task for entry in self._entries.values() if entry.task is not None]
        if running:
            await asyncio.wait(running, timeout=STOP_S)
        for entry in self._entries.values():
            await self._save_at_last(entry)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for http in self._http.values():
            await http.aclose()
        if self._store is not None:
            await self._store.close()

    def watch(self, pools: Iterable[Pool], /) -> None:
        """Keep the tokens of these pools' members, and of no others."""
        entries: dict[tuple[str, str], _Entry] = {}
        for pool in pools:
            for member in pool.grants():
                grant = member.grant
                vendor = VENDORS.get(grant.kind) if grant is not None else None
                if grant is None or vendor is None:
                    continue
                key = (pool.provider, member.id)
                before = self._entries.get(key)
                if before is not None and before.grant.identity == grant.identity:
                    before.pool = pool
                    entries[key] = before
                else:
                    entries[key] = _Entry(pool, member.id, grant, vendor)
        self._entries = entries
        for entry in entries.values():
            if entry.tokens is not None:
                self._show(entry)
        if any(entry.vendor.shared for entry in entries.values()):
            self._wanted.set()
        if self._loop is not None:
            self._spawn(self._load_all())
            self._changed.set()

    async def renew(self, provider: str, credential: str, refused: Secret | None) -> TokenError | None:
        """Get a member another token than the one that was refused. Says why there is none; then it is marked.

        - `refused`: None: any that can be used will do.

        If cancelled: whoever else waits goes on waiting, and a refresh under way goes on.
        """
        entry = self._entries.get((provider, credential))
        if entry is None or self._stopping:
            return TokenError("nobody gets its tokens now")
        told = refused.reveal() if refused is not None else None
        for _ in range(2):
            if self._serves(entry, entry.tokens, told):
                return None
            if entry.task is None:
                entry.task = self._spawn(self._renewed(entry, told))
                entry.task.add_done_callback(entry.ended)
            wrong = await asyncio.shield(entry.task)
            if wrong is not None:
                return wrong
        # Somebody else's refresh, begun before, gave the very token that was refused.
        return None if self._serves(entry, entry.tokens, told) else TokenError("it has no other token")

    def _serves(self, entry: _Entry, tokens: Tokens | None, refused: str | None) -> bool:
        if tokens is None or tokens.access.reveal() == refused:
            return False
        useless = useless_at(tokens, entry.vendor.renewal)
        return useless is None or self._clock() < useless

    async def _renewed(self, entry: _Entry, refused: str | None, *, early: bool = False) -> TokenError | None:
        """Renew, and mark what came of it.

        - `early`: no request waits; the token that is there still serves.
        """
        try:
            await (self._renew_kept(entry, refused, early=early) if entry.vendor.shared else self._renew_own(entry))
        except TokenError as error:
            self._failed(entry, error, refused, early=early)
            return error
        except (StoreError, VaultError) as error:
            _LOG.warning("the token of %s could not be renewed: %s", entry.name, error)
            passing = TokenError("its tokens cannot be read now: the store is away or its key is missing")
            self._failed(entry, passing, refused, early=early)
            return passing
        return None

    def _failed(self, entry: _Entry, error: TokenError, refused: str | None, *, early: bool) -> None:
        now = self._clock()
        entry.failures += 1
        wait = pause(entry.failures, error.retry_after, self._random)
        entry.due = now + wait if entry.tokens is not None and not error.permanent else None
        _LOG.warning("the token of %s could not be renewed: %s", entry.name, error)
        if error.permanent:
            entry.pool.mark(entry.credential, Mark.dead(_REASON))
        elif not early or not self._serves(entry, entry.tokens, refused):
            mark = Mark.exhausted(_REASON, now + wait, now, failures=entry.failures)
            entry.pool.mark(entry.credential, mark)

    async def _renew_own(self, entry: _Entry) -> None:
        """Renew what belongs to this machine alone."""
        self._take(entry, await self._fetched(entry, entry.tokens), entry.grant.identity)

    async def _renew_kept(self, entry: _Entry, refused: str | None, *, early: bool) -> None:
        store = await self._opened_now()
        got: tuple[Login, Tokens, str | None] | None = None
        used: Tokens | None = entry.tokens
        wrong: TokenError | None = None
        if entry.unsaved is not None:
            # Only we know the newest refresh token.
            await self._save(entry)
        try:
            async with store.transaction() as tx:
                await tx.lock(lock_name(entry.provider, entry.credential))
                login, used = await self._read(tx, entry)
                if self._is_done(entry, used, refused, early=early) and used is not None:
                    self._take(entry, used, login.login)
                    return
                self._may_ask(entry, login)
                try:
                    new = await self._fetched(entry, used)
                except TokenError as error:
                    await self._logins.write(tx, self._refused(login, error), None, self._clock())
                    wrong = error
                else:
                    ready = replace(login, state="ready", reason="", until=None, failures=0)
                    got = ready, new, used.refresh.reveal() if used is not None and used.refresh is not None else None
                    await self._logins.write(tx, ready, new, self._clock())
        except (StoreUnavailable, StoreConflict, VaultError) as error:
            if got is not None:
                # Kept here, used already, written as soon as it can be.
                entry.unsaved = got
                _LOG.warning("the new token of %s could not be written yet: %s", entry.name, error)
                self._spawn(self._saving(entry))
                self._take(entry, got[1], got[0].login)
                return
            if entry.vendor.rotates or isinstance(error, VaultError):
                raise
            # Nothing is used up by asking for it.
            self._take(entry, await self._fetched(entry, used), entry.grant.identity)
            return
        if wrong is not None:
            raise wrong
        if got is not None:
            self._take(entry, got[1], got[0].login)

    async def _read(self, tx: Transaction, entry: _Entry) -> tuple[Login, Tokens | None]:
        """Read the row; another grant's is none."""
        found = await self._logins.read(tx, entry.provider, entry.credential)
        grant = entry.grant
        if found is not None and found[0].identity == grant.identity:
            return found
        login = "" if entry.vendor.login is not None else grant.identity
        return Login(entry.provider, entry.credential, grant.kind, grant.identity, login), None

    def _is_done(self, entry: _Entry, stored: Tokens | None, refused: str | None, *, early: bool) -> bool:
        """Whether another has renewed meanwhile."""
        if stored is None or not self._serves(entry, stored, refused):
            return False
        ours = entry.tokens.access.reveal() if entry.tokens is not None else None
        return not early or stored.access.reveal() != ours

    def _may_ask(self, entry: _Entry, login: Login) -> None:
        if entry.vendor.login is not None and not login.login:
            raise self._nobody(entry)
        if login.state == "dead":
            raise TokenError(login.reason or "it is dead", permanent=True)
        now = self._clock()
        if login.state == "waiting" and login.until is not None and now < login.until:
            raise TokenError(login.reason or "it failed a moment ago", retry_after=login.until - now)

    @staticmethod
    def _nobody(entry: _Entry) -> TokenError:
        return TokenError(f"nobody is logged in: `headrace auth login {entry.name}`", permanent=True)

    def _refused(self, login: Login, error: TokenError) -> Login:
        if error.permanent:
            return replace(login, state="dead", reason=str(error), until=None)
        failures = login.failures + 1
        until = self._clock() + pause(failures, error.retry_after, self._random)
        return replace(login, state="waiting", reason=str(error), until=until, failures=failures)

    async def _fetched(self, entry: _Entry, tokens: Tokens | None) -> Tokens:
        """Ask for tokens. Says in an error what a person can do."""
        way = entry.grant.way
        key = (way.proxy.reveal(), way.past) if way is not None else None
        if key not in self._http:
            self._http[key] = client(way)
        try:
            return await fetch(self._http[key], entry.grant, tokens, self._clock)
        except TokenError as error:
            if error.permanent and entry.vendor.login is not None:
                raise TokenError(f"{error}; log in again: `headrace auth login {entry.name}`", permanent=True) from None
            if error.permanent and entry.vendor.shared:
                hint = f"mend it, then `headrace auth refresh {entry.name}`"
                raise TokenError(f"{error}; {hint}", permanent=True) from None
            raise

    def _take(self, entry: _Entry, tokens: Tokens, login: str) -> None:
        """Use tokens from now on."""
        entry.tokens, entry.login, entry.failures = tokens, login, 0
        entry.due = renew_at(tokens, entry.vendor.renewal, self._random)
        self._show(entry)
        self._changed.set()

    def _show(self, entry: _Entry) -> None:
        tokens, pool = entry.tokens, entry.pool
        if tokens is None:
            return
        before = pool.member(entry.credential)
        anew = before is not None and before.login not in {"", entry.login}
        first = before is not None and not before.login
        useless = useless_at(tokens, entry.vendor.renewal)
        pool.renewed(entry.credential, tokens.access, login=entry.login, useless=useless)
        mark = pool.marks().get((entry.credential, None))
        if mark is not None and mark.reason == _REASON and (mark.status is Status.EXHAUSTED or anew or first):
            pool.lift(entry.credential)

    async def _load_all(self) -> None:
        """Take in what the store has."""
        entries = [entry for entry in self._entries.values() if entry.vendor.shared]
        if not entries:
            return
        try:
            store = await self._opened_now()
            for entry in entries:
                await self._load(store, entry)
        except (StoreError, VaultError) as error:
            _LOG.warning("the tokens could not be read: %s", error)

    async def _load(self, store: Store, entry: _Entry) -> None:
        async with store.transaction(read_only=True) as tx:
            login, tokens = await self._read(tx, entry)
        if entry.unsaved is not None or entry.task is not None:
            return
        if tokens is not None:
            if (
                entry.tokens is None
                or tokens.access.reveal() != entry.tokens.access.reveal()
                or login.login != entry.login
            ):
                self._take(entry, tokens, login.login)
        elif entry.vendor.login is not None and not login.login:
            if entry.tokens is not None:
                # It was taken out.
                entry.tokens, entry.login, entry.due = None, "", None
                entry.pool.renewed(entry.credential, Secret(""), login="", useless=None)
            _LOG.warning("%s: %s", entry.name, self._nobody(entry))
            entry.pool.mark(entry.credential, Mark.dead(_REASON))
        if login.state == "dead":
            entry.due = None
            if not self._serves(entry, entry.tokens, None):
                entry.pool.mark(entry.credential, Mark.dead(_REASON))

    async def _saving(self, entry: _Entry) -> None:
        """Write what the store could not take, as soon as it can."""
        wait = RETRY_S
        while entry.unsaved is not None:
            await asyncio.sleep(wait)
            wait = min(wait * 2, RETRY_MOST_S)
            try:
                await self._save(entry)
            except (StoreError, VaultError) as error:
                _LOG.warning("the new token of %s could not be written yet: %s", entry.name, error)

    async def _save_at_last(self, entry: _Entry) -> None:
        try:
            async with asyncio.timeout(STOP_S):
                await self._save(entry)
        except (StoreError, VaultError, TimeoutError) as error:
            _LOG.error(
                "the new token of %s goes with this process, since the store could not take it (%s): "
                "it may need another login",
                entry.name,
                error,
            )

    async def _save(self, entry: _Entry) -> None:
        if entry.unsaved is None:
            return
        login, tokens, used = entry.unsaved
        store = await self._opened_now()
        async with store.transaction() as tx:
            await tx.lock(lock_name(entry.provider, entry.credential))
            found, stored = await self._read(tx, entry)
            there = stored.refresh.reveal() if stored is not None and stored.refresh is not None else None
            # If it is another than was used, somebody has logged in meanwhile, or it was written after all.
            if found.login == login.login and there == used:
                await self._logins.write(tx, login, tokens, self._clock())
        entry.unsaved = None

    async def _opened_now(self) -> Store:
        async with self._opening:
            if self._store is None:
                store = await self._opener(self._url)
                try:
                    await store.migrate(SECRETS_SCHEMA, SCHEMA)
                except BaseException:
                    await store.close()
                    raise
                self._store = store
            return self._store

    async def _tending(self) -> None:
        """Renew beside the requests what comes to its end."""
        while True:
            now = self._clock()
            times = []
            for entry in self._entries.values():
                if entry.due is None or entry.task is not None or self._is_dead(entry):
                    continue
                if entry.due <= now:
                    entry.task = self._spawn(self._renewed(entry, None, early=True))
                    entry.task.add_done_callback(entry.ended)
                    entry.task.add_done_callback(self._look)
                else:
                    times.append(entry.due - now)
            self._changed.clear()
            try:
                async with asyncio.timeout(min([LOOK_S, *times])):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _look(self, _task: asyncio.Task[Any]) -> None:
        self._changed.set()

    @staticmethod
    def _is_dead(entry: _Entry) -> bool:
        mark = entry.pool.marks().get((entry.credential, None))
        return mark is not None and mark.status is Status.DEAD

    async def _listening(self) -> None:
        """Hear what other processes have renewed."""
        await self._wanted.wait()
        while True:
            try:
                store = await self._opened_now()
                async with store.listen(CHANNEL) as heard:
                    await self._load_all()
                    async for name in heard:
                        provider, _, credential = (name or "").partition("/")
                        entry = self._entries.get((provider, credential))
                        if name is None:
                            await self._load_all()
                        elif entry is not None and entry.vendor.shared:
                            await self._load(store, entry)
            except (StoreError, VaultError) as error:
                _LOG.info("other processes' tokens are not heard of now: %s", error)
                await asyncio.sleep(RETRY_MOST_S)

    def _spawn(self, doing: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(doing)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _LOG.error("a task of the keeper failed", exc_info=error)


async def fetch(http: httpx.AsyncClient, grant: Grant, tokens: Tokens | None, clock: Callable[[], float]) -> Tokens:
    """Ask a vendor for tokens, by what is configured and by those that are there.

    Raises `TokenError`.
    """
    vendor = VENDORS[grant.kind]
    if vendor.prepare is None:
        return await _aws(http, grant, clock)
    # A file may be read and a key used.
    request = await asyncio.to_thread(vendor.prepare, grant, tokens, clock())
    answer = await ask(http, request)
    if (wrong := judge(vendor, answer)) is not None:
        raise wrong
    return taken(vendor, grant, answer, tokens, clock())


async def _aws(http: httpx.AsyncClient, grant: Grant, clock: Callable[[], float]) -> Tokens:
    import os

    from headrace.credentials.aws import AwsCredentialsError, source_of

    try:
        session = await source_of(grant.source or "aws:", os.environ).fetch(http)
    except AwsCredentialsError as error:
        raise TokenError(str(error)) from None
    account = session.secret.reveal().split(":")[0] if ":" in session.secret.reveal() else None
    return Tokens(session.secret, clock(), None, session.expires, account)
