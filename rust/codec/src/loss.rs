//! What a translation could not carry over unchanged, said field by field.

use crate::event::codes;

codes! {
    /// What became of a field that the target has no equal for.
    LossAction { Renamed = "renamed", Approximated = "approximated", Dropped = "dropped" }
}

/// One field that did not pass unchanged. Holds a path and never a value: values may be secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Of the source: `tools[2].strict`, `messages[].cache_control`.
    pub path: String,
    pub action: LossAction,
}
