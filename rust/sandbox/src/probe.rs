//! Which tiers this machine can give: found out by running something in each.

use std::io::Read;
use std::path::PathBuf;

use crate::confine::landlock;
use crate::spawn::{Report, spawn};
use crate::spec::{Limits, Spec, Tier};

/// What was found. A tier that is not there says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Tier A, or why not.
    pub bubblewrap: Result<(), String>,
    /// Tier B, or why not.
    pub landlock: Result<(), String>,
    /// The version of Landlock; 0 where there is none.
    pub landlock_abi: i32,
    /// What tier B leaves open on this kernel.
    pub gaps: Vec<&'static str>,
}

/// Runs `/bin/true` in both tiers. Blocks for some tens of milliseconds.
#[must_use]
pub fn probe() -> Probe {
    let abi = landlock::abi();
    let mut gaps = Vec::new();
    if abi < landlock::TCP_ABI {
        gaps.push("TCP is denied by seccomp alone");
    }
    if abi < landlock::SCOPE_ABI {
        gaps.push("signals to the user's other processes are not denied");
    }
    Probe { bubblewrap: try_tier(Tier::A), landlock: try_tier(Tier::B), landlock_abi: abi, gaps }
}

fn try_tier(tier: Tier) -> Result<(), String> {
    let spec = Spec {
        tier,
        argv: vec!["/bin/true".into()],
        environment: Vec::new(),
        directory: "/".into(),
        read: ["/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache"].map(PathBuf::from).into(),
        write: Vec::new(),
        read_only: Vec::new(),
        network: false,
        merged: true,
        input: false,
        limits: Limits::default(),
        group: None,
    };
    let mut running = spawn(&spec).map_err(|error| error.to_string())?;
    let mut said = String::new();
    let output = running.output.try_clone().map_err(|error| error.to_string())?;
    // What cannot be read is only the words of a failure.
    let _ = std::fs::File::from(output).read_to_string(&mut said);
    match running.report() {
        Report::Ended { code: Some(0), .. } => Ok(()),
        other if said.trim().is_empty() => Err(format!("/bin/true did not run in it: {other:?}")),
        _ => Err(said.trim().lines().next_back().unwrap_or_default().to_owned()),
    }
}
