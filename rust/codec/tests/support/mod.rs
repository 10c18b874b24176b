//! What the tests of this crate share: where the recordings lie, and how to read their rows.
#![allow(dead_code, reason = "each test binary uses its part")]
#![expect(clippy::disallowed_methods, reason = "tests may read files and the environment; the codec may not")]

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The folder of shared material, or `None` with a word on standard error: a skipped test must be seen.
pub fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared");
    let root = std::env::var_os("HEADRACE_SHARED").map_or(beside, PathBuf::from);
    if root.join("recordings").is_dir() {
        return Some(root);
    }
    eprintln!("SKIPPED: no recordings at {} (set HEADRACE_SHARED)", root.display());
    None
}

pub fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The rows of a JSON-lines file.
pub fn rows(path: &Path) -> Vec<Value> {
    let text = String::from_utf8(bytes(path)).expect("UTF-8");
    text.lines().filter(|l| !l.trim().is_empty()).map(|l| serde_json::from_str(l).expect("JSON")).collect()
}

/// The headers that a recording came with.
pub fn headers(row: &Value) -> Vec<(String, String)> {
    let pairs = row["headers"].as_object().into_iter().flatten();
    pairs.map(|(n, v)| (n.clone(), v.as_str().unwrap_or_default().to_owned())).collect()
}
