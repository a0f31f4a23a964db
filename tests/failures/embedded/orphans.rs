//! No death of a single process leaves a server: of the owner at any moment, of the guard, of one of its watchers.

use std::os::unix::fs::PermissionsExt;

use super::{Owner, Scratch, eventually, open_to_all, runs};
use support::prelude::*;

/// A server that hears INT and QUIT only a while after its start, as on a busy machine: until then it ignores them, as
/// every background command of a shell does.
fn slow_server(scratch: &Path) -> String {
    let output = Command::new("pg_config").arg("--bindir").output();
    let configured = output.map(|output| String::from_utf8(output.stdout).unwrap().trim().to_owned());
    let real = std::env::var("PG_BINDIR").or(configured).unwrap();
    let binaries = scratch.join("bin");
    fs::create_dir(&binaries).unwrap();
    std::os::unix::fs::symlink(format!("{real}/initdb"), binaries.join("initdb")).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] || {{ echo $$ >{scratch}/started; sleep 1; }}\nexec {real}/postgres \"$@\"\n",
        scratch = scratch.display()
    );
    let postgres = binaries.join("postgres");
    fs::write(&postgres, script).unwrap();
    fs::set_permissions(&postgres, fs::Permissions::from_mode(0o755)).unwrap();
    binaries.to_str().unwrap().to_owned()
}

#[test]
fn a_server_that_does_not_hear_its_first_signal_ends_with_its_owner() {
    for (number, is_kept) in [false, true].into_iter().enumerate() {
        let scratch = Scratch::new(&format!("deaf-{number}"));
        open_to_all(&scratch.0);
        let binaries = slow_server(&scratch.0);
        let data = scratch.0.join("data");
        let order = if is_kept { data.to_str().unwrap() } else { "start" };
        let temporary = scratch.0.join("tmp");
        fs::create_dir(&temporary).unwrap();
        open_to_all(&temporary);
        let mut owner =
            Owner::start(order, &[("PG_BINDIR", binaries.as_str()), ("TMPDIR", temporary.to_str().unwrap())]);
        let started = scratch.0.join("started");
        let server = || fs::read_to_string(&started).ok().filter(|text| text.ends_with('\n'));
        eventually("the server is started", || server().is_some());
        let server = server().unwrap().trim().to_owned();
        owner.kill();
        eventually("server and home are gone", || !runs(&server) && fs::read_dir(&temporary).unwrap().next().is_none());
        assert_eq!(data.join("PG_VERSION").exists(), is_kept);
    }
}

#[test]
#[cfg(target_os = "linux")]
fn no_death_of_one_process_leaves_a_server() {
    for victim in 0.. {
        let mut owner = Owner::start("start", &[]);
        let (server, home) = (owner.said("server"), owner.said("home"));
        let group = group_of(&server);
        assert_eq!(group.first(), Some(&leader_of(&server)), "the guard comes first");
        assert!(group.len() >= 4, "{group:?}");
        let victim = group.get(victim);
        if let Some(victim) = victim {
            kill(victim);
            eventually("it is dead", || !runs(victim) || state_of(victim) == Some('Z'));
        }
        owner.kill();
        let left = || group.iter().filter(|process| runs(process)).collect::<Vec<_>>();
        eventually("nothing is left", || left().is_empty() && !Path::new(&home).exists());
        // Each has died once.
        if victim.is_none() {
            break;
        }
    }
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_server_leaves_neither_guard_nor_watchers() {
    let mut owner = Owner::start("start", &[]);
    let (server, home) = (owner.said("server"), owner.said("home"));
    let group = group_of(&server);
    kill(&server);
    let is_over = |process: &String| matches!(state_of(process), None | Some('Z'));
    eventually("only the owner is left", || group.iter().all(is_over) && !Path::new(&home).exists());
    owner.kill();
}

/// The words of a process's `stat` after its name: its state, parent, process group and so on.
fn stat(process: &str) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.split(' ').map(str::to_owned).collect())
}

fn state_of(process: &str) -> Option<char> {
    stat(process)?[0].chars().next()
}

fn leader_of(process: &str) -> String {
    stat(process).expect("it runs")[2].clone()
}

/// The processes of a server's group in the order of their start. The server's own children have groups of their own.
fn group_of(server: &str) -> Vec<String> {
    let leader = leader_of(server);
    let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut group: Vec<_> = processes.filter(|process| stat(process).is_some_and(|stat| stat[2] == leader)).collect();
    // By the time of the start, in ticks. Numbers begin anew at their limit, so they tell only what a tick does not.
    let started = |process: &String| stat(process).and_then(|stat| stat[19].parse::<u64>().ok());
    group.sort_by_key(|process| (*process != leader, started(process), process.parse::<u32>().unwrap()));
    group
}

fn kill(process: &str) {
    assert!(Command::new("sh").args(["-c", "kill -s KILL \"$0\"", process]).status().unwrap().success());
}
