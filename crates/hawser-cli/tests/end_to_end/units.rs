//! The units for systemd, judged by its own tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::program::Place;

#[test]
fn units_are_ones_that_systemd_takes() {
    let place = Place::new();
    let folder = units(&place, Which::WithDropIns);
    let units = UNITS.map(|name| folder.join(name));
    let arguments = ["verify", "--man=no"];
    analyze("units_are_ones_that_systemd_takes", &arguments, &units);
}

#[test]
fn services_are_exposed_to_little() {
    let place = Place::new();
    // In tenths. What costs what is told in docs/operations.md.
    for (which, threshold) in [
        (Which::Alone, "--threshold=17"),
        (Which::WithCapture, "--threshold=20"),
        (Which::WithPrograms, "--threshold=20"),
        (Which::WithDropIns, "--threshold=25"),
    ] {
        let folder = units(&place, which);
        for name in UNITS {
            let arguments = ["security", "--offline=true", "--no-pager", threshold];
            analyze(
                "services_are_exposed_to_little",
                &arguments,
                &[folder.join(name)],
            );
        }
    }
}

#[test]
fn units_start_what_there_is() {
    let place = Place::new();
    let folder = units(&place, Which::WithDropIns);
    let mut files = UNITS.map(|name| folder.join(name)).to_vec();
    for name in DROP_INS {
        let drop_ins = std::fs::read_dir(folder.join(name)).unwrap();
        files.extend(drop_ins.map(|file| file.unwrap().path()));
    }
    let texts = files
        .iter()
        .map(|file| std::fs::read_to_string(file).unwrap());
    let starts = |text: String| {
        let lines = text
            .lines()
            .filter_map(|line| line.strip_prefix("ExecStart="));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let starts = texts.flat_map(starts).filter(|start| !start.is_empty());
    let starts: Vec<String> = starts.collect();
    assert_eq!(starts.len(), 5);
    for start in starts {
        // The administrator's flags are empty here; with one more it explains itself and starts
        // nothing.
        let words = start.split(' ').filter(|word| !word.starts_with('$'));
        let words: Vec<&str> = words.chain(["-h"]).collect();
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        assert!(output.status.success(), "{start}: {output:?}");
    }
}

#[test]
fn drop_ins_that_give_the_right_to_load_programs_allow_the_system_call() {
    let place = Place::new();
    let folder = units(&place, Which::WithDropIns);
    let mut found = 0;
    for name in DROP_INS {
        for file in std::fs::read_dir(folder.join(name)).unwrap() {
            let file = file.unwrap().path();
            let text = std::fs::read_to_string(&file).unwrap();
            let set = |key: &str, word: &str| {
                let values = text.lines().filter_map(|line| line.strip_prefix(key));
                values.flat_map(|it| it.split(' ')).any(|it| it == word)
            };
            let may_load = set("AmbientCapabilities=", "CAP_BPF");
            assert_eq!(
                may_load,
                set("SystemCallFilter=", "bpf"),
                "{}",
                file.display()
            );
            found += usize::from(may_load);
        }
    }
    assert!(
        found >= 2,
        "those for captured programs and for fronted ports"
    );
}

#[derive(Clone, Copy, PartialEq)]
enum Which {
    Alone,
    /// With the drop-ins, except the one that identifies programs.
    WithCapture,
    /// With that drop-in.
    WithPrograms,
    WithDropIns,
}

impl Which {
    fn takes(self, drop_in: &str) -> bool {
        let tells_programs_apart = drop_in == "programs.conf";
        match self {
            Self::Alone => false,
            Self::WithCapture => !tells_programs_apart,
            Self::WithPrograms => tells_programs_apart,
            Self::WithDropIns => true,
        }
    }
}

/// A folder with the units, for the program as it was built.
fn units(place: &Place, which: Which) -> PathBuf {
    let folder = place.folder(match which {
        Which::Alone => "alone",
        Which::WithCapture => "with-capture",
        Which::WithPrograms => "with-programs",
        Which::WithDropIns => "with-drop-ins",
    });
    let copy = |from: &Path, to: PathBuf| {
        let text = std::fs::read_to_string(from).unwrap();
        std::fs::write(to, text.replace(INSTALLED, env!("CARGO_BIN_EXE_hawser"))).unwrap();
    };
    for name in UNITS {
        copy(&sources().join(name), folder.join(name));
    }
    for name in DROP_INS {
        let drop_ins = folder.join(name);
        std::fs::create_dir(&drop_ins).unwrap();
        for file in std::fs::read_dir(sources().join(name)).unwrap() {
            let file = file.unwrap();
            if which.takes(file.file_name().to_str().unwrap()) {
                copy(&file.path(), drop_ins.join(file.file_name()));
            }
        }
    }
    folder
}

fn analyze(test: &str, arguments: &[&str], units: &[PathBuf]) {
    let output = Command::new("systemd-analyze")
        .args(arguments)
        .args(units)
        .output();
    let Ok(output) = output else {
        return hawser_skip::skip(&format!("end_to_end::{test}"), "systemd is not installed");
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{complaints}");
    // A key that it does not know is only a warning.
    assert_eq!(complaints, "");
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/systemd")
}

const UNITS: [&str; 3] = [
    "hawser-up.service",
    "hawser-serve.service",
    "hawser-kill-switch.service",
];
const DROP_INS: [&str; 2] = ["hawser-up.service.d", "hawser-serve.service.d"];
const INSTALLED: &str = "/usr/bin/hawser";
