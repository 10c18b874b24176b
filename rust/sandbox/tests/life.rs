//! Starting, ending, killing: nothing of a command survives it.

mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use headrace_sandbox::{Limits, Report, SpawnError, SpecError, Tier, spawn, usage};
use support::{Workspace, every, run, spec};

#[test]
fn output_error_and_code_come_back() {
    for tier in every() {
        let workspace = Workspace::new(&format!("code-{tier:?}"));
        let ran = run(&spec(tier, &workspace.work(), "echo out; echo err >&2; exit 7"));
        assert_eq!((ran.output.as_str(), ran.error.as_str(), ran.code), ("out\n", "err\n", Some(7)), "{tier:?}");
    }
}

#[test]
fn only_the_named_environment_and_descriptors_are_there() {
    let leak = std::fs::File::open("/dev/null").expect("it is there");
    for tier in every() {
        let workspace = Workspace::new(&format!("env-{tier:?}"));
        let mut spec = spec(
            tier,
            &workspace.work(),
            "env; for n in 0 1 2 3 4 5 6 7 8 9; do (: <&$n) 2>/dev/null && echo fd $n; done",
        );
        spec.environment.push(("GIVEN".into(), "yes".into()));
        let ran = run(&spec);
        let mut names: Vec<&str> = ran.output.lines().map(|line| line.split('=').next().unwrap_or(line)).collect();
        names.sort_unstable();
        // PWD is the shell's, `_` its name for what it runs; bubblewrap sets PWD too.
        assert_eq!(names, ["GIVEN", "PATH", "PWD", "fd 0", "fd 1", "fd 2"], "{tier:?}: {}", ran.output);
    }
    drop(leak);
}

#[test]
fn a_child_that_left_the_session_dies_with_the_command() {
    for tier in every() {
        let workspace = Workspace::new(&format!("setsid-{tier:?}"));
        let mark = workspace.work().join("alive");
        let script = "setsid sh -c 'echo $$ > pid; exec sleep 600' </dev/null >/dev/null 2>&1 & while [ ! -s pid ]; do sleep 0.01; done; exit 0";
        let ran = run(&spec(tier, &workspace.work(), script));
        assert_eq!(ran.code, Some(0), "{tier:?}");
        // In tier A the namespace's end has killed it before the supervisor looked.
        assert!(tier == Tier::A || ran.left_behind == 1, "{tier:?}: {}", ran.left_behind);
        assert!(!mark.exists());
        let sleeping = std::fs::read_dir("/proc").expect("proc").flatten().any(|entry| {
            std::fs::read(entry.path().join("cwd/pid")).is_ok()
                && std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == workspace.work())
        });
        assert!(!sleeping, "{tier:?}: it still runs");
    }
}

#[test]
fn one_that_ignores_the_signals_is_killed() {
    for tier in every() {
        let workspace = Workspace::new(&format!("ignore-{tier:?}"));
        let mut running =
            spawn(&spec(tier, &workspace.work(), "trap '' TERM INT; echo up; while :; do sleep 600; done"))
                .expect("it starts");
        let mut up = [0; 3];
        let mut output = std::fs::File::from(running.output.try_clone().expect("a copy"));
        output.read_exact(&mut up).expect("it is up");
        running.terminate();
        assert!(usage(running.supervisor()).processes >= 1);
        running.kill();
        let ended = running.report();
        assert!(
            matches!(ended, Report::Ended { signal: Some(9), .. } | Report::Ended { code: Some(137), .. }),
            "{tier:?}: {ended:?}"
        );
        assert!(matches!(running.report(), Report::Done { .. }), "{tier:?}");
        assert_eq!(usage(running.supervisor()).processes, 0);
    }
}

#[test]
fn a_term_reaches_the_command_in_every_tier() {
    for tier in every() {
        let workspace = Workspace::new(&format!("term-{tier:?}"));
        let script = "trap 'echo told; exit 3' TERM; echo up; while :; do sleep 0.05; done";
        let mut running = spawn(&spec(tier, &workspace.work(), script)).expect("it starts");
        let mut output = std::fs::File::from(running.output.try_clone().expect("a copy"));
        output.read_exact(&mut [0; 3]).expect("it is up");
        running.terminate();
        let mut said = String::new();
        output.read_to_string(&mut said).expect("it can be read");
        assert_eq!(said, "told\n", "{tier:?}");
        assert!(matches!(running.report(), Report::Ended { code: Some(3), .. }), "{tier:?}");
    }
}

#[test]
fn dropping_it_kills_everything() {
    for tier in every() {
        let workspace = Workspace::new(&format!("drop-{tier:?}"));
        let running =
            spawn(&spec(tier, &workspace.work(), "sleep 600 & setsid sleep 600 & sleep 600")).expect("it starts");
        let supervisor = running.supervisor();
        drop(running);
        assert!(!std::path::Path::new(&format!("/proc/{supervisor}")).exists(), "{tier:?}");
    }
}

#[test]
fn a_pipe_feeds_it() {
    for tier in every() {
        let workspace = Workspace::new(&format!("input-{tier:?}"));
        let mut spec = spec(tier, &workspace.work(), "tr a-z A-Z");
        spec.input = true;
        let mut running = spawn(&spec).expect("it starts");
        let mut input = std::fs::File::from(running.input.take().expect("asked for"));
        input.write_all(b"shout").expect("it reads");
        drop(input);
        let mut said = String::new();
        std::fs::File::from(running.output.try_clone().expect("a copy"))
            .read_to_string(&mut said)
            .expect("it can be read");
        assert_eq!(said, "SHOUT", "{tier:?}");
    }
}

#[test]
fn a_control_group_that_cannot_be_entered_is_an_error_and_nothing_runs() {
    for tier in every() {
        let workspace = Workspace::new(&format!("group-{tier:?}"));
        for (group, step) in
            [("/nowhere/cgroup.procs", "opening the control group"), ("/dev/full", "entering the control group")]
        {
            let mut spec = spec(tier, &workspace.work(), "echo x > made");
            spec.group = Some(group.into());
            let said = spawn(&spec).expect_err("it is not entered").to_string();
            assert!(said.starts_with(step), "{tier:?}: {said}");
            assert!(!workspace.work().join("made").exists(), "{tier:?}");
        }
    }
}

#[test]
fn again_as_nobody() {
    support::again_as_nobody();
}

#[test]
#[ignore = "the kernel holds root to no number of processes: run as an unprivileged user"]
fn a_fork_bomb_ends() {
    assert_ne!(support::user(), 0, "not as root: it would take the machine down");
    for tier in every() {
        let workspace = Workspace::new(&format!("bomb-{tier:?}"));
        let mut spec = spec(tier, &workspace.work(), "echo up; b() { b | b & }; while :; do b; sleep 0.01; done");
        spec.limits.processes = Some(60);
        spec.limits.cpu_seconds = Some(2);
        let mut running = spawn(&spec).expect("it starts");
        std::fs::File::from(running.output.try_clone().expect("a copy")).read_exact(&mut [0; 3]).expect("it is up");
        let deadline = Instant::now() + Duration::from_secs(10);
        while usage(running.supervisor()).processes < 30 && Instant::now() < deadline {
            std::thread::yield_now();
        }
        running.kill();
        while !matches!(running.report(), Report::Done { .. }) {}
        assert_eq!(usage(running.supervisor()).processes, 0, "{tier:?}");
    }
}

#[test]
fn limits_hold() {
    for tier in every() {
        let workspace = Workspace::new(&format!("limits-{tier:?}"));
        let mut spec = spec(tier, &workspace.work(), "head -c 3000000 /dev/zero > big; echo $?; ulimit -n; ulimit -c");
        spec.limits = Limits { file_bytes: Some(1 << 20), open_files: Some(64), ..Limits::default() };
        let ran = run(&spec);
        assert!(ran.output.ends_with("\n64\n0\n") && !ran.output.starts_with("0\n"), "{tier:?}: {}", ran.output);
        assert!(workspace.work().join("big").metadata().expect("written in part").len() <= 1 << 20);

        let mut spec = support::spec(tier, &workspace.work(), "while :; do :; done");
        spec.limits.cpu_seconds = Some(1);
        let ran = run(&spec);
        assert!(ran.signal == Some(libc_sigxcpu()) || ran.code == Some(128 + libc_sigxcpu()), "{tier:?}: {ran:?}");

        let mut spec =
            support::spec(tier, &workspace.work(), "exec python3 -c 'b = bytearray(1 << 28); print(len(b))'");
        spec.limits.memory_bytes = Some(1 << 27);
        let ran = run(&spec);
        assert!(ran.output.is_empty() && ran.error.contains("MemoryError"), "{tier:?}: {ran:?}");
    }
}

fn libc_sigxcpu() -> i32 {
    24
}

#[test]
fn a_spec_that_cannot_be_run_is_refused() {
    let workspace = Workspace::new("spec");
    let good = spec(Tier::C, &workspace.work(), "true");
    let refused = |change: &dyn Fn(&mut headrace_sandbox::Spec)| {
        let mut bad = good.clone();
        change(&mut bad);
        spawn(&bad).expect_err("it is refused")
    };
    assert!(matches!(refused(&|s| s.argv.clear()), SpawnError::Spec(SpecError::Empty)));
    assert!(matches!(refused(&|s| s.directory = "relative".into()), SpawnError::Spec(SpecError::Relative(_))));
    assert!(matches!(refused(&|s| s.argv = vec!["no-such-program".into()]), SpawnError::Spec(SpecError::NotFound(_))));
    assert!(matches!(refused(&|s| s.write.push("/no/such/folder".into())), SpawnError::Spec(SpecError::Missing(_))));
    assert!(matches!(refused(&|s| s.argv.push("a\0b".into())), SpawnError::Spec(SpecError::Nul("argv"))));
    assert!(matches!(refused(&|s| s.argv.push("x".repeat(2 << 20).into())), SpawnError::Spec(SpecError::TooLong)));
    assert!(matches!(refused(&|s| s.read_only.push("/usr".into())), SpawnError::Spec(SpecError::ReadOnlyNeedsTierA)));
    assert!(matches!(
        refused(&|s| s.environment.push(("A=B".into(), "c".into()))),
        SpawnError::Spec(SpecError::Variable(_))
    ));
    let error = refused(&|s| s.argv = vec!["/etc".into()]);
    assert_eq!(error.to_string(), "executing the program: Permission denied (os error 13)");
}
