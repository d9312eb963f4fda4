//! Test that the kernel's program reads and answers TCP options like the library: `bpf/option.h`,
//! compiled for this machine, against `hawser_wire::SynOption`.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use hawser_wire::{KeyHint, Offer, OfferForm, SynOption};
use rand::prelude::*;

const TEST: &str = "answer::the_kernel_answers_as_the_library_would";

#[test]
fn the_kernel_answers_as_the_library_would() {
    let mut random = StdRng::seed_from_u64(254);
    let (mut questions, mut expected) = (String::new(), Vec::new());
    for _ in 0..60_000 {
        let options = any_options(&mut random);
        let takes_bonds = random.random_bool(0.7);
        writeln!(
            questions,
            "{} {} {} ={}",
            hex(&encoded(&answer(OfferForm::Binary, false, 0))),
            hex(&encoded(&answer(OfferForm::Paper, true, 0))),
            u8::from(takes_bonds),
            hex(&options),
        )
        .unwrap();
        expected.push((expected_answer(&options, takes_bonds), options));
    }
    let answered = expected.iter().filter(|(it, _)| !it.is_empty()).count();
    assert!((10_000..50_000).contains(&answered), "{answered}");
    let Some(answers) = kernel(questions) else {
        return;
    };
    assert_eq!(answers.lines().count(), expected.len());
    for (theirs, (ours, options)) in answers.lines().zip(&expected) {
        assert_eq!(theirs, format!("={}", hex(ours)), "{}", hex(options));
    }
}

fn answer(form: OfferForm, bond: bool, connection: u32) -> SynOption {
    let (version, key_hint) = match form {
        OfferForm::Paper => (0, None),
        OfferForm::Binary => (1, Some(KeyHint(*b"key-hint"))),
    };
    SynOption {
        offer: Offer {
            form,
            version,
            interfaces: 3,
            key_hint,
        },
        bond,
        connection,
    }
}

fn encoded(option: &SynOption) -> Vec<u8> {
    option.encode().unwrap().as_ref().to_vec()
}

fn expected_answer(options: &[u8], takes_bonds: bool) -> Vec<u8> {
    let Ok(Some(syn)) = SynOption::find(options) else {
        return Vec::new();
    };
    let is_question = syn.offer.key_hint.is_none();
    let answer = match syn.offer.form {
        OfferForm::Paper if takes_bonds => answer(
            OfferForm::Paper,
            true,
            SynOption::PAPER_CONNECTIONS - 1 - syn.connection,
        ),
        OfferForm::Binary if is_question => {
            answer(OfferForm::Binary, syn.bond && takes_bonds, syn.connection)
        }
        _ => return Vec::new(),
    };
    assert!(answer.is_answer_to(&syn));
    encoded(&answer)
}

/// Options of a header: some usual ones, often one of ours among them, sometimes broken.
fn any_options(random: &mut StdRng) -> Vec<u8> {
    let mut options = Vec::new();
    for _ in 0..random.random_range(0..6) {
        match random.random_range(0..9) {
            0 => options.extend([1; 3]),
            1 => options.extend(b"\x02\x04\x05\xb4"),
            2 => options.extend(b"\x04\x02\x08\x0a12345678"),
            3 => options.extend(b"\xfe\x08\xf9\x89cook"),
            4 if random.random_bool(0.1) => options.push(0),
            _ => options.extend(any_own(random)),
        }
    }
    if !options.is_empty() && random.random_bool(0.3) {
        let place = random.random_range(0..options.len());
        options[place] = *[0, 1, 2, 8, 10, 18, b'0', b'9', b':', b'/', 254, 255]
            .choose(random)
            .unwrap();
    }
    options.truncate(random.random_range(20..=40));
    options
}

fn any_own(random: &mut StdRng) -> Vec<u8> {
    let form = *[OfferForm::Paper, OfferForm::Binary]
        .choose(random)
        .unwrap();
    let mut option = answer(form, true, random.random_range(0..10_000));
    option.offer.interfaces = random.random_range(1..100);
    if form == OfferForm::Binary {
        option.bond = random.random();
        option.connection = random.random();
        option.offer.key_hint = random.random_bool(0.1).then_some(KeyHint([7; 8]));
    }
    encoded(&option)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn kernel(questions: String) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("answer");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/native/answer.c");
    let mut compiler = Command::new("cc");
    let checks = ["-O1", "-Wall", "-Werror", "-fsanitize=undefined"];
    match compiler
        .args(checks)
        .args([source, "-o"])
        .arg(&program)
        .status()
    {
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
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && errors.is_empty(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}
