//! A file that tells when it is written to, as Python holds it: a descriptor to wait on (Linux: inotify).
//!
//! Not here: what is done then, and what is done where a file cannot be watched.

use std::path::PathBuf;

use pyo3::prelude::*;

#[cfg(target_os = "linux")]
mod kernel {
    use std::io;
    use std::mem::MaybeUninit;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::path::Path;

    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use rustix::io::Errno;

    pub(super) struct Watch(OwnedFd);

    impl Watch {
        pub(super) fn new(path: &Path) -> io::Result<Self> {
            let fd = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
            // A file that loses its name is another one from then on, though those who have it open still write to it.
            add_watch(
                &fd,
                path,
                WatchFlags::MODIFY | WatchFlags::ATTRIB | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF,
            )?;
            Ok(Self(fd))
        }

        pub(super) fn fileno(&self) -> i32 {
            self.0.as_raw_fd()
        }

        pub(super) fn drain(&self) -> io::Result<bool> {
            let mut buffer = [MaybeUninit::uninit(); 1024];
            let mut reader = Reader::new(&self.0, &mut buffer);
            let mut same = true;
            loop {
                match reader.next() {
                    Ok(event) => same &= event.events() == ReadFlags::MODIFY,
                    Err(Errno::AGAIN) => return Ok(same),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod kernel {
    use std::io;
    use std::path::Path;

    pub(super) struct Watch;

    impl Watch {
        pub(super) fn new(_: &Path) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn fileno(&self) -> i32 {
            -1
        }

        pub(super) fn drain(&self) -> io::Result<bool> {
            Ok(false)
        }
    }
}

/// Readable once the file at a path was written to, or is no longer the one there. `OSError` where it cannot be watched.
#[pyclass(frozen)]
pub struct FileWatchRef(kernel::Watch);

#[pymethods]
impl FileWatchRef {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "made from what Python passes")]
    fn new(path: PathBuf) -> PyResult<Self> {
        Ok(Self(kernel::Watch::new(&path)?))
    }

    fn fileno(&self) -> i32 {
        self.0.fileno()
    }

    /// Take what was told. False: it may not be the same file any more, make a new watch.
    fn drain(&self) -> PyResult<bool> {
        Ok(self.0.drain()?)
    }
}
