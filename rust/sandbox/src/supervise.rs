//! The two processes after the fork: the supervisor, and the command before its `exec`.
//!
//! 1. Nothing here allocates, locks or panics: only system calls on what [`Prepared`] holds.
//! 2. The supervisor tells what happened by [`Record`]s on one pipe, and hears by single bytes on another. The end of
//!    that other pipe means that its owner is gone: everything is killed.
//! 3. The command's own end is told at once (`X`); the record `D` comes when nothing of it is left.

use std::ffi::{CString, c_char};
use std::os::fd::RawFd;

use seccompiler::BpfProgram;

use crate::limits::KILL_ROUNDS;
use crate::tree::Table;

/// What the children need, all made before the fork.
pub(crate) struct Prepared {
    pub(crate) program: CString,
    /// Pointers into strings that the maker keeps alive, and a null at the end.
    pub(crate) argv: Vec<*const c_char>,
    pub(crate) environment: Vec<*const c_char>,
    pub(crate) directory: CString,
    pub(crate) limits: Vec<(u32, libc::rlimit)>,
    /// Entered in this order: Landlock, then the filters. Empty where bubblewrap does it.
    pub(crate) landlock: Option<RawFd>,
    pub(crate) filters: Vec<BpfProgram>,
    pub(crate) no_new_privileges: bool,
    pub(crate) bubblewrap: bool,
    /// Where a process enters the command's control group by writing `0`.
    pub(crate) group: Option<RawFd>,
    /// Standard input, output and error of the command, then what bubblewrap reads: become 0, 1, 2, 3, …
    pub(crate) descriptors: Vec<RawFd>,
    pub(crate) report: RawFd,
    pub(crate) control: RawFd,
}

/// Why the command did not start: the step that failed, for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Step {
    Fork = 1,
    Pipe,
    Descriptors,
    Directory,
    Limit,
    Privileges,
    Landlock,
    Seccomp,
    Exec,
    Group,
}

impl Step {
    pub(crate) const ALL: [(Step, &'static str); 10] = [
        (Step::Fork, "starting a process"),
        (Step::Pipe, "making a pipe"),
        (Step::Descriptors, "handing over descriptors"),
        (Step::Directory, "entering the directory"),
        (Step::Limit, "setting a limit"),
        (Step::Privileges, "giving up privileges"),
        (Step::Landlock, "entering Landlock"),
        (Step::Seccomp, "installing the seccomp filter"),
        (Step::Exec, "executing the program"),
        (Step::Group, "entering the control group"),
    ];
}

/// One report: a tag, a small number, a large one. Written at once: pipes keep such writes whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) tag: u8,
    pub(crate) step: u8,
    pub(crate) value: i32,
    pub(crate) more: u64,
}

pub(crate) const RECORD_BYTES: usize = 16;

impl Record {
    pub(crate) fn bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        bytes[0] = self.tag;
        bytes[1] = self.step;
        bytes[4..8].copy_from_slice(&self.value.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.more.to_ne_bytes());
        bytes
    }

    pub(crate) fn read(bytes: [u8; RECORD_BYTES]) -> Record {
        let [tag, step, _, _, a, b, c, d, more @ ..] = bytes;
        Record { tag, step, value: i32::from_ne_bytes([a, b, c, d]), more: u64::from_ne_bytes(more) }
    }

    fn send(self, to: RawFd) {
        let bytes = self.bytes();
        // SAFETY: valid for its length. A reader that is gone needs no report.
        unsafe { libc::write(to, bytes.as_ptr().cast(), bytes.len()) };
    }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn failed(step: Step) -> Record {
    Record { tag: b'E', step: step as u8, value: errno(), more: 0 }
}

/// The life of the supervisor, from the fork on. Never returns.
pub(crate) fn supervisor(prepared: &Prepared) -> ! {
    let record = watch(prepared);
    record.send(prepared.report);
    // SAFETY: ends the process without running anything of the interpreter's.
    unsafe { libc::_exit(0) }
}

fn watch(prepared: &Prepared) -> Record {
    // SAFETY: system calls on constants and on descriptors that are ours.
    unsafe {
        default_signals();
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        libc::setsid();
        libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_NAME, c"headrace-jailer".as_ptr(), 0, 0, 0);
    }
    let mut started = [0; 2];
    // SAFETY: the array has room for two descriptors.
    if unsafe { libc::pipe2(started.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return failed(Step::Pipe);
    }
    // SAFETY: this process has one thread, and the child calls only what is below.
    let child = unsafe { libc::fork() };
    if child < 0 {
        return failed(Step::Fork);
    }
    if child == 0 {
        command(prepared, started[1]);
    }
    // Another command's pipes would never end while this process holds a copy of them.
    let mut bytes = [0; RECORD_BYTES];
    // SAFETY: ours; the read ends when the child has executed (the descriptor closes there) or has failed.
    let read = unsafe {
        libc::close(started[1]);
        libc::read(started[0], bytes.as_mut_ptr().cast(), bytes.len())
    };
    close_but(0, [prepared.report, prepared.control]);
    if usize::try_from(read) == Ok(RECORD_BYTES) {
        return Record::read(bytes);
    }
    Record { tag: b'S', step: 0, value: child, more: 0 }.send(prepared.report);
    wait(prepared, child)
}

/// Waits for the command, hears the owner, kills what is left.
fn wait(prepared: &Prepared, child: i32) -> Record {
    // SAFETY: the child is not reaped yet, so the number is its own.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child, 0) };
    let mut polled = [
        libc::pollfd { fd: prepared.control, events: libc::POLLIN, revents: 0 },
        libc::pollfd { fd: i32::try_from(handle).unwrap_or(-1), events: libc::POLLIN, revents: 0 },
    ];
    loop {
        // SAFETY: the array is valid for its length.
        unsafe { libc::poll(polled.as_mut_ptr(), 2, -1) };
        if polled[1].revents != 0 {
            break;
        }
        if polled[0].revents != 0 {
            let mut order = 0_u8;
            // SAFETY: one byte of room.
            let read = unsafe { libc::read(prepared.control, (&raw mut order).cast(), 1) };
            let signal = match order {
                b'I' => libc::SIGINT,
                b'T' => libc::SIGTERM,
                _ => libc::SIGKILL,
            };
            if read != 1 || signal == libc::SIGKILL {
                break;
            }
            tell_all(prepared, child, signal);
        }
    }
    let mut reaped = Reaped { child, ended: None, others: 0 };
    reaped.take();
    if let Some((status, processor)) = reaped.ended {
        Record { tag: b'X', step: 0, value: status, more: processor }.send(prepared.report);
    }
    let told = reaped.ended.is_some();
    kill_all(&mut reaped);
    if let (false, Some((status, processor))) = (told, reaped.ended) {
        Record { tag: b'X', step: 0, value: status, more: processor }.send(prepared.report);
    }
    Record { tag: b'D', step: 0, value: reaped.others, more: 0 }
}

/// Passes a signal to everything below. Not to bubblewrap itself, which would take its namespace down with it.
fn tell_all(prepared: &Prepared, child: i32, signal: i32) {
    // SAFETY: no preconditions.
    let own = unsafe { libc::getpid() };
    let mut table = Table::new();
    table.scan();
    table.below(own, |process| {
        if !(prepared.bubblewrap && process.pid == child) {
            // SAFETY: it is below us, and only we reap what ends.
            unsafe { libc::kill(process.pid, signal) };
        }
    });
}

struct Reaped {
    child: i32,
    /// Wait status, and microseconds of processor time of it and of what it waited for.
    ended: Option<(i32, u64)>,
    others: i32,
}

impl Reaped {
    /// Takes every child that has ended. Returns whether any is left alive.
    fn take(&mut self) -> bool {
        loop {
            let mut status = 0;
            // SAFETY: plain old data, filled by the call.
            let mut spent: libc::rusage = unsafe { std::mem::zeroed() };
            // SAFETY: both are valid for writing.
            let pid = unsafe { libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut spent) };
            if pid <= 0 {
                return pid == 0;
            }
            if pid == self.child {
                let micros =
                    |time: libc::timeval| time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_usec.cast_unsigned();
                self.ended = Some((status, micros(spent.ru_utime) + micros(spent.ru_stime)));
            } else {
                self.others += 1;
            }
        }
    }
}

/// Kills group by group until nothing is left: a signal to a group meets its members and what they are forking at once,
/// so that a fork bomb cannot outrun it. A group cannot leave its session, and every session below us began below us.
fn kill_all(reaped: &mut Reaped) {
    // SAFETY: no preconditions.
    let own = unsafe { libc::getpid() };
    let mut table = Table::new();
    for _ in 0..KILL_ROUNDS {
        // SAFETY: the command's own group, led by a child of ours: it exists or nothing happens.
        unsafe { libc::kill(-reaped.child, libc::SIGKILL) };
        table.scan();
        table.below(own, |process| {
            if process.group != own && !process.zombie {
                // SAFETY: as said above; what is not ours to kill, the kernel refuses.
                unsafe { libc::kill(-process.group, libc::SIGKILL) };
            }
        });
        if !reaped.take() {
            return;
        }
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 500_000 };
        // SAFETY: valid for reading; the rest is not asked for.
        unsafe { libc::nanosleep(&raw const pause, std::ptr::null_mut()) };
    }
}

/// A handler of the interpreter's must not run here.
unsafe fn default_signals() {
    // SAFETY: plain old data; every signal has a default, and the calls that fail (9, 19) change nothing.
    unsafe {
        for signal in 1..=64 {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// The command, up to its `exec`. Never returns.
fn command(prepared: &Prepared, started: RawFd) -> ! {
    let mut placed = Placed { started, landlock: prepared.landlock };
    let step = become_it(prepared, &mut placed);
    failed(step).send(placed.started);
    // SAFETY: as in `supervisor`.
    unsafe { libc::_exit(127) }
}

/// Where the descriptors stand that the command must not have: both close with `exec`.
struct Placed {
    started: RawFd,
    landlock: Option<RawFd>,
}

fn become_it(prepared: &Prepared, placed: &mut Placed) -> Step {
    // SAFETY: system calls on descriptors, strings and structures that `prepared` keeps.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::setpgid(0, 0);
        // If the supervisor is killed, so is the command.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        if let Some(group) = prepared.group
            && libc::write(group, c"0".as_ptr().cast(), 1) != 1
        {
            return Step::Group;
        }
        if !hand_over(prepared, placed) {
            return Step::Descriptors;
        }
        if libc::chdir(prepared.directory.as_ptr()) != 0 {
            return Step::Directory;
        }
        for (resource, limit) in &prepared.limits {
            if libc::setrlimit(*resource, limit) != 0 {
                return Step::Limit;
            }
        }
        if prepared.no_new_privileges && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 {
            return Step::Privileges;
        }
        if let Some(rules) = placed.landlock
            && libc::syscall(libc::SYS_landlock_restrict_self, rules, 0) != 0
        {
            return Step::Landlock;
        }
        for filter in &prepared.filters {
            let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut().cast() };
            if libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) != 0 {
                return Step::Seccomp;
            }
        }
        libc::execve(prepared.program.as_ptr(), prepared.argv.as_ptr(), prepared.environment.as_ptr());
    }
    Step::Exec
}

/// Puts the descriptors at 0, 1, 2, … and closes everything but them and what is [`Placed`].
///
/// All are copied to free numbers above first, so that none is overwritten before it has moved.
unsafe fn hand_over(prepared: &Prepared, placed: &mut Placed) -> bool {
    // SAFETY: descriptors that are open here; a copy takes a free number and harms nobody.
    let above = |fd: RawFd| unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, ABOVE) };
    let mut copies = [-1; HANDED_OVER];
    for (copy, fd) in copies.iter_mut().zip(&prepared.descriptors) {
        *copy = above(*fd);
        if *copy < 0 {
            return false;
        }
    }
    let started = above(placed.started);
    let landlock = placed.landlock.map(above);
    if started < 0 || landlock.is_some_and(|fd| fd < 0) {
        return false;
    }
    *placed = Placed { started, landlock };
    let count = prepared.descriptors.len();
    for (at, copy) in copies[..count].iter().enumerate() {
        // SAFETY: what stood at these low numbers was the parent's and is not used any more.
        if unsafe { libc::dup2(*copy, (at as u32).cast_signed()) } < 0 {
            return false;
        }
    }
    close_but(count as u32, [started, landlock.unwrap_or(started)]);
    true
}

/// Descriptors that a command is given at most: three of its own, two filters and a status for bubblewrap.
pub(crate) const HANDED_OVER: usize = 6;
const ABOVE: RawFd = 16;

/// Closes every descriptor from a number on, but two.
fn close_but(mut from: u32, mut keep: [RawFd; 2]) {
    keep.sort_unstable();
    for fd in keep {
        let fd = fd.cast_unsigned();
        if fd > from {
            // SAFETY: nobody uses them from here on.
            unsafe { libc::syscall(libc::SYS_close_range, from, fd - 1, 0) };
        }
        from = from.max(fd + 1);
    }
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_close_range, from, u32::MAX, 0) };
}
