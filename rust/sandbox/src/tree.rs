//! The processes below one, read from `/proc` without allocating: the supervisor does this too.

use crate::limits::{SCANNED_PROCESSES, STAT_BYTES};

/// What a process and all below it hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub processes: u64,
    /// Resident memory, bytes; shared pages count for each process.
    pub resident_bytes: u64,
}

/// Counts what is below `root`, without it.
#[must_use]
pub fn usage(root: u32) -> Usage {
    let page = page_size();
    let mut usage = Usage::default();
    let mut table = Table::new();
    table.scan();
    table.below(root.cast_signed(), |process| {
        usage.processes += 1;
        usage.resident_bytes += process.resident_pages * page;
    });
    usage
}

fn page_size() -> u64 {
    // SAFETY: sysconf has no preconditions.
    u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

#[derive(Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    parent: i32,
    pub(crate) group: i32,
    pub(crate) zombie: bool,
    resident_pages: u64,
    below: bool,
}

/// A snapshot of the process table, in place.
pub(crate) struct Table {
    processes: [Process; SCANNED_PROCESSES],
    count: usize,
}

impl Table {
    #[expect(clippy::large_stack_arrays, reason = "the supervisor must not allocate")]
    pub(crate) fn new() -> Table {
        const NONE: Process = Process { pid: 0, parent: 0, group: 0, zombie: false, resident_pages: 0, below: false };
        Table { processes: [NONE; SCANNED_PROCESSES], count: 0 }
    }

    /// Reads the table anew. What starts or ends meanwhile may be missing: callers scan until nothing changes.
    pub(crate) fn scan(&mut self) {
        self.count = 0;
        // SAFETY: a constant, NUL-terminated path; the descriptor is closed below.
        let folder = unsafe { libc::open(c"/proc".as_ptr(), libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) };
        if folder < 0 {
            return;
        }
        let mut buffer = Aligned([0; 8192]);
        loop {
            // SAFETY: the buffer is valid for its length.
            let read = unsafe { libc::syscall(libc::SYS_getdents64, folder, buffer.0.as_mut_ptr(), buffer.0.len()) };
            let Ok(read @ 1..) = usize::try_from(read) else { break };
            let mut at = 0;
            while at < read {
                // linux_dirent64: ino u64, off i64, reclen u16, type u8, name
                let entry = &buffer.0[at..read];
                let length = usize::from(u16::from_ne_bytes([entry[16], entry[17]]));
                if let Some(pid) = number(&entry[19..length])
                    && let Some(process) = stat(pid)
                    && self.count < SCANNED_PROCESSES
                {
                    self.processes[self.count] = process;
                    self.count += 1;
                }
                at += length;
            }
        }
        // SAFETY: ours, and used no more.
        unsafe { libc::close(folder) };
    }

    /// Calls `each` for every process below `root`. Quadratic in their number: a tree has tens, a bomb some thousands.
    pub(crate) fn below(&mut self, root: i32, mut each: impl FnMut(&Process)) {
        loop {
            let mut found = false;
            for at in 0..self.count {
                let parent = self.processes[at].parent;
                if !self.processes[at].below
                    && (parent == root || self.processes[..self.count].iter().any(|one| one.below && one.pid == parent))
                {
                    self.processes[at].below = true;
                    found = true;
                    each(&self.processes[at]);
                }
            }
            if !found {
                return;
            }
        }
    }
}

#[repr(align(8))]
struct Aligned([u8; 8192]);

/// The number that a NUL-terminated name spells, where it spells one.
fn number(name: &[u8]) -> Option<i32> {
    let end = name.iter().position(|byte| *byte == 0)?;
    if end == 0 {
        return None;
    }
    name[..end].iter().try_fold(0_i32, |number, byte| {
        byte.is_ascii_digit().then(|| number.checked_mul(10)?.checked_add(i32::from(byte - b'0')))?
    })
}

/// Reads `/proc/PID/stat`: `pid (name) state ppid …`, where the name may hold anything, `)` too.
fn stat(pid: i32) -> Option<Process> {
    let mut path = [0_u8; 32];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        path[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(b"/proc/");
    let mut digits = [0_u8; 10];
    let mut first = digits.len();
    let mut rest = pid;
    while rest > 0 {
        first -= 1;
        digits[first] = b'0' + u8::try_from(rest % 10).ok()?;
        rest /= 10;
    }
    put(&digits[first..]);
    put(b"/stat\0");
    let mut bytes = [0_u8; STAT_BYTES];
    // SAFETY: the path is NUL-terminated, the buffer valid for its length, the descriptor ours until closed.
    let read = unsafe {
        let file = libc::open(path.as_ptr().cast(), libc::O_RDONLY | libc::O_CLOEXEC);
        if file < 0 {
            return None;
        }
        let read = libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
        libc::close(file);
        usize::try_from(read).ok()?
    };
    let name_ends = bytes[..read].iter().rposition(|byte| *byte == b')')?;
    let mut words = bytes[name_ends + 1..read].split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let state = words.next()?;
    let parent = decimal(words.next()?)?;
    let group = decimal(words.next()?)?;
    // The group is field 5, resident pages are field 24.
    let resident = decimal(words.nth(24 - 6)?).unwrap_or(0);
    Some(Process {
        pid,
        parent: i32::try_from(parent).ok()?,
        group: i32::try_from(group).ok()?,
        zombie: state == b"Z" || state == b"X",
        resident_pages: resident,
        below: false,
    })
}

fn decimal(word: &[u8]) -> Option<u64> {
    word.iter().try_fold(0_u64, |number, byte| {
        byte.is_ascii_digit().then(|| number.checked_mul(10)?.checked_add(u64::from(byte - b'0')))?
    })
}

/// How many processes and threads this user has: what `RLIMIT_NPROC` counts. Allocates: not for after the fork.
pub(crate) fn own_threads() -> u64 {
    use std::os::unix::fs::MetadataExt;
    // SAFETY: no preconditions.
    let user = unsafe { libc::geteuid() };
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter(|entry| entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit))
        .filter(|entry| entry.metadata().is_ok_and(|found| found.uid() == user))
        .map(|entry| std::fs::read_dir(entry.path().join("task")).map_or(0, |threads| threads.count() as u64))
        .sum()
}
