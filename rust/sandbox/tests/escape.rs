//! Ways out, each tried in each tier that confines. A script prints ESCAPED where it got out, and TRIED where it came
//! that far at all, so that a script that could not run passes for nothing.
//!
//! A tier that the machine cannot give is skipped, and said so.

mod support;

use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use headrace_sandbox::{Spec, Tier};
use support::{Workspace, confining as tiers, run, spec};

#[test]
fn again_as_nobody() {
    support::again_as_nobody();
}

/// Runs a shell script in every tier; it must try and must not get out.
fn held(name: &str, script: impl Fn(&Workspace) -> String) {
    held_with(name, |spec, workspace| spec.argv = ["/bin/sh", "-c", &script(workspace)].map(Into::into).into());
}

/// The same for Python, where a shell cannot make the system call.
fn held_python(name: &str, script: impl Fn(&Workspace) -> String) {
    held_with(name, |spec, workspace| {
        let script = format!(
            "import ctypes, os, signal, socket, sys\nlibc = ctypes.CDLL(None, use_errno=True)\nprint('TRIED', flush=True)\ntry:\n{}\nexcept OSError as error:\n  print(type(error).__name__, error)",
            script(workspace).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
        );
        spec.argv = ["/usr/bin/python3", "-c", &script].map(Into::into).into();
    });
}

fn held_with(name: &str, change: impl Fn(&mut Spec, &Workspace)) {
    for tier in tiers() {
        let workspace = Workspace::new(&format!("{name}-{tier:?}"));
        let mut spec = spec(tier, &workspace.work(), "");
        change(&mut spec, &workspace);
        let ran = run(&spec);
        assert!(ran.output.contains("TRIED"), "{name} in {tier:?} did not run: {ran:?}");
        assert!(!ran.output.contains("ESCAPED"), "{name} in {tier:?}: {ran:?}");
        let outside = std::fs::read_to_string(workspace.outside()).expect("still there");
        assert_eq!(outside, "secret of the outside", "{name} in {tier:?}");
        let elsewhere = workspace.elsewhere();
        let strange = std::fs::read_dir(&elsewhere).expect("still there").count();
        assert_eq!(strange, 0, "{name} in {tier:?} wrote outside");
    }
}

#[test]
fn a_workspace_can_be_used() {
    // The other tests say what fails; this one says that the sandbox is not merely broken.
    for tier in tiers() {
        let workspace = Workspace::new(&format!("use-{tier:?}"));
        let script = "mkdir -p a/b && echo text > a/b/c && mv a/b/c d && ln d e && ln -s d f && cat f && rm e && chmod +x d && ls > /dev/null && python3 -c 'import json, threading, subprocess; subprocess.run([\"true\"], check=True)' && echo fine";
        let ran = run(&spec(tier, &workspace.work(), script));
        assert_eq!((ran.output.as_str(), ran.code), ("text\nfine\n", Some(0)), "{tier:?}: {}", ran.error);
    }
}

#[test]
fn reading_outside() {
    held("read", |w| format!("echo TRIED; cat '{}' && echo ESCAPED", w.outside().display()));
    held("read-etc", |_| {
        "echo TRIED; for f in /etc/passwd /etc/shadow /etc/gshadow \"$HOME/.ssh/id_rsa\"; do cat $f && echo ESCAPED; done".into()
    });
    held("read-above", |_| "echo TRIED; cat ../outside && echo ESCAPED".into());
}

// In tier A a write to a path outside lands in a private, empty root that goes away: what counts is the real file,
// which every test looks at in the end.
#[test]
fn writing_outside() {
    held("write", |w| format!("echo TRIED; echo x > '{}'; echo x > ../elsewhere/x; true", w.outside().display()));
    held("append", |w| format!("echo TRIED; echo x >> '{}'", w.outside().display()));
    held("truncate", |w| format!("echo TRIED; truncate -s 0 '{}'", w.outside().display()));
    held("remove", |w| format!("echo TRIED; rm -f '{0}'; [ -e '{0}' ] && echo there", w.outside().display()));
    held("usr", |_| "echo TRIED; echo x > /usr/headrace-was-here && echo ESCAPED; rm -f /usr/headrace-was-here".into());
}

#[test]
fn links_and_renames() {
    held("symlink", |w| {
        format!("echo TRIED; ln -s '{}' link; cat link && echo ESCAPED; echo x > link", w.outside().display())
    });
    held("hardlink", |w| format!("echo TRIED; ln '{}' link && cat link && echo ESCAPED", w.outside().display()));
    held("rename-out", |w| {
        format!(
            "echo TRIED; echo x > x; mv x '{}/x' && [ ! -e x ] && [ -e '{0}/x' ] && echo here",
            w.elsewhere().display()
        )
    });
    held("rename-in", |w| format!("echo TRIED; mv '{}' in && cat in && echo ESCAPED", w.outside().display()));
    held("symlinked-folder", |w| {
        format!("echo TRIED; ln -s '{}' d; echo x > d/x && echo wrote", w.elsewhere().display())
    });
}

#[test]
fn a_link_that_is_swapped_under_an_open() {
    held_python("swap", |w| {
        format!(
            "import threading, time\nout = {:?}\nend = time.monotonic() + 1\nos.mkdir('real')\ndef swap():\n  while time.monotonic() < end:\n    try:\n      os.symlink(out, 't'); os.rename('t', 'd'); os.unlink('d'); os.mkdir('d'); os.rmdir('d')\n    except OSError: pass\nthreading.Thread(target=swap).start()\nwhile time.monotonic() < end:\n  try: open('d/x', 'w').close()\n  except OSError: pass",
            w.elsewhere()
        )
    });
}

#[test]
fn tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let port = listener.local_addr().expect("bound").port();
    held_python("tcp", |_| format!("socket.create_connection(('127.0.0.1', {port}), 1)\nprint('ESCAPED')"));
    listener.set_nonblocking(true).expect("it can");
    assert!(listener.accept().is_err(), "a connection arrived");
    held_python("tcp-listen", |_| "s = socket.socket()\ns.bind(('127.0.0.1', 0))\nprint('ESCAPED')".into());
}

#[test]
fn udp() {
    let peer = UdpSocket::bind("127.0.0.1:0").expect("loopback");
    peer.set_read_timeout(Some(Duration::from_millis(50))).expect("it can");
    let port = peer.local_addr().expect("bound").port();
    held_python("udp", |_| {
        format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))\nprint('SENT')")
    });
    assert!(peer.recv(&mut [0; 8]).is_err(), "a datagram arrived");
}

#[test]
fn unix_sockets() {
    for tier in tiers() {
        let workspace = Workspace::new(&format!("unix-{tier:?}"));
        // Inside the workspace, where the file itself may be opened.
        let path = workspace.work().join("socket");
        let listener = UnixListener::bind(&path).expect("a socket");
        listener.set_nonblocking(true).expect("it can");
        for network in [false, true] {
            let mut spec = spec(tier, &workspace.work(), "");
            spec.network = network;
            let script = "import socket\nprint('TRIED', flush=True)\ns = socket.socket(socket.AF_UNIX)\ns.connect('socket')\nprint('ESCAPED')";
            spec.argv = ["/usr/bin/python3", "-c", script].map(Into::into).into();
            let ran = run(&spec);
            assert!(ran.output.contains("TRIED") && !ran.output.contains("ESCAPED"), "{tier:?}: {ran:?}");
            assert!(listener.accept().is_err(), "a connection arrived");
        }
    }
    held_python("netlink", |_| "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\nprint('ESCAPED')".into());
    held_python("packet", |_| "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)\nprint('ESCAPED')".into());
}

#[test]
fn a_network_can_be_given() {
    // Tier A keeps the machine's own network then; both may connect.
    for tier in tiers() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let workspace = Workspace::new(&format!("net-{tier:?}"));
        let mut spec = spec(tier, &workspace.work(), "");
        spec.network = true;
        let port = listener.local_addr().expect("bound").port();
        let script = format!("import socket; socket.create_connection(('127.0.0.1', {port}), 5).sendall(b'hello')");
        spec.argv = ["/usr/bin/python3", "-c", &script].map(Into::into).into();
        let ran = run(&spec);
        assert_eq!(ran.code, Some(0), "{tier:?}: {ran:?}");
        let mut said = String::new();
        listener.accept().expect("a connection").0.read_to_string(&mut said).expect("it can be read");
        assert_eq!(said, "hello");
    }
}

/// A process outside that a command may wish to touch; its number is real in tier B and means nothing in A.
fn bystander() -> std::process::Child {
    std::process::Command::new("sleep").arg("60").env("PLANTED", "canary-in-environment").spawn().expect("sleep")
}

#[test]
fn other_processes() {
    let mut other = bystander();
    let pid = other.id();
    held_python("kill", |_| format!("os.kill({pid}, signal.SIGKILL)\nprint('ESCAPED')"));
    held_python("ptrace", |_| format!("print('ESCAPED' if libc.ptrace(16, {pid}, 0, 0) == 0 else 'denied')"));
    held_python("memory", |_| format!("open('/proc/{pid}/mem', 'rb').read(1)\nprint('ESCAPED')"));
    held_python("environment", |_| {
        format!("text = open('/proc/{pid}/environ').read()\nprint('ESCAPED' if 'canary' in text else text)")
    });
    held_python("root-by-proc", |_| format!("print(os.listdir('/proc/{pid}/root/etc'), 'ESCAPED')"));
    assert!(other.try_wait().expect("ours").is_none(), "it was killed");
    let _ = other.kill();
    let _ = other.wait();
}

#[test]
fn ourselves_and_the_supervisor() {
    let pid = std::process::id();
    held_python("kill-us", |_| format!("os.kill({pid}, 0)\nprint('ESCAPED')"));
    held_python("our-environment", |_| format!("open('/proc/{pid}/environ').read()\nprint('ESCAPED')"));
    held("supervisor-environment", |_| {
        "echo TRIED; cat /proc/$PPID/environ | tr '\\0' '\\n' | grep -q CARGO && echo ESCAPED".into()
    });
}

#[test]
fn more_rights() {
    let call = |call: &str| format!("print('ESCAPED' if libc.{call} == 0 else 'denied')");
    held_python("unshare", |_| call("unshare(0x10000000)"));
    held_python("mount", |_| call("mount(b'none', b'/usr', b'tmpfs', 0, None)"));
    held_python("chroot", |_| call("chroot(b'/usr')"));
    held_python("setuid", |_| {
        "os.setuid(0 if os.getuid() else 12345)\nprint('ESCAPED' if os.getuid() == 0 and os.path.exists('/etc/shadow') else 'harmless')".into()
    });
    // The number of clone3 is the same on x86-64 and aarch64; its answer must send the C library to `clone`.
    held_python("clone3", |_| {
        "r = libc.syscall(435, None, 0)\nprint('ESCAPED' if r >= 0 or ctypes.get_errno() != 38 else 'absent')".into()
    });
    held_python("io_uring", |_| {
        "print('ESCAPED' if libc.syscall(425, 1, None) >= 0 or ctypes.get_errno() != 1 else 'denied')".into()
    });
    held_python("type-into-the-terminal", |_| "import fcntl\nfcntl.ioctl(0, 0x5412, b'x')\nprint('ESCAPED')".into());
}

#[test]
fn a_set_user_id_program_gains_nothing() {
    held("su", |_| {
        "echo TRIED; for p in su mount newgrp; do p=$(command -v $p) && [ -u $p ] && $p -c id </dev/null && echo ESCAPED; done".into()
    });
    held_python("no-new-privileges", |_| "print('held' if libc.prctl(39, 0, 0, 0, 0) == 1 else 'ESCAPED')".into());
}

#[test]
fn read_only_below_writable() {
    if !tiers().contains(&Tier::A) {
        return;
    }
    let workspace = Workspace::new("readonly");
    std::fs::create_dir(workspace.work().join(".git")).expect("a folder");
    let mut spec = spec(Tier::A, &workspace.work(), "echo x > fine && echo x > .git/hook && echo ESCAPED; ls");
    spec.read_only.push(workspace.work().join(".git"));
    let ran = run(&spec);
    assert_eq!(ran.output, "fine\n", "{ran:?}");
}
