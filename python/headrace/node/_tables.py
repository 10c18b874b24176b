"""The tables of this package, and nothing else."""

from __future__ import annotations

from typing import Final

from headrace.store import Schema

__all__ = ["ATTEMPT_COLUMNS", "REQUEST_COLUMNS", "SCHEMA", "insert"]

REQUEST_COLUMNS: Final = (
    "id",
    "node",
    "at",
    "request_id",
    "gateway_key",
    "asked",
    "provider",
    "model",
    "client_protocol",
    "protocol",
    "status",
    "finish",
    "error",
    "attempts",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "intents",
    "events",
    "bytes_sent",
    "bytes_received",
    "bytes_to_client",
    "decide_s",
    "first_byte_s",
    "total_s",
    "cost_usd",
    "response_id",
    "upstream_request_id",
    "capability",
    "route",
    "credential",
    "began",
)
ATTEMPT_COLUMNS: Final = (
    "request",
    "attempt",
    "provider",
    "model",
    "credential",
    "cause",
    "kind",
    "status",
    "marked",
    "bytes_sent",
    "bytes_received",
    "events",
    "began",
    "ended",
    "usage_known",
    "cost_usd",
)

SCHEMA: Final = Schema(
    "node",
    (
        """CREATE TABLE node_requests (
            id TEXT PRIMARY KEY,
            node TEXT NOT NULL,
            at DOUBLE PRECISION NOT NULL,
            request_id TEXT,
            gateway_key TEXT,
            asked TEXT,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            client_protocol TEXT NOT NULL,
            protocol TEXT NOT NULL,
            status BIGINT NOT NULL,
            finish TEXT,
            error TEXT,
            attempts BIGINT NOT NULL,
            input_tokens BIGINT,
            output_tokens BIGINT,
            cached_input_tokens BIGINT,
            cache_write_tokens BIGINT,
            reasoning_tokens BIGINT,
            intents BIGINT NOT NULL,
            events BIGINT NOT NULL,
            bytes_sent BIGINT NOT NULL,
            bytes_received BIGINT NOT NULL,
            bytes_to_client BIGINT NOT NULL,
            decide_s DOUBLE PRECISION,
            first_byte_s DOUBLE PRECISION,
            total_s DOUBLE PRECISION,
            cost_usd DOUBLE PRECISION,
            response_id TEXT,
            upstream_request_id TEXT)""",
        "CREATE INDEX node_requests_at ON node_requests (at)",
        """CREATE TABLE node_attempts (
            request TEXT NOT NULL,
            attempt BIGINT NOT NULL,
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            credential TEXT,
            cause TEXT,
            kind TEXT,
            status BIGINT,
            marked TEXT,
            bytes_sent BIGINT NOT NULL,
            bytes_received BIGINT NOT NULL,
            events BIGINT,
            began DOUBLE PRECISION,
            ended DOUBLE PRECISION,
            usage_known BIGINT NOT NULL,
            cost_usd DOUBLE PRECISION,
            PRIMARY KEY (request, attempt))""",
        """CREATE TABLE node_states (
            provider TEXT NOT NULL,
            credential TEXT NOT NULL,
            model TEXT NOT NULL,
            status TEXT NOT NULL,
            reason TEXT NOT NULL,
            until_at DOUBLE PRECISION,
            recheck DOUBLE PRECISION,
            failures BIGINT NOT NULL,
            secret TEXT NOT NULL,
            changed DOUBLE PRECISION NOT NULL,
            node TEXT NOT NULL,
            PRIMARY KEY (provider, credential, model))""",
        """CREATE TABLE node_leases (
            name TEXT NOT NULL,
            span BIGINT NOT NULL,
            spent BIGINT NOT NULL,
            granted BIGINT NOT NULL,
            ends DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (name, span))""",
        "ALTER TABLE node_requests ADD COLUMN capability TEXT",
        "ALTER TABLE node_requests ADD COLUMN route TEXT",
        # An attempt that was the only one and answered has nothing that its request's row does not: it is told there,
        # and `began` says so.
        "ALTER TABLE node_requests ADD COLUMN credential TEXT",
        "ALTER TABLE node_requests ADD COLUMN began DOUBLE PRECISION",
        """CREATE VIEW node_every_attempt AS
            SELECT request, attempt, provider, model, credential, cause, kind, status, marked, bytes_sent,
                bytes_received, events, began, ended, usage_known, cost_usd FROM node_attempts
            UNION ALL
            SELECT id, 1, provider, model, credential, NULL, NULL, status, NULL, bytes_sent,
                bytes_received, events, began, began + coalesce(total_s, 0) - coalesce(decide_s, 0),
                CASE WHEN input_tokens IS NULL THEN 0 ELSE 1 END, cost_usd
            FROM node_requests WHERE began IS NOT NULL""",
    ),
)


def insert(table: str, columns: tuple[str, ...]) -> str:
    """Write the statement that adds a row once: one that is there already is left as it is."""
    marks = ", ".join("?" for _ in columns)
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"  # noqa: S608 - our own names
