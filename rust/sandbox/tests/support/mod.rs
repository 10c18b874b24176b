//! Running commands in a tier, in a workspace of their own.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::io::Read;
use std::path::{Path, PathBuf};

use headrace_sandbox::{Limits, Report, Spec, Tier, probe, spawn};

/// A folder that goes away, writable for everybody: the suite also runs as another user.
pub struct Workspace(PathBuf);

impl Workspace {
    pub fn new(name: &str) -> Workspace {
        let user = user();
        let path = std::env::temp_dir().join(format!("headrace-sandbox-{}-{user}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("work")).expect("a temporary folder");
        std::fs::create_dir_all(path.join("elsewhere")).expect("a folder outside");
        std::fs::write(path.join("outside"), "secret of the outside").expect("a file outside");
        Workspace(path.canonicalize().expect("it is there"))
    }

    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    pub fn elsewhere(&self) -> PathBuf {
        self.0.join("elsewhere")
    }

    pub fn outside(&self) -> PathBuf {
        self.0.join("outside")
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn user() -> u32 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").map_or(0, |own| own.uid())
}

/// Runs this test's binary again as an unprivileged user, for the tests named `as_anybody::…` that root leaves out.
///
/// Says so, loudly, where there is nobody to become.
pub fn again_as_nobody() {
    if user() != 0 {
        return;
    }
    let own = std::env::current_exe().expect("it runs");
    let copy = std::env::temp_dir().join(format!("{}-nobody", own.file_name().expect("a file").display()));
    std::fs::copy(&own, &copy).expect("a copy that nobody may read");
    let ran = std::process::Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["--include-ignored", "--skip", "again_as_nobody", "--test-threads=1"])
        .current_dir("/")
        .status();
    let _ = std::fs::remove_file(&copy);
    match ran {
        Ok(status) => assert!(status.success(), "as nobody: {status}"),
        Err(error) => println!("SKIPPED: not run as an unprivileged user: setpriv: {error}"),
    }
}

pub fn spec(tier: Tier, workspace: &Path, script: &str) -> Spec {
    Spec {
        tier,
        argv: ["/bin/sh", "-c", script].map(Into::into).into(),
        environment: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        directory: workspace.into(),
        read: ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives"]
            .map(PathBuf::from)
            .into(),
        write: vec![workspace.into()],
        read_only: Vec::new(),
        network: false,
        merged: false,
        input: false,
        limits: Limits::default(),
        group: None,
    }
}

#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub left_behind: u32,
    pub output: String,
    pub error: String,
}

pub fn run(spec: &Spec) -> Ran {
    let mut running = spawn(spec).expect("it starts");
    let read = |fd: &std::os::fd::OwnedFd| {
        let mut file = std::fs::File::from(fd.try_clone().expect("a copy"));
        std::thread::spawn(move || {
            let mut text = Vec::new();
            file.read_to_end(&mut text).expect("it can be read");
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let (output, error) = (read(&running.output), read(running.error.as_ref().expect("not merged")));
    let (mut code, mut signal) = (None, None);
    let left_behind = loop {
        match running.report() {
            Report::Ended { code: exit, signal: by, .. } => (code, signal) = (exit, by),
            Report::Done { left_behind } => break left_behind,
            other => panic!("{other:?}: {}", error.join().expect("a reader")),
        }
    };
    Ran { code, signal, left_behind, output: output.join().expect("a reader"), error: error.join().expect("a reader") }
}

/// The tiers that confine, as far as this machine has them. A tier that it cannot give is skipped, and said so.
pub fn confining() -> Vec<Tier> {
    let found = probe();
    [(Tier::A, found.bubblewrap), (Tier::B, found.landlock)]
        .into_iter()
        .filter_map(|(tier, there)| match there {
            Ok(()) => Some(tier),
            Err(why) => {
                println!("SKIPPED: tier {tier:?} is not to be had here: {why}");
                None
            }
        })
        .collect()
}

/// All of them, and the one that confines nothing.
pub fn every() -> Vec<Tier> {
    let mut tiers = confining();
    tiers.push(Tier::C);
    tiers
}
