//! # headrace-sandbox: one command, run where it can do no more than it was given
//!
//! 1. A [`Spec`] says everything: the command, its whole environment, what it may read and write, whether it has a
//!    network, its limits. Nothing is inherited that the spec does not name: no variable, no descriptor, no signal handler.
//! 2. The tier is asked for, never chosen here: [`Tier::A`] is bubblewrap with seccomp, [`Tier::B`] Landlock with seccomp,
//!    [`Tier::C`] confines nothing. A tier that this machine cannot give is an error, never a lesser tier.
//! 3. Between fork and exec, and in the supervisor, no memory is allocated and no lock taken: the process that forks has
//!    threads and an interpreter. What the child needs is made before the fork.
//! 4. A supervisor process stands between us and the command. It is a sub-reaper: what the command leaves behind (`setsid`
//!    included) becomes its child and is killed with it. It ends when we end.
//! 5. Limits are the kernel's (`setrlimit`), what they cannot see (memory and processes of the whole tree) is for the
//!    owner to watch by [`usage`], as are wall time and output.
//!
//! Read in this order: [`Spec`], [`probe`], `confine/`, `supervise`, [`Running`].
//!
//! Never add: pyo3, policy, a default path list of somebody's project, threads.

mod confine;
mod limits;
mod probe;
mod spawn;
mod spec;
mod supervise;
mod tree;

pub use probe::{Probe, probe};
pub use spawn::{Report, Running, SpawnError, spawn};
pub use spec::{Limits, Spec, SpecError, Tier};
pub use tree::{Usage, usage};
