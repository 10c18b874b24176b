"""The log's tables. What was released is never changed here: a new migration follows it."""

from __future__ import annotations

from typing import Final

from headrace.store import Schema

__all__ = ["SCHEMA"]

SCHEMA: Final = Schema(
    "log",
    (
        """CREATE TABLE log_runs (
            run_id TEXT PRIMARY KEY,
            created_ms BIGINT NOT NULL,
            epoch BIGINT NOT NULL,
            head BIGINT NOT NULL,
            chain BYTEA NOT NULL
        )""",
        """CREATE TABLE log_events (
            run_id TEXT NOT NULL REFERENCES log_runs (run_id),
            seq BIGINT NOT NULL,
            id TEXT NOT NULL,
            at_ms BIGINT NOT NULL,
            epoch BIGINT NOT NULL,
            type TEXT NOT NULL,
            version BIGINT NOT NULL,
            idem TEXT NOT NULL,
            salt BYTEA,
            digest BYTEA NOT NULL,
            chain BYTEA NOT NULL,
            payload BYTEA,
            PRIMARY KEY (run_id, seq),
            UNIQUE (run_id, idem)
        )""",
        """CREATE TABLE log_artifacts (
            digest TEXT PRIMARY KEY,
            size BIGINT NOT NULL,
            encoding TEXT NOT NULL,
            data BYTEA NOT NULL
        )""",
        """CREATE TABLE log_artifact_runs (
            run_id TEXT NOT NULL REFERENCES log_runs (run_id),
            digest TEXT NOT NULL REFERENCES log_artifacts (digest),
            PRIMARY KEY (run_id, digest)
        )""",
        # Most events have no key but their id, which needs no index to be another's: an append writes a page less.
        # Made anew, in both dialects, so that both list their tables in one order.
        """CREATE TABLE log_events_2 (
            run_id TEXT NOT NULL REFERENCES log_runs (run_id),
            seq BIGINT NOT NULL,
            id TEXT NOT NULL,
            at_ms BIGINT NOT NULL,
            epoch BIGINT NOT NULL,
            type TEXT NOT NULL,
            version BIGINT NOT NULL,
            idem TEXT NOT NULL,
            salt BYTEA,
            digest BYTEA NOT NULL,
            chain BYTEA NOT NULL,
            payload BYTEA,
            PRIMARY KEY (run_id, seq)
        );
        INSERT INTO log_events_2 SELECT * FROM log_events;
        DROP TABLE log_events;
        ALTER TABLE log_events_2 RENAME TO log_events;
        CREATE UNIQUE INDEX log_events_key ON log_events (run_id, idem) WHERE idem <> id""",
    ),
)
