//! Cloning a repository.

use std::process::Command;

use super::clients::{Rope, is_without, noise, run};
use super::nginx::Nginx;
use super::program::Place;

#[test]
fn git_clones_a_repository() {
    if is_without(&["nginx", "git"], "git_clones_a_repository") {
        return;
    }
    let place = Place::new();
    let (nginx, rope) = (Nginx::start(&place), Rope::start(&place));
    publish(&place, &nginx);
    let head = git(&place, &["-C", "work", "rev-parse", "HEAD"]);
    for scheme in ["socks5h", "http"] {
        let before = rope.connected(&place);
        let proxy = format!("http.proxy={scheme}://{}", rope.proxy);
        let url = nginx.url("work.git");
        git(&place, &["-c", &proxy, "clone", "--quiet", &url, scheme]);
        assert_eq!(git(&place, &["-C", scheme, "rev-parse", "HEAD"]), head);
        git(&place, &["-C", scheme, "fsck", "--full", "--strict"]);
        let file = std::fs::read(place.path(scheme).join("file")).unwrap();
        assert!(file == noise(COMMITS, SIZE), "{scheme}");
        assert!(rope.connected(&place) > before, "{scheme}");
    }
    rope.end();
}

/// Makes a repository that any web server can serve: some objects are packed and some are loose.
fn publish(place: &Place, nginx: &Nginx) {
    let work = place.folder("work");
    git(place, &["init", "--quiet", "work"]);
    for commit in 1..=COMMITS {
        std::fs::write(work.join("file"), noise(commit, SIZE)).unwrap();
        git(place, &["-C", "work", "add", "file"]);
        let message = format!("commit {commit}");
        git(place, &["-C", "work", "commit", "--quiet", "-m", &message]);
        if commit == COMMITS / 2 {
            git(place, &["-C", "work", "gc", "--quiet"]);
        }
    }
    git(place, &["-C", "work", "update-server-info"]);
    std::fs::rename(work.join(".git"), nginx.path("work.git")).unwrap();
    std::os::unix::fs::symlink(nginx.path("work.git"), work.join(".git")).unwrap();
}

/// Runs git without settings of users or the system, and returns what it wrote.
fn git(place: &Place, arguments: &[&str]) -> String {
    let mut git = Command::new("git");
    git.args(arguments)
        .current_dir(place.folder("."))
        .env("HOME", place.folder("home"))
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "Nobody");
        git.env(format!("GIT_{role}_EMAIL"), "nobody@localhost");
    }
    run(place, &mut git).text()
}

const COMMITS: u64 = 6;
const SIZE: usize = 400_000;
