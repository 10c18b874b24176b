//! The error codes that vendors put into bodies, one table per family, and the kind that each names.
//!
//! 1. A code is compared without regard to case and without what AWS puts around it
//!    (`com.amazon.coral#ThrottlingException:http://...`); `classify.rs` trims it.
//! 2. Every table is asked for every body: one vendor's code comes through another's gateway, and
//!    no two tables disagree on a code (a test sees to that). Status and wording are `classify.rs`'s.
//! 3. A code ending in `*` stands for all that begin so.
//!
//! Rows only: no wording, no status and no logic may be added here.

use crate::error::ErrorKind;
use crate::error::ErrorKind as K;

/// One code.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub code: &'static str,
    pub kind: ErrorKind,
    /// Does not count where the status or a code says that requests come too fast.
    pub unless_throttled: bool,
}

const fn row(code: &'static str, kind: ErrorKind) -> Row {
    Row { code, kind, unless_throttled: false }
}

const fn calm(code: &'static str, kind: ErrorKind) -> Row {
    Row { code, kind, unless_throttled: true }
}

/// Every table; the order does not matter.
pub(super) const TABLES: [&[Row]; 5] = [OPENAI, ANTHROPIC, GOOGLE, AWS, COMPATIBLE];

/// Chat Completions and Responses, also the `ChatGPT` backend and Azure.
const OPENAI: &[Row] = &[
    row("content_filter", K::ContentFilter),
    row("responsibleaipolicyviolation", K::ContentFilter),
    row("bio_policy", K::ContentFilter),
    row("misalignment_policy_violation", K::ContentFilter),
    row("moderation_blocked", K::ContentFilter),
    row("image_content_policy_violation", K::ContentFilter),
    row("insufficient_quota", K::Quota),
    row("usage_limit_reached", K::Quota),
    row("usage_not_included", K::Quota),
    row("quota_exceeded", K::Quota),
    row("credit_balance_exhausted", K::Quota),
    row("organization_spend_limit_exceeded", K::Quota),
    row("project_spend_limit_exceeded", K::Quota),
    row("organization_usage_limit_exceeded", K::Quota),
    row("billing_hard_limit_reached", K::Quota),
    row("billing_not_active", K::Quota),
    calm("context_length_exceeded", K::ContextLength),
    calm("tokens_limit_reached", K::ContextLength),
    row("server_is_overloaded", K::Overloaded),
    calm("slow_down", K::Overloaded),
    row("rate_limit_exceeded", K::RateLimit),
    row("ratelimitreached", K::RateLimit),
    row("websocket_stream_limit_reached", K::RateLimit),
    // The connection's hour is over: the same request works on a new one.
    row("websocket_connection_limit_reached", K::Overloaded),
    row("invalid_api_key", K::Auth),
    row("vector_store_timeout", K::Timeout),
    row("invalid_request_error", K::BadRequest),
    row("invalid_prompt", K::BadRequest),
    row("cyber_policy", K::BadRequest),
    row("content_policy_violation", K::BadRequest),
    row("data_residency_mismatch", K::BadRequest),
    row("model_not_found", K::BadRequest),
    row("previous_response_not_found", K::BadRequest),
    row("invalid_stream_id", K::BadRequest),
    row("unsupported_parameter", K::BadRequest),
    row("unsupported_value", K::BadRequest),
    row("string_above_max_length", K::BadRequest),
    row("invalid_image*", K::BadRequest),
    row("image_too_large", K::BadRequest),
    row("image_too_small", K::BadRequest),
    row("image_parse_error", K::BadRequest),
    row("image_file_too_large", K::BadRequest),
    row("image_file_not_found", K::BadRequest),
    row("unsupported_image_media_type", K::BadRequest),
    row("empty_image_file", K::BadRequest),
    row("invalid_base64_image", K::BadRequest),
    row("failed_to_download_image", K::BadRequest),
    row("server_error", K::Unknown),
];

/// Messages. The catch-alls keep their place at the end of the walk.
const ANTHROPIC: &[Row] = &[
    row("billing_error", K::Quota),
    row("enforced_spend_limit_reached", K::Quota),
    row("contract_spend_limit_reached", K::Quota),
    row("overloaded_error", K::Overloaded),
    row("rate_limit_error", K::RateLimit),
    row("ramp_limit_exceeded", K::RateLimit),
    row("authentication_error", K::Auth),
    row("permission_error", K::Auth),
    row("timeout_error", K::Timeout),
    row("not_found_error", K::BadRequest),
    row("request_too_large", K::BadRequest),
    row("api_error", K::Unknown),
];

/// Gemini and Vertex: canonical statuses and the reasons of `ErrorInfo`.
const GOOGLE: &[Row] = &[
    row("resource_exhausted", K::RateLimit),
    row("unauthenticated", K::Auth),
    row("permission_denied", K::Auth),
    row("api_key_invalid", K::Auth),
    row("api_key_service_blocked", K::Auth),
    row("unavailable", K::Overloaded),
    row("deadline_exceeded", K::Timeout),
    row("cancelled", K::Aborted),
    row("unimplemented", K::UnsupportedFeature),
    row("invalid_argument", K::BadRequest),
    row("failed_precondition", K::BadRequest),
    row("out_of_range", K::BadRequest),
    row("not_found", K::BadRequest),
    row("internal", K::Unknown),
];

/// Bedrock: the shape names of its exceptions, as header, member or frame type.
const AWS: &[Row] = &[
    row("servicequotaexceeded*", K::Quota),
    row("serviceunavailableexception", K::Overloaded),
    row("modelnotreadyexception", K::Overloaded),
    row("throttlingexception", K::RateLimit),
    row("toomanyrequestsexception", K::RateLimit),
    row("accessdeniedexception", K::Auth),
    row("unrecognizedclientexception", K::Auth),
    row("invalidsignatureexception", K::Auth),
    row("expiredtokenexception", K::Auth),
    row("missingauthenticationtoken*", K::Auth),
    row("modeltimeoutexception", K::Timeout),
    // Rule R17: the stream broke, whatever the model's host says of why.
    row("modelstreamerrorexception", K::StreamInterrupted),
    row("validationexception", K::BadRequest),
    row("resourcenotfoundexception", K::BadRequest),
    row("modelerrorexception", K::Unknown),
    row("internalserverexception", K::Unknown),
];

/// The vendors that speak an `OpenAI` wire, and the servers that people run themselves.
const COMPATIBLE: &[Row] = &[
    // Moonshot
    row("exceeded_current_quota_error", K::Quota),
    row("engine_overloaded_error", K::Overloaded),
    row("rate_limit_reached_error", K::RateLimit),
    // Z.AI
    row("1301", K::ContentFilter),
    row("1113", K::Quota),
    calm("1261", K::ContextLength),
    row("1302", K::RateLimit),
    row("1303", K::RateLimit),
    row("1305", K::RateLimit),
    // DashScope
    row("datainspectionfailed", K::ContentFilter),
    row("data_inspection_failed", K::ContentFilter),
    row("arrearage", K::Quota),
    row("throttling.allocationquota", K::Quota),
    row("throttling*", K::RateLimit),
    row("invalidparameter*", K::BadRequest),
    // MiniMax, in a 200: `base_resp.status_code`, written here as `minimax-CODE`
    row("minimax-1026", K::ContentFilter),
    row("minimax-1027", K::ContentFilter),
    row("minimax-1008", K::Quota),
    calm("minimax-1039", K::ContextLength),
    row("minimax-1002", K::RateLimit),
    row("minimax-1004", K::Auth),
    row("minimax-1001", K::Timeout),
    row("minimax-2013", K::BadRequest),
    row("minimax-1000", K::Unknown),
    // Groq
    row("tool_use_failed", K::MalformedToolCall),
    row("capacity_exceeded", K::Overloaded),
    // Perplexity, Cohere, llama.cpp
    calm("too_many_prompt_tokens", K::ContextLength),
    calm("too_many_tokens", K::ContextLength),
    calm("exceed_context_size_error", K::ContextLength),
    row("not_supported_error", K::UnsupportedFeature),
    // DeepSeek, OpenRouter, Mistral
    row("insufficient_system_resource", K::Overloaded),
    row("provider_overloaded", K::Overloaded),
    row("provider_unavailable", K::Overloaded),
    row("rate_limited", K::RateLimit),
    row("invalid_model", K::BadRequest),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn codes_are_lower_case_and_no_two_rows_disagree() {
        let mut seen = HashMap::new();
        for row in TABLES.iter().flat_map(|t| t.iter()) {
            assert_eq!(row.code, row.code.to_ascii_lowercase());
            assert!(seen.insert(row.code, row.kind).is_none(), "{} stands twice", row.code);
        }
    }
}
