//! Test that the kernel's program decides like the library: `bpf/decide.h`, compiled for this
//! machine, against `hawser_sched::connection`.

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use hawser_sched::PortClass;
use hawser_sched::connection::{
    Choice, Class, ConnectionPolicy, Demand, LinkView, Load, MAX_LOAD, MAX_SHARING, Reason, SHORT,
};
use hawser_types::{ByteCount, LinkIndex, Rate};
use rand::prelude::*;

const TEST: &str = "decide::the_kernel_decides_as_everyone_else_does";

/// A link in its slot of the kernel's table, and whether the connection may use it.
#[derive(Clone, Copy, Debug)]
struct Placed {
    place: usize,
    view: LinkView,
    may: bool,
}

#[test]
fn the_kernel_decides_as_everyone_else_does() {
    let mut random = StdRng::seed_from_u64(42);
    let mut questions = String::new();
    let mut expected = String::new();
    let mut chosen = 0;
    for _ in 0..400 {
        chosen += ask(&mut random, &mut questions, &mut expected);
    }
    assert!(chosen > 15_000, "most cases have a choice: {chosen}");
    for port in 0..=u16::MAX {
        writeln!(expected, "{}", PortClass::of(port) as u32).unwrap();
    }
    let Some(answers) = kernel(questions) else {
        return;
    };
    for (number, (answer, expected)) in answers.lines().zip(expected.lines()).enumerate() {
        assert_eq!(answer, expected, "question {number}");
    }
    assert_eq!(answers.lines().count(), expected.lines().count());
}

/// Generates several connections by one policy, with links that change; returns how many of them
/// have a choice of links.
fn ask(random: &mut StdRng, questions: &mut String, expected: &mut String) -> u32 {
    let number = random.random_range(0..ConnectionPolicy::ALL.len());
    let mut scheduler = ConnectionPolicy::ALL[number].scheduler();
    let mut places: Vec<usize> = (0..16).collect();
    places.shuffle(random);
    let mut links = any_links(random, &places);
    let mut chosen = 0;
    for turn in 0..60 {
        if random.random_bool(0.1) {
            links = any_links(random, &places);
        }
        for placed in &mut links {
            placed.may = random.random_bool(0.8);
            placed.view.load = any_load(random);
        }
        let class = random.random_range(0..Class::ALL.len());
        let demand = Demand {
            class: Class::ALL[class],
            up: any_size(random),
            down: any_size(random),
        };
        let mut views: Vec<LinkView> = links.iter().filter(|l| l.may).map(|l| l.view).collect();
        views.sort_by_key(|view| view.link);
        chosen += u32::from(views.len() > 1);
        writeln!(
            expected,
            "{}",
            answer(number, &demand, scheduler.select(&demand, &views))
        )
        .unwrap();
        let (up, down) = (demand.up.as_u64(), demand.down.as_u64());
        let fresh = u32::from(turn == 0);
        writeln!(
            questions,
            "{fresh} {number} {class} {up} {down} {}",
            links.len()
        )
        .unwrap();
        for placed in &links {
            tell(placed, questions);
        }
    }
    chosen
}

/// Writes a link as the C side reads it.
fn tell(placed: &Placed, questions: &mut String) {
    let view = &placed.view;
    let numbers = [
        placed.place as u64,
        view.link.value().into(),
        view.up.bytes_per_second(),
        view.down.bytes_per_second(),
        u64::try_from(view.latency.as_nanos()).unwrap(),
        view.load.up.as_u64(),
        view.load.down.as_u64(),
        view.load.connections.into(),
        placed.may.into(),
    ];
    let words = numbers.map(|number| number.to_string());
    writeln!(questions, "{}", words.join(" ")).unwrap();
}

fn answer(policy: usize, demand: &Demand, choice: Option<Choice>) -> String {
    let number = |reason| match reason {
        Reason::Fastest => 0,
        Reason::Turn => 1,
        Reason::FinishesFirst => 2,
        Reason::AnswersFirst => 3,
        other => panic!("{other:?} is new: the kernel's program does not know it"),
    };
    match choice {
        Some(choice) => format!("{} {}", choice.link.value(), number(choice.reason)),
        // The library gives no reason for no link; the kernel's program always has one.
        None => {
            let view = LinkView::default();
            let mut scheduler = ConnectionPolicy::ALL[policy].scheduler();
            let reason = scheduler.select(demand, &[view]).unwrap().reason;
            format!("0 {}", number(reason))
        }
    }
}

/// Generates links in slots, with indices in any order and some equal in all else.
fn any_links(random: &mut StdRng, places: &[usize]) -> Vec<Placed> {
    let count = random.random_range(0..=6);
    let mut indices: Vec<u32> = (1..=12).collect();
    indices.shuffle(random);
    let rates = [
        0,
        1,
        124,
        125,
        250_000,
        1_250_000,
        12_500_000,
        125_000_000_000,
        u64::MAX,
    ];
    let latencies = [0, 1, 10_000_000, 20_000_000, 3_600_000_000_000];
    let place = |index: u32| Placed {
        // A link keeps its place.
        place: places[index as usize],
        may: true,
        view: LinkView {
            link: LinkIndex::new(index),
            up: Rate::from_bytes_per_second(*rates.choose(random).unwrap()),
            down: Rate::from_bytes_per_second(*rates.choose(random).unwrap()),
            latency: Duration::from_nanos(*latencies.choose(random).unwrap()),
            load: Load::default(),
        },
    };
    indices.into_iter().take(count).map(place).collect()
}

fn any_load(random: &mut StdRng) -> Load {
    let sharing = MAX_SHARING;
    Load {
        connections: *[0, 1, 7, sharing - 1, sharing, sharing + 1, u32::MAX]
            .choose(random)
            .unwrap(),
        up: any_size(random),
        down: any_size(random),
    }
}

fn any_size(random: &mut StdRng) -> ByteCount {
    let (short, most) = (SHORT.as_u64(), MAX_LOAD.as_u64());
    let edges = [
        0,
        1,
        1500,
        short,
        short + 1,
        285_000,
        most - 1,
        most,
        most + 1,
        u64::MAX,
    ];
    let edge = *edges.choose(random).unwrap();
    let size = random.random_range(0..10_000_000);
    ByteCount::new(if random.random_bool(0.5) { edge } else { size })
}

/// Returns the header's answers; `None`, with a report, where there is no C compiler.
fn kernel(questions: String) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("decide");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/native/decide.c");
    let mut compiler = Command::new("cc");
    compiler
        .args([
            "-O1",
            "-Wall",
            "-Werror",
            "-fsanitize=undefined",
            source,
            "-o",
        ])
        .arg(&program);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "the header compiles"),
        Err(error) => {
            hawser_skip::skip(TEST, &format!("no C compiler: {error}"));
            return None;
        }
    }
    let input = folder.path().join("questions");
    std::fs::write(&input, questions).unwrap();
    let mut program = Command::new(&program);
    program.stdin(Stdio::from(std::fs::File::open(&input).unwrap()));
    let output = program.output().unwrap();
    assert!(
        output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Some(String::from_utf8(output.stdout).unwrap())
}
