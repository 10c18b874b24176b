//! Every bound of this crate, with its reason.

/// Processes looked at in one scan of the process table. A command's own limit is far below; a machine with more
/// processes than this is scanned in part, which the repeated scans make up for. On the stack: 192 KiB.
pub(crate) const SCANNED_PROCESSES: usize = 8192;

/// Bytes of `/proc/PID/stat` that hold the parent's number: the name before it has 15 bytes at most, or 64 for kernel threads.
pub(crate) const STAT_BYTES: usize = 512;

/// Rounds of killing, half a millisecond apart, before the supervisor gives up on a tree that it cannot kill (another user's process).
pub(crate) const KILL_ROUNDS: u32 = 2000;

/// Arguments and environment together. The kernel's own limit is a quarter of the stack's (2 MiB on the usual 8 MiB).
pub(crate) const ARGUMENT_BYTES: usize = 1 << 20;

/// Bytes of each temporary folder that tier A makes: they lie in memory, and no limit on processes counts them.
pub(crate) const PRIVATE_TMP_BYTES: &str = "268435456";
