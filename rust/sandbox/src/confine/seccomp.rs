//! System calls that no command of ours needs, and sockets.
//!
//! 1. What is denied answers `EPERM`; `clone3` answers `ENOSYS`, since its flags lie in memory that a filter cannot read,
//!    and the C library then uses `clone`.
//! 2. A foreign architecture's calls (32 bit, x32) kill the process: their numbers mean something else.
//! 3. Sockets: none at all without a network, IPv4 and IPv6 with one. A pair of Unix sockets reaches nobody and stays.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::Unavailable;

/// The two programs, in the order in which they are installed.
pub(crate) fn programs(network: bool) -> Result<[BpfProgram; 2], Unavailable> {
    let denied = compile(denied(network)?, libc::EPERM)?;
    let absent = compile(BTreeMap::from([(libc::SYS_clone3, Vec::new())]), libc::ENOSYS)?;
    Ok([denied, absent])
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn compile(rules: Rules, errno: i32) -> Result<BpfProgram, Unavailable> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| Unavailable(format!("no seccomp for the architecture {}", std::env::consts::ARCH)))?;
    SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno.unsigned_abs()), arch)
        .and_then(BpfProgram::try_from)
        .map_err(|error| Unavailable(format!("the seccomp filter: {error}")))
}

fn denied(network: bool) -> Result<Rules, Unavailable> {
    let mut rules: Rules = ALWAYS.iter().map(|call| (*call, Vec::new())).collect();
    // Any namespace flag: a command could otherwise be root in a namespace of its own and mount what it likes.
    let namespaces = NAMESPACES
        .iter()
        .map(|flag| rule(&[(0, SeccompCmpOp::MaskedEq(*flag), *flag)]))
        .collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_clone, namespaces);
    // Typing into the terminal that we were started from.
    rules.insert(
        libc::SYS_ioctl,
        [libc::TIOCSTI, TIOCLINUX]
            .iter()
            .map(|request| rule(&[(1, SeccompCmpOp::Eq, *request)]))
            .collect::<Result<Vec<_>, _>>()?,
    );
    rules.insert(
        libc::SYS_socket,
        if network {
            let not = |family: i32| (0, SeccompCmpOp::Ne, u64::from(family.unsigned_abs()));
            vec![rule(&[not(libc::AF_INET), not(libc::AF_INET6)])?]
        } else {
            Vec::new()
        },
    );
    rules.insert(libc::SYS_socketpair, vec![rule(&[(0, SeccompCmpOp::Ne, u64::from(libc::AF_UNIX.unsigned_abs()))])?]);
    Ok(rules)
}

fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, Unavailable> {
    conditions
        .iter()
        .map(|(index, operator, value)| {
            SeccompCondition::new(*index, SeccompCmpArgLen::Dword, operator.clone(), *value)
        })
        .collect::<Result<Vec<_>, _>>()
        .and_then(SeccompRule::new)
        .map_err(|error| Unavailable(format!("the seccomp filter: {error}")))
}

const TIOCLINUX: u64 = 0x541C;

const NAMESPACES: [u64; 8] = [
    libc::CLONE_NEWNS as u64,
    libc::CLONE_NEWCGROUP as u64,
    libc::CLONE_NEWUTS as u64,
    libc::CLONE_NEWIPC as u64,
    libc::CLONE_NEWUSER as u64,
    libc::CLONE_NEWPID as u64,
    libc::CLONE_NEWNET as u64,
    // CLONE_NEWTIME shares its bit with the exit signal of `clone`; only `unshare` and `clone3` take it, both denied.
    libc::CLONE_PTRACE as u64,
];

/// Denied whatever their arguments.
const ALWAYS: &[i64] = &[
    // other processes' memory and descriptors
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // the file system's shape
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    // namespaces
    libc::SYS_unshare,
    libc::SYS_setns,
    // the kernel's wide surfaces
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_personality,
    libc::SYS_syslog,
    // the machine
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];
