//! Starting a command, and what its owner holds of it.

use std::ffi::{CString, OsStr, OsString, c_char};
use std::fmt;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use crate::confine::{Unavailable, bubblewrap, landlock, seccomp};
use crate::spec::{Limits, Spec, SpecError, Tier};
use crate::supervise::{HANDED_OVER, Prepared, RECORD_BYTES, Record, Step, supervisor};

/// Why nothing was started.
#[derive(Debug)]
pub enum SpawnError {
    /// The spec says something impossible.
    Spec(SpecError),
    /// This machine cannot give the tier.
    Tier(String),
    /// A step failed, in the kernel's words.
    Step(&'static str, io::Error),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Spec(error) => error.fmt(f),
            SpawnError::Tier(why) => f.write_str(why),
            SpawnError::Step(step, error) => write!(f, "{step}: {error}"),
        }
    }
}

impl std::error::Error for SpawnError {}

impl From<SpecError> for SpawnError {
    fn from(error: SpecError) -> SpawnError {
        SpawnError::Spec(error)
    }
}

impl From<Unavailable> for SpawnError {
    fn from(error: Unavailable) -> SpawnError {
        SpawnError::Tier(error.0)
    }
}

/// What the supervisor says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// The command itself has ended. What it left behind may still run, for a moment.
    Ended {
        /// Its exit code, where it exited.
        code: Option<i32>,
        /// The signal that killed it, where one did.
        signal: Option<i32>,
        /// Microseconds of processor time, with what it waited for.
        processor_us: u64,
    },
    /// bubblewrap could not make the sandbox; standard error says why.
    NotStarted,
    /// Nothing of it is left. The last report.
    Done {
        /// How many processes it had left behind.
        left_behind: u32,
    },
    /// The supervisor was killed. The last report.
    Lost,
}

/// A command that was started. Dropping it kills everything of it and waits for that (milliseconds).
#[derive(Debug)]
pub struct Running {
    supervisor: i32,
    pub input: Option<OwnedFd>,
    pub output: OwnedFd,
    /// None where the spec is merged.
    pub error: Option<OwnedFd>,
    report: std::fs::File,
    control: std::fs::File,
    /// What bubblewrap says of itself.
    status: Option<std::fs::File>,
    done: bool,
}

impl Running {
    /// The supervisor's process number: for [`usage`](crate::usage).
    #[must_use]
    pub fn supervisor(&self) -> u32 {
        self.supervisor.cast_unsigned()
    }

    /// Readable when there is a report.
    #[must_use]
    pub fn report_fd(&self) -> RawFd {
        self.report.as_raw_fd()
    }

    /// Takes the next report, and waits for it. After the last one it gives that again.
    pub fn report(&mut self) -> Report {
        let mut bytes = [0; RECORD_BYTES];
        let report = match self.report.read_exact(&mut bytes).map(|()| Record::read(bytes)) {
            Ok(Record { tag: b'X', value, more, .. }) => {
                if libc::WIFEXITED(value) && !self.ran() {
                    return Report::NotStarted;
                }
                return Report::Ended {
                    code: libc::WIFEXITED(value).then(|| libc::WEXITSTATUS(value)),
                    signal: libc::WIFSIGNALED(value).then(|| libc::WTERMSIG(value)),
                    processor_us: more,
                };
            }
            Ok(Record { tag: b'D', value, .. }) => Report::Done { left_behind: value.max(0).cast_unsigned() },
            _ => Report::Lost,
        };
        self.reap();
        report
    }

    /// Asks everything of it to stop (`SIGINT`, as Ctrl-C does).
    pub fn interrupt(&mut self) {
        self.order(b'I');
    }

    /// Asks everything of it to end (`SIGTERM`).
    pub fn terminate(&mut self) {
        self.order(b'T');
    }

    /// Kills everything of it. The reports follow.
    pub fn kill(&mut self) {
        self.order(b'K');
    }

    /// Whether bubblewrap came as far as running the command: it then told of its exit code.
    fn ran(&mut self) -> bool {
        let Some(status) = &mut self.status else { return true };
        let mut said = Vec::new();
        // It has ended, so that its end of the pipe is closed and this does not wait.
        let _ = status.read_to_end(&mut said);
        said.windows(9).any(|word| word == b"exit-code")
    }

    fn order(&mut self, order: u8) {
        // A supervisor that is gone has nothing left to stop.
        let _ = self.control.write(&[order]);
    }

    fn reap(&mut self) {
        if !self.done {
            self.done = true;
            // SAFETY: a child of ours that is not reaped yet.
            unsafe { libc::waitpid(self.supervisor, std::ptr::null_mut(), 0) };
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.done {
            self.kill();
            while !matches!(self.report(), Report::Done { .. } | Report::Lost) {}
        }
    }
}

/// Starts a command under a supervisor. Returns when the program was executed (tier A: when bubblewrap was).
///
/// Blocks for a few milliseconds. Call it without an interpreter's lock.
pub fn spawn(spec: &Spec) -> Result<Running, SpawnError> {
    spec.check()?;
    let strings = Strings::of(spec)?;
    let ruleset = if spec.tier == Tier::B { Some(landlock_of(spec)?) } else { None };
    let programs = if spec.tier == Tier::C { None } else { Some(seccomp::programs(spec.network)?) };

    let group = spec.group.as_ref().map(|path| std::fs::File::options().write(true).open(path)).transpose();
    let group = group.map_err(|error| SpawnError::Step("opening the control group", error))?;
    let input = if spec.input { Some(pipe()?) } else { None };
    let null = std::fs::File::open("/dev/null").map_err(|error| SpawnError::Step("opening /dev/null", error))?;
    let error = if spec.merged { None } else { Some(pipe()?) };
    let (output, report, control) = (pipe()?, pipe()?, pipe()?);
    let first = input.as_ref().map_or(null.as_raw_fd(), |pipe| pipe.read.as_raw_fd());
    let mut descriptors = vec![first, output.write.as_raw_fd(), error.as_ref().unwrap_or(&output).write.as_raw_fd()];
    let mut kept = Vec::new();
    let mut status = None;
    if spec.tier == Tier::A {
        for program in programs.as_ref().into_iter().flatten() {
            kept.push(in_memory(program)?);
        }
        let word = pipe()?;
        kept.push(word.write);
        status = Some(std::fs::File::from(word.read));
        descriptors.extend(kept.iter().map(AsRawFd::as_raw_fd));
    }
    debug_assert!(descriptors.len() <= HANDED_OVER);

    let prepared = Prepared {
        program: strings.program.clone(),
        argv: strings.pointers(&strings.argv),
        environment: strings.pointers(&strings.environment),
        directory: c_string(spec.directory.as_os_str(), "directory")?,
        limits: limits(&spec.limits),
        landlock: ruleset.as_ref().map(AsRawFd::as_raw_fd),
        filters: if spec.tier == Tier::B { programs.into_iter().flatten().collect() } else { Vec::new() },
        no_new_privileges: spec.tier != Tier::C,
        bubblewrap: spec.tier == Tier::A,
        group: group.as_ref().map(AsRawFd::as_raw_fd),
        descriptors,
        report: report.write.as_raw_fd(),
        control: control.read.as_raw_fd(),
    };
    // SAFETY: the child makes system calls only and never returns (rule 3 of the crate).
    let supervisor_pid = match unsafe { libc::fork() } {
        -1 => return Err(SpawnError::Step("starting a process", io::Error::last_os_error())),
        0 => supervisor(&prepared),
        pid => pid,
    };
    drop((report.write, control.read, kept));
    let mut running = Running {
        supervisor: supervisor_pid,
        input: input.map(|pipe| pipe.write),
        output: output.read,
        error: error.map(|pipe| pipe.read),
        report: report.read.into(),
        control: control.write.into(),
        status,
        done: false,
    };
    let mut bytes = [0; RECORD_BYTES];
    let first = running.report.read_exact(&mut bytes).map(|()| Record::read(bytes));
    match first {
        Ok(Record { tag: b'S', .. }) => Ok(running),
        Ok(record) => {
            running.reap();
            let step =
                Step::ALL.iter().find(|(step, _)| *step as u8 == record.step).map_or("starting", |(_, name)| name);
            Err(SpawnError::Step(step, io::Error::from_raw_os_error(record.value)))
        }
        Err(error) => {
            running.reap();
            Err(SpawnError::Step("starting the supervisor", error))
        }
    }
}

fn landlock_of(spec: &Spec) -> Result<OwnedFd, Unavailable> {
    let abi = landlock::abi();
    if abi < landlock::LEAST_ABI {
        return Err(Unavailable(format!("tier B needs Landlock {}, this kernel has {abi}", landlock::LEAST_ABI)));
    }
    landlock::ruleset(spec)
}

/// The program and the lists that `exec` takes; owns what the pointers point to.
struct Strings {
    program: CString,
    argv: Vec<CString>,
    environment: Vec<CString>,
}

impl Strings {
    fn of(spec: &Spec) -> Result<Strings, SpawnError> {
        let (program, argv) = if spec.tier == Tier::A {
            let program = bubblewrap::program()
                .ok_or_else(|| Unavailable("tier A needs bubblewrap (bwrap), which is not installed".into()))?;
            let mut argv = vec![OsString::from("bwrap")];
            argv.extend(bubblewrap::arguments(spec));
            (program.as_os_str().to_owned(), argv)
        } else {
            (find(spec)?, spec.argv.clone())
        };
        let environment = spec.environment.iter().map(|(name, value)| {
            let mut line = name.clone();
            line.push("=");
            line.push(value);
            c_string(&line, "environment")
        });
        Ok(Strings {
            program: c_string(&program, "argv")?,
            argv: argv.iter().map(|one| c_string(one, "argv")).collect::<Result<_, _>>()?,
            environment: environment.collect::<Result<_, _>>()?,
        })
    }

    fn pointers(&self, strings: &[CString]) -> Vec<*const c_char> {
        debug_assert!(!self.argv.is_empty());
        strings.iter().map(|one| one.as_ptr()).chain([std::ptr::null()]).collect()
    }
}

fn c_string(text: &OsStr, field: &'static str) -> Result<CString, SpecError> {
    CString::new(text.to_owned().into_vec()).map_err(|_| SpecError::Nul(field))
}

/// The program of a command, by the `PATH` that the command itself will have.
fn find(spec: &Spec) -> Result<OsString, SpecError> {
    let name = &spec.argv[0];
    if name.as_bytes().contains(&b'/') {
        return Ok(name.clone());
    }
    let path = spec.environment.iter().find(|(variable, _)| variable == "PATH").map(|(_, value)| value.as_os_str());
    std::env::split_paths(path.unwrap_or(OsStr::new("/usr/bin:/bin")))
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|file| executable(file))
        .map(Into::into)
        .ok_or_else(|| SpecError::NotFound(name.clone()))
}

fn executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
}

fn pipe() -> Result<Pipe, SpawnError> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors, which are then ours.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(SpawnError::Step("making a pipe", io::Error::last_os_error()));
        }
        Ok(Pipe { read: OwnedFd::from_raw_fd(ends[0]), write: OwnedFd::from_raw_fd(ends[1]) })
    }
}

/// A filter as bubblewrap reads it: the kernel's structures one after another.
fn in_memory(program: &seccompiler::BpfProgram) -> Result<OwnedFd, SpawnError> {
    let failed = |error| SpawnError::Step("writing the seccomp filter", error);
    let bytes: Vec<u8> = program
        .iter()
        .flat_map(|one| [&one.code.to_ne_bytes()[..], &[one.jt, one.jf], &one.k.to_ne_bytes()].concat())
        .collect();
    // SAFETY: a NUL-terminated name; the descriptor is ours.
    let mut file = unsafe {
        let fd = libc::memfd_create(c"seccomp".as_ptr(), libc::MFD_CLOEXEC);
        if fd < 0 {
            return Err(failed(io::Error::last_os_error()));
        }
        std::fs::File::from_raw_fd(fd)
    };
    file.write_all(&bytes).map_err(failed)?;
    io::Seek::rewind(&mut file).map_err(failed)?;
    Ok(file.into())
}

fn limits(limits: &Limits) -> Vec<(u32, libc::rlimit)> {
    let both = |value: u64| libc::rlimit { rlim_cur: value, rlim_max: value };
    let processes = limits.processes.map(|more| more + crate::tree::own_threads());
    [
        // The kernel sends SIGXCPU at the soft limit and SIGKILL at the hard one.
        (libc::RLIMIT_CPU, limits.cpu_seconds.map(|soft| libc::rlimit { rlim_cur: soft, rlim_max: soft + 1 })),
        (libc::RLIMIT_DATA, limits.memory_bytes.map(both)),
        (libc::RLIMIT_FSIZE, limits.file_bytes.map(both)),
        (libc::RLIMIT_NPROC, processes.map(both)),
        (libc::RLIMIT_NOFILE, limits.open_files.map(both)),
        // A core file would hold what the command had in memory.
        (libc::RLIMIT_CORE, Some(both(0))),
    ]
    .into_iter()
    .filter_map(|(resource, limit)| limit.map(|limit| (resource, limit)))
    .collect()
}
