use std::time::Duration;

use hawser_sched::chunk::{ChunkPolicy, Reason};
use hawser_sched::governor::{Exclusion, Harm, Standing};
use hawser_types::{LinkIndex, Rate};
use proptest::prelude::*;

use super::*;
use crate::{ChannelSpec, Side, Transport, TransportReason};

const KIB: u64 = 1024;

fn at(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

fn view(channel: u32, link: u32) -> PathView {
    PathView {
        channel: ChannelId::new(channel),
        link: LinkIndex::new(link),
        ready: true,
        rtt: Duration::from_millis(20),
        rate: Rate::from_bits_per_second(8_000_000),
        chunk: ByteCount::new(10_000),
        ..PathView::default()
    }
}

fn added(channel: u32, link: u32) -> Note {
    Note::Added {
        channel: ChannelId::new(channel),
        link: LinkIndex::new(link),
        role: ChannelRole::Bulk,
    }
}

fn channel(id: u32, link: u32) -> Channel {
    Channel::new(ChannelSpec {
        begun_by: Side::Client,
        id: ChannelId::new(id),
        role: ChannelRole::Bulk,
        link: LinkIndex::new(link),
        records: 0,
        segment_size: None,
    })
}

fn unit(size: u64) -> ChunkUnit {
    ChunkUnit {
        size: ByteCount::new(size),
        ..ChunkUnit::default()
    }
}

const STREAM: StreamId = StreamId::new(6);
const BULK: (ChannelRole, StreamId) = (ChannelRole::Bulk, STREAM);

fn to(channel: u32, reason: Reason) -> Decision {
    Decision::Channel(ChannelId::new(channel), reason)
}

/// Two links, and a recorder that knows them.
fn two_links() -> (Recorder, [PathView; 2]) {
    let mut recorder = Recorder::new(at(0), ByteCount::from_kib(256));
    recorder.note(at(0), added(1, 3));
    recorder.note(at(0), added(2, 4));
    (recorder, [view(1, 3), view(2, 4)])
}

fn link(recorder: &Recorder, number: u32) -> LinkSummary {
    let summary = recorder.summary(Some(STREAM)).unwrap();
    let index = LinkIndex::new(number);
    let mut links = summary.links.into_iter();
    links.find(|link| link.link == index).unwrap()
}

#[test]
fn a_link_that_was_later_is_passed_over_with_both_arrivals() {
    let (mut recorder, mut views) = two_links();
    // 100 kB at 1 MB/s are 100 ms; 10 kB more make 110.
    views[1].in_flight = ByteCount::new(100_000);
    for n in 0..32 {
        let decision = to(1, Reason::Earliest);
        recorder.on_decision(at(n), BULK, unit(50_000), &views, decision);
    }
    assert_eq!(link(&recorder, 3).chosen, [(Reason::Earliest, 32)]);
    let slow = link(&recorder, 4);
    assert_eq!(slow.verdicts, [(Verdict::Later, 32)]);
    let millis = |n| Duration::from_millis(n);
    assert_eq!(slow.later, Some((millis(110), millis(10))));
}

#[test]
fn each_link_that_was_not_chosen_has_its_verdict() {
    type Change = fn(&mut PathView);
    let cases: [(Change, Reason, Verdict); 7] = [
        (|view| view.ready = false, Reason::Earliest, Verdict::Busy),
        (
            |view| view.suspect = true,
            Reason::Earliest,
            Verdict::Silent,
        ),
        (|_| {}, Reason::Turn, Verdict::Other),
        (|_| {}, Reason::LeastRtt, Verdict::Later),
        (
            |view| view.standing = Standing::Excluded(Exclusion::Never),
            Reason::Earliest,
            Verdict::Excluded,
        ),
        (
            |view| view.standing = Standing::Probing(Harm::RaisesDelay),
            Reason::Earliest,
            Verdict::Demoted,
        ),
        (|_| {}, Reason::Redundant, Verdict::Later),
    ];
    for (change, reason, expected) in cases {
        let (mut recorder, mut views) = two_links();
        change(&mut views[1]);
        recorder.on_decision(at(1), BULK, unit(9), &views, to(1, reason));
        assert_eq!(link(&recorder, 4).verdicts, [(expected, 1)], "{reason:?}");
    }
    let (mut recorder, mut views) = two_links();
    views[0].preferred = true;
    recorder.on_decision(at(1), BULK, unit(9), &views, to(1, Reason::Earliest));
    let verdicts = link(&recorder, 4).verdicts;
    assert_eq!(verdicts, [(Verdict::LessPreferred, 1)]);
}

#[test]
fn a_link_that_is_left_out_was_silent_or_has_no_connection() {
    let (mut recorder, views) = two_links();
    let suspect = Note::Suspect {
        channel: ChannelId::new(2),
        link: LinkIndex::new(4),
        chunks: 7,
        silence: Duration::from_millis(300),
    };
    recorder.note(at(1), suspect);
    let decide = |recorder: &mut Recorder| {
        recorder.on_decision(at(2), BULK, unit(9), &views[..1], to(1, Reason::Earliest));
    };
    decide(&mut recorder);
    recorder.links.on_lost(LinkIndex::new(4), true);
    decide(&mut recorder);
    let expected = [(Verdict::Silent, 1), (Verdict::Gone, 1)];
    assert_eq!(link(&recorder, 4).verdicts, expected);
    let notes = recorder.summary(None).unwrap().notes;
    assert_eq!(notes.last(), Some(&(at(1), suspect)));
}

#[test]
fn time_in_which_nothing_was_sent_is_booked_on_the_links_that_were_ready() {
    let (mut recorder, mut views) = two_links();
    views[0].ready = false;
    let wait = Decision::Wait(None, Reason::QuickerSoon);
    for micros in [1000, 2000, 5000] {
        recorder.on_decision(at(micros), BULK, unit(9), &views, wait);
    }
    views[0].ready = true;
    recorder.on_decision(at(9000), BULK, unit(9), &views, to(1, Reason::Earliest));
    assert_eq!(link(&recorder, 3).held, []);
    let held = [(Reason::QuickerSoon, Duration::from_millis(8))];
    assert_eq!(link(&recorder, 4).held, held);
}

#[test]
fn streams_beyond_those_that_fit_are_counted_together() {
    let (mut recorder, views) = two_links();
    for stream in 0..500 {
        let asked = (ChannelRole::Bulk, StreamId::new(stream));
        recorder.on_decision(at(stream), asked, unit(9), &views, to(1, Reason::Earliest));
    }
    let all = recorder.summary(None).unwrap();
    assert_eq!(all.links[0].decisions, 500);
    assert!(all.streams.len() < 100 && recorder.summary(Some(StreamId::new(0))).is_none());
    assert!(recorder.summary(Some(StreamId::new(499))).is_some());
}

#[test]
fn nothing_is_kept_where_no_memory_is_given() {
    let mut recorder = Recorder::new(at(0), ByteCount::ZERO);
    recorder.note(at(0), added(1, 3));
    let views = [view(1, 3)];
    recorder.on_decision(at(1), BULK, unit(9), &views, to(1, Reason::Earliest));
    assert!(recorder.entries().next().is_none() && !recorder.is_on());
    assert_eq!(recorder.summary(None).unwrap().links, []);
}

#[test]
fn the_first_channel_of_a_gateway_takes_its_counts_to_the_link_that_the_client_names() {
    let (mut recorder, views) = two_links();
    recorder.on_decision(at(1), BULK, unit(9), &views, to(1, Reason::Earliest));
    recorder.on_link_known(at(2), &channel(1, 9), LinkIndex::new(3));
    assert_eq!(link(&recorder, 9).chosen, [(Reason::Earliest, 1)]);
    assert_eq!(recorder.summary(None).unwrap().links.len(), 2);
}

#[test]
fn a_second_channel_may_name_the_link_of_the_first_before_the_client_does() {
    let (mut recorder, views) = two_links();
    recorder.on_decision(at(1), BULK, unit(9), &views[..1], to(1, Reason::Earliest));
    recorder.on_link_known(at(2), &channel(1, 4), LinkIndex::new(3));
    let links = recorder.summary(Some(STREAM)).unwrap().links;
    assert_eq!(links.len(), 1);
    assert_eq!(link(&recorder, 4).chosen, [(Reason::Earliest, 1)]);
    let (first, second) = (view(1, 4), view(2, 4));
    let views = [first, second];
    recorder.on_decision(at(3), BULK, unit(9), &views, to(2, Reason::Earliest));
    assert_eq!(link(&recorder, 4).chosen, [(Reason::Earliest, 2)]);
}

#[test]
fn a_link_that_the_rules_exclude_is_seen_by_no_policy_and_says_so() {
    let (mut recorder, views) = two_links();
    let (link_4, never) = (LinkIndex::new(4), Standing::Excluded(Exclusion::Never));
    for _ in 0..2 {
        recorder.on_standing(at(1), link_4, never);
    }
    recorder.on_decision(at(2), BULK, unit(9), &views[..1], to(1, Reason::Earliest));
    assert_eq!(link(&recorder, 4).verdicts, [(Verdict::Excluded, 1)]);
    let notes = recorder.summary(None).unwrap().notes;
    let standing = Note::Standing {
        link: link_4,
        standing: never,
    };
    assert_eq!(notes[2..], [(at(1), standing)]);
}

#[test]
fn what_an_association_places_counts_for_the_links_of_its_paths() {
    let (mut recorder, _) = two_links();
    let association = Channel::new(ChannelSpec::association(ChannelId::new(9)));
    recorder.on_added(at(0), &association);
    // The session gives it a chunk, which says nothing of links yet.
    let view = PathView {
        link: LinkIndex::ALL,
        ..view(9, 0)
    };
    let decision = to(9, Reason::Earliest);
    recorder.on_decision(at(1), BULK, unit(100), &[view], decision);
    recorder.on_given(STREAM, &association, 100, false);
    assert!(recorder.summary(Some(STREAM)).is_none());
    assert_eq!(
        recorder.entries().count(),
        4,
        "the ring has it all the same"
    );

    // The association places it: on link 4, and on link 5, over which there is no TCP channel.
    let mut below = Tallies::new(0);
    [4, 5]
        .into_iter()
        .for_each(|number| below.add_link(LinkIndex::new(number)));
    let views = [self::view(1, 4), self::view(2, 5)];
    let asked = Asked {
        now: at(2),
        lane: 0,
        stream: STREAM,
        unit: unit(60),
        views: &views,
        decision: to(1, Reason::Earliest),
    };
    below.on_decision(&asked, |_, _| None);
    below.on_given(STREAM, LinkIndex::new(4), 60, false);
    below.on_given(STREAM, LinkIndex::new(5), 40, false);
    let path = |link, is_suspect| PathSample {
        link: LinkIndex::new(link),
        is_active: true,
        is_suspect,
        ..PathSample::default()
    };
    let paths = [path(4, false), path(5, true)];
    recorder.on_association(&paths, &below.take());
    let [fourth, fifth] = [4, 5].map(|number| link(&recorder, number));
    assert_eq!(fourth.bytes, ByteCount::new(60));
    assert_eq!(fourth.associated, fourth.bytes);
    assert_eq!(fourth.chosen, [(Reason::Earliest, 1)]);
    assert_eq!((fourth.channels, fourth.suspect), (2, 0));
    assert_eq!(fifth.bytes, ByteCount::new(40));
    assert_eq!(fifth.verdicts, [(Verdict::Later, 1)]);
    assert_eq!((fifth.channels, fifth.suspect), (1, 1));
    let links = recorder.summary(None).unwrap().links;
    let numbers: Vec<_> = links.iter().map(|link| link.link.value()).collect();
    assert_eq!(numbers, [3, 4, 5], "an association is no link");

    // TCP carries more of the stream, then the association ends.
    recorder.on_given(STREAM, &channel(2, 4), 5, false);
    recorder.on_lost(at(3), &association);
    let [fourth, fifth] = [4, 5].map(|number| link(&recorder, number));
    assert_eq!(fourth.bytes, ByteCount::new(65));
    assert_eq!(fourth.associated, ByteCount::new(60));
    assert_eq!((fourth.channels, fifth.channels), (1, 0));
}

#[test]
fn a_file_of_another_version_or_with_other_words_is_told_from_damage() {
    let (recorder, _) = two_links();
    let bytes = recorder.recording(head()).to_bytes();
    let error = |change: fn(&mut Vec<u8>)| {
        let mut changed = bytes.clone();
        change(&mut changed);
        Recording::parse(&changed).unwrap_err()
    };
    assert_eq!(error(|bytes| bytes[0] = b'H'), RecordingError::Other);
    assert_eq!(error(|bytes| bytes[17] = 2), RecordingError::Version(2));
    let policies = RecordingError::Tables("policies");
    assert_eq!(error(|bytes| bytes[20] ^= 1), policies);
    assert_eq!(error(|bytes| bytes.push(0)), RecordingError::Damaged);
}

#[test]
fn every_file_of_the_corpus_is_read_and_the_sound_ones_come_back() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/recording");
    let mut sound = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        if let Ok(recording) = Recording::parse(&bytes) {
            assert!(recording.entries().count() > 0);
            let again = Recording::parse(&recording.to_bytes()).unwrap();
            assert_eq!(again, recording);
            sound += 1;
        }
    }
    assert!(sound > 0, "the corpus is gone");
}

fn head() -> Head {
    Head {
        side: crate::Side::Gateway,
        policy: ChunkPolicy::Auto,
        began: at(0),
        taken: at(5),
        taken_unix_ms: 7,
        is_whole: true,
        links: vec![(LinkIndex::new(3), "eth0".to_owned())],
        destinations: vec![(STREAM, "example.org:443".to_owned())],
    }
}

fn record(recorder: &mut Recorder, entry: &Entry) {
    match entry {
        Entry::Note(now, note) => recorder.note(*now, *note),
        Entry::Decision(it) => {
            let asked = (it.role, it.stream);
            recorder.on_decision(it.now, asked, it.unit, &it.views, it.decision);
        }
    }
}

fn any_standing() -> impl Strategy<Value = Standing> {
    (0..6_u8).prop_map(|code| Standing::from_code(code).unwrap())
}

fn any_view(channel: u32) -> impl Strategy<Value = PathView> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any_standing());
    let counts = (0..1_u64 << 40, 0..100_000_u64, any::<u64>(), any::<u64>());
    let rest = (any::<u32>(), 0.0..1.0_f64, any::<Option<u8>>());
    (flags, counts, rest).prop_map(move |(flags, counts, rest)| PathView {
        channel: ChannelId::new(channel),
        link: LinkIndex::new(rest.0),
        ready: flags.0,
        suspect: flags.1,
        preferred: flags.2,
        standing: flags.3,
        rtt: Duration::from_nanos(counts.0),
        kernel_backlog: ByteCount::new(counts.1),
        rate: Rate::from_bytes_per_second(counts.2),
        in_flight: ByteCount::new(counts.3),
        confidence: rest.1,
        bottleneck: rest.2,
        ..PathView::default()
    })
}

fn any_views() -> impl Strategy<Value = Vec<PathView>> {
    let some = prop::collection::btree_set(0..10_u32, 1..5);
    some.prop_flat_map(|ids| ids.into_iter().map(any_view).collect::<Vec<_>>())
}

prop_compose! {
    fn any_recorded()(
        now: u64,
        (stream, size, room) in (any::<u64>(), any::<u64>(), any::<Option<u64>>()),
        (express, more, again) in any::<(bool, bool, bool)>(),
        views in any_views(),
        (kind, reason, place) in (0..4_u8, 0..Reason::ALL.len(), any::<prop::sample::Index>()),
        until: u64,
    ) -> Recorded {
        let reason = Reason::ALL[reason];
        let chosen = views[place.index(views.len())].channel;
        Recorded {
            now: Instant::from_nanos(now),
            role: if express { ChannelRole::Express } else { ChannelRole::Bulk },
            stream: StreamId::new(stream),
            unit: ChunkUnit {
                size: ByteCount::new(size),
                room: room.map(ByteCount::new),
                more,
                again,
            },
            decision: match kind {
                0 => Decision::Channel(chosen, reason),
                1 => Decision::Wait(None, reason),
                2 => Decision::Wait(Some(Instant::from_nanos(until)), reason),
                _ => Decision::Duplicate([chosen, views[0].channel], reason),
            },
            views,
        }
    }
}

fn any_note() -> impl Strategy<Value = Note> {
    let id = any::<u32>().prop_map(ChannelId::new);
    let link = any::<u32>().prop_map(LinkIndex::new);
    let policy = (0..ChunkPolicy::ALL.len()).prop_map(|n| ChunkPolicy::ALL[n]);
    let numbers = any::<(u64, u64, u64)>();
    let note = (0..10_u8, id, link, policy, any_standing(), numbers);
    note.prop_map(|(kind, channel, link, policy, standing, (a, b, c))| {
        let silence = Duration::from_nanos(b);
        match kind {
            0 => added(channel.value(), link.value()),
            1 => Note::Lost {
                channel,
                link,
                chunks: a,
                silence,
            },
            2 => Note::Suspect {
                channel,
                link,
                chunks: a,
                silence,
            },
            3 => Note::Recovered {
                channel,
                link,
                after: silence,
            },
            4 => Note::Policy(policy),
            8 => Note::Stalled {
                channel,
                link,
                chunks: a,
            },
            9 => Note::Transport {
                transport: [Transport::Tcp, Transport::Association][(a % 2) as usize],
                reason: [TransportReason::First, TransportReason::Silent][(b % 2) as usize],
                measured: [a, c].map(Rate::from_bytes_per_second),
            },
            5 => Note::Standing { link, standing },
            6 => Note::Helped {
                stream: StreamId::new(a),
                channel,
                bytes: ByteCount::new(b),
            },
            _ => Note::Sample {
                channel,
                link,
                rate: Rate::from_bytes_per_second(a),
                rtt: silence,
                min_rtt: Duration::from_nanos(c),
                retransmissions: a,
                delivered: b,
                unacknowledged: ByteCount::new(c),
                lost_ppm: b,
            },
        }
    })
}

fn any_entry() -> impl Strategy<Value = Entry> {
    prop_oneof![
        4 => any_recorded().prop_map(Entry::Decision),
        1 => (any::<u64>(), any_note())
            .prop_map(|(now, note)| Entry::Note(Instant::from_nanos(now), note)),
    ]
}

proptest! {
    #[test]
    fn what_is_read_is_what_was_recorded_and_the_oldest_goes_first(
        entries in prop::collection::vec(any_entry(), 1..400),
    ) {
        // Two blocks of 8 KiB, so that some entries go.
        let mut recorder = Recorder::new(at(0), ByteCount::new(16 * KIB));
        for entry in &entries {
            record(&mut recorder, entry);
        }
        let kept: Vec<Entry> = recorder.entries().collect();
        prop_assert!(!kept.is_empty());
        prop_assert_eq!(&kept[..], &entries[entries.len() - kept.len()..]);
        prop_assert!(recorder.ring.held() as u64 <= 16 * KIB);
    }

    #[test]
    fn a_recording_comes_back_from_its_file_and_damage_is_found(
        entries in prop::collection::vec(any_entry(), 1..100),
        at in any::<prop::sample::Index>(),
        value: u8,
    ) {
        let mut recorder = Recorder::new(super::tests::at(0), ByteCount::new(16 * KIB));
        entries.iter().for_each(|entry| record(&mut recorder, entry));
        let recording = recorder.recording(head());
        let mut bytes = recording.to_bytes();
        let parsed = Recording::parse(&bytes).unwrap();
        prop_assert_eq!(&parsed, &recording);
        let kept: Vec<Entry> = recorder.entries().collect();
        let read: Vec<Entry> = parsed.entries().collect();
        prop_assert!(read.ends_with(&kept));
        prop_assert!(Recording::parse(&bytes[..at.index(bytes.len())]).is_err());
        // Whatever else the bytes say: it ends, without a panic.
        let place = at.index(bytes.len());
        bytes[place] = value;
        let _ = Recording::parse(&bytes);
    }

    #[test]
    fn arbitrary_bytes_are_no_recording(bytes: Vec<u8>) {
        prop_assert!(Recording::parse(&bytes).is_err());
        block::Block::new(&bytes).for_each(drop);
    }
}
