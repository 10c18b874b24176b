//! `headrace._core`: the export list, and nothing else.

mod attempt;
mod chain;
mod codec;
mod crypto;
mod encoder;
mod error;
mod events;
mod gateway;
mod request;
mod runtime;
mod sandbox;
mod scripted;
mod text;
mod toml;
mod vectors;
mod watch;

#[pyo3::pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::attempt::{background::BackgroundAttemptRef, blocking::BlockingAttemptRef};
    #[pymodule_export]
    use crate::chain::chain_held;
    #[pymodule_export]
    use crate::codec::{Decoder, code_lists, filter_response_headers};
    #[pymodule_export]
    use crate::crypto::{
        ed25519_public, ed25519_sign, ed25519_verify, hmac_sha256, rsa_sha256_sign, seal, sha256, unseal,
    };
    #[pymodule_export]
    use crate::encoder::{Encoder, Loss, error_reply};
    #[pymodule_export]
    use crate::events::intent::ToolIntentProposed;
    #[pymodule_export]
    use crate::events::kinds::{
        Annotation, Continuation, HostedTool, Media, ModelFinished, ModelStarted, ProviderErrorEvent, ReasoningDelta,
        RefusalDelta, TextDelta, ToolIntentDelta, Usage,
    };
    #[pymodule_export]
    use crate::events::parts::{AssembledFrom, Attach};
    #[pymodule_export]
    use crate::gateway::GatewayRef;
    #[pymodule_export]
    use crate::gateway::config::GatewayConfig;
    #[pymodule_export]
    use crate::gateway::demo::DemoRef;
    #[pymodule_export]
    use crate::gateway::jobs::{BodyRecipe, FailureRef, GatheredRef, RequestRef, SettlementRef};
    #[pymodule_export]
    use crate::request::translate_request;
    #[pymodule_export]
    use crate::runtime::KernelRef;
    #[pymodule_export]
    use crate::sandbox::{SandboxedRef, sandbox_probe};
    #[pymodule_export]
    use crate::scripted::ScriptedRef;
    #[pymodule_export]
    use crate::toml::toml_document;
    #[pymodule_export]
    use crate::vectors::{float_array, pack_floats};
    #[pymodule_export]
    use crate::watch::FileWatchRef;
}
