//! Our own fixtures, each beside the events that it must give: whole, byte by byte and at every cut.
//!
//! `HEADRACE_BLESS=1` writes what is missing or differs; look at the difference before you keep it.

mod support;

use std::path::{Path, PathBuf};

use headrace_codec::Protocol;
use headrace_codec::pipeline::{DecoderConfig, End};

fn fixtures(family: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/streams").join(family);
    let folders = ["ok", "bad", "hostile"].map(|folder| root.join(folder));
    let mut found: Vec<PathBuf> = folders.iter().flat_map(|folder| support::files(folder)).collect();
    found.retain(|path| !path.to_string_lossy().ends_with(".expected.jsonl"));
    found.sort();
    found
}

#[test]
fn every_fixture_gives_its_events_at_every_cut() {
    for family in [Protocol::OpenaiChat] {
        let fixtures = fixtures(family.name());
        assert!(fixtures.len() >= 40, "{}: only {} fixtures", family.name(), fixtures.len());
        for path in fixtures {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let bytes = support::bytes(&path);
            let config = || {
                let mut config = DecoderConfig::new(family);
                config.think_tags = name.starts_with("think-tags");
                config
            };
            let whole = support::decode_lines(config(), &[&bytes], End::Eof);
            let single: Vec<&[u8]> = bytes.chunks(1).collect();
            assert_eq!(support::decode_lines(config(), &single, End::Eof), whole, "{name}: byte by byte");
            for cut in 1..bytes.len() {
                let pieces = [&bytes[..cut], &bytes[cut..]];
                assert_eq!(support::decode_lines(config(), &pieces, End::Eof), whole, "{name}: cut at {cut}");
            }
            support::compare(&path.with_extension("expected.jsonl"), &whole);
        }
    }
}
