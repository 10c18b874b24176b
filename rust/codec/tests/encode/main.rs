//! Encoders: what each client protocol's clients get for given events.

mod chat;
mod errors;
mod gemini;
mod messages;
mod properties;
mod responses;
mod roundtrip;
mod support;
mod table;
mod tools;
