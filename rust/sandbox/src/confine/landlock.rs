//! What a command may open, connect and signal: a Landlock ruleset, as a descriptor that the child enters.
//!
//! Landlock follows the file, not its name: a symbolic link, a rename or a bind mount made later grants nothing.

use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};

use super::Unavailable;
use crate::spec::Spec;

/// The least that makes the tier worth its name: truncation is covered from 3 on.
pub(crate) const LEAST_ABI: i32 = 3;
/// From here on TCP is Landlock's too; seccomp has closed sockets already.
pub(crate) const TCP_ABI: i32 = 4;
/// From here on signals and abstract Unix sockets stay inside.
pub(crate) const SCOPE_ABI: i32 = 6;

/// The highest version that this file knows all rights of.
const KNOWN: ABI = ABI::V6;

/// What the kernel offers: 0 where it has no Landlock.
pub(crate) fn abi() -> i32 {
    const VERSION: libc::c_ulong = 1;
    // SAFETY: with a null attribute, size 0 and this flag the call only answers its version.
    let answer = unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0_usize, VERSION) };
    i32::try_from(answer).unwrap_or(0).max(0)
}

/// Makes the ruleset of a spec. The devices that every program expects (`/dev/null` and its like) are granted.
pub(crate) fn ruleset(spec: &Spec) -> Result<OwnedFd, Unavailable> {
    let failed = |error: &dyn std::fmt::Display| Unavailable(format!("the Landlock ruleset: {error}"));
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))
        .map_err(|error| failed(&error))?;
    if !spec.network {
        rules = rules.handle_access(AccessNet::from_all(KNOWN)).map_err(|error| failed(&error))?;
    }
    let mut rules = rules.scope(Scope::from_all(KNOWN)).and_then(Ruleset::create).map_err(|error| failed(&error))?;
    let read = AccessFs::ReadFile | AccessFs::ReadDir | AccessFs::Execute;
    for path in &spec.read {
        rules = allow(rules, path, read).map_err(|error| failed(&error))?;
    }
    for path in &spec.write {
        // Devices and their ioctls are no part of a workspace.
        let write = AccessFs::from_all(KNOWN) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
        rules = allow(rules, path, write).map_err(|error| failed(&error))?;
    }
    for path in DEVICES {
        let use_it = AccessFs::ReadFile | AccessFs::WriteFile;
        rules = allow(rules, Path::new(path), use_it).map_err(|error| failed(&error))?;
    }
    Option::<OwnedFd>::from(rules).ok_or_else(|| Unavailable("the kernel has no Landlock".into()))
}

/// A path that is not there grants nothing. A file takes only what can be done to a file.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, landlock::RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(KNOWN) };
    rules.add_rule(PathBeneath::new(opened, access))
}

const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
