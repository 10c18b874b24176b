//! What to run and what it may touch.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::limits;

/// How a command is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// bubblewrap: namespaces of its own (files, processes, network, users), and seccomp.
    A,
    /// Landlock and seccomp: the machine's own namespaces, but no file, socket or process outside the grant.
    B,
    /// Not confined. Only limits and the supervisor.
    C,
}

/// The kernel's limits on each process of the command. `None` leaves it as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Seconds of processor time of one process.
    pub cpu_seconds: Option<u64>,
    /// Bytes of private writable memory of one process (`RLIMIT_DATA`: address space that is only reserved is free).
    pub memory_bytes: Option<u64>,
    /// Bytes of one file that it writes.
    pub file_bytes: Option<u64>,
    /// Processes and threads beside those that this user has already. The kernel does not hold root to it: for root it
    /// takes a control group ([`Spec::group`]).
    pub processes: Option<u64>,
    /// Open descriptors of one process.
    pub open_files: Option<u64>,
}

/// One command.
#[derive(Clone, Debug)]
pub struct Spec {
    pub tier: Tier,
    /// The program (looked up in `PATH` of `environment` where it has no slash) and its arguments.
    pub argv: Vec<OsString>,
    /// The whole environment.
    pub environment: Vec<(OsString, OsString)>,
    /// Where it starts: absolute.
    pub directory: PathBuf,
    /// Files and folders that it may read and execute. What is not there is left out.
    pub read: Vec<PathBuf>,
    /// Folders and files that it may also write. Each must be there.
    pub write: Vec<PathBuf>,
    /// Below `write`, but only to be read. Tier A only; [`spawn`](crate::spawn) refuses them elsewhere.
    pub read_only: Vec<PathBuf>,
    /// Whether it may use IPv4 and IPv6. Unix sockets by name are never to be had.
    pub network: bool,
    /// Standard error goes where standard output goes, in the order in which it is written.
    pub merged: bool,
    /// Give it a pipe on standard input; else it reads nothing.
    pub input: bool,
    pub limits: Limits,
    /// The `cgroup.procs` of a control group that the command enters before it is executed, with all that it starts.
    pub group: Option<PathBuf>,
}

/// A spec that says something impossible.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpecError {
    Empty,
    Nul(&'static str),
    Relative(PathBuf),
    NotFound(OsString),
    Missing(PathBuf),
    TooLong,
    ReadOnlyNeedsTierA,
    /// The variable's name is empty or has a `=`.
    Variable(OsString),
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpecError::Empty => write!(f, "argv is empty: name a program"),
            SpecError::Nul(field) => write!(f, "{field} holds a NUL byte"),
            SpecError::Relative(path) => write!(f, "{} is not an absolute path", path.display()),
            SpecError::NotFound(program) => write!(f, "no program {} in PATH", program.display()),
            SpecError::Missing(path) => write!(f, "{} is not there", path.display()),
            SpecError::TooLong => write!(f, "arguments and environment exceed {} bytes", limits::ARGUMENT_BYTES),
            SpecError::ReadOnlyNeedsTierA => write!(f, "a read-only path below a writable one needs tier A"),
            SpecError::Variable(name) => write!(f, "{} is no name of a variable", name.display()),
        }
    }
}

impl std::error::Error for SpecError {}

impl Spec {
    /// Refuses what cannot be run. The file system may change after it; the kernel then has the last word.
    pub(crate) fn check(&self) -> Result<(), SpecError> {
        if self.argv.is_empty() || self.argv[0].is_empty() {
            return Err(SpecError::Empty);
        }
        for path in [&self.directory].into_iter().chain(&self.read).chain(&self.write).chain(&self.read_only) {
            if !path.is_absolute() {
                return Err(SpecError::Relative(path.clone()));
            }
        }
        if let Some(path) = self.write.iter().chain([&self.directory]).find(|path| !path.exists()) {
            return Err(SpecError::Missing(path.clone()));
        }
        if !self.read_only.is_empty() && self.tier != Tier::A {
            return Err(SpecError::ReadOnlyNeedsTierA);
        }
        if let Some((name, _)) =
            self.environment.iter().find(|(name, _)| name.is_empty() || name.as_encoded_bytes().contains(&b'='))
        {
            return Err(SpecError::Variable(name.clone()));
        }
        let bytes: usize = self.argv.iter().map(|one| one.len() + 1).sum::<usize>()
            + self.environment.iter().map(|(name, value)| name.len() + value.len() + 2).sum::<usize>();
        if bytes > limits::ARGUMENT_BYTES {
            return Err(SpecError::TooLong);
        }
        Ok(())
    }
}
