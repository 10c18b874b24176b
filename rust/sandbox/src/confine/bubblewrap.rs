//! The command line of bubblewrap: a root that holds only what was granted, and namespaces of its own.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::limits;
use crate::spec::Spec;

/// Descriptors as the child has them when bubblewrap starts; it reads and closes them.
pub(crate) const FILTERS: [i32; 2] = [3, 4];
pub(crate) const STATUS: i32 = 5;

/// Looks where Debian and others put it. Not in `PATH`: who can change that must not choose the jailer.
pub(crate) fn program() -> Option<&'static Path> {
    ["/usr/bin/bwrap", "/bin/bwrap", "/usr/local/bin/bwrap"].into_iter().map(Path::new).find(|path| path.is_file())
}

/// Everything after the program's name, up to and with the command.
pub(crate) fn arguments(spec: &Spec) -> Vec<OsString> {
    let mut line = Line(Vec::new());
    line.flags(&["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"]);
    if !spec.network {
        line.flags(&["--unshare-net"]);
    }
    line.flags(&["--die-with-parent", "--new-session", "--cap-drop", "ALL", "--hostname", "sandbox"]);
    line.flags(&["--proc", "/proc", "--dev", "/dev"]);
    for folder in ["/tmp", "/run"] {
        line.flags(&["--size", limits::PRIVATE_TMP_BYTES, "--tmpfs", folder]);
    }
    for path in sorted(&spec.read) {
        line.at("--ro-bind-try", path);
    }
    for path in sorted(&spec.write) {
        line.at("--bind", path);
    }
    for path in sorted(&spec.read_only) {
        line.at("--ro-bind-try", path);
    }
    for filter in FILTERS {
        line.pair("--add-seccomp-fd", &filter.to_string());
    }
    line.pair("--json-status-fd", &STATUS.to_string());
    line.0.extend(["--chdir".into(), spec.directory.clone().into(), "--".into()]);
    line.0.extend(spec.argv.iter().cloned());
    line.0
}

/// Parents before children, so that a later bind is not hidden by an earlier one's parent.
fn sorted(paths: &[PathBuf]) -> Vec<&Path> {
    let mut paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    paths.sort_unstable();
    paths
}

struct Line(Vec<OsString>);

impl Line {
    fn flags(&mut self, flags: &[&str]) {
        self.0.extend(flags.iter().map(OsString::from));
    }

    fn pair(&mut self, flag: &str, value: &str) {
        self.0.extend([flag.into(), value.into()]);
    }

    fn at(&mut self, flag: &str, path: &Path) {
        // A link such as /bin is made again as a link, so that a path reads the same inside.
        match path.read_link() {
            Ok(target) => self.0.extend(["--symlink".into(), target.into(), path.into()]),
            Err(_) => self.0.extend([flag.into(), path.into(), path.into()]),
        }
    }
}
