use hawser_types::ByteCount;

use super::*;

const STREAM: StreamId = StreamId::new(6);

fn link(number: u32) -> LinkIndex {
    LinkIndex::new(number)
}

fn view(number: u32) -> PathView {
    PathView {
        channel: ChannelId::new(number),
        link: link(number),
        ready: true,
        ..PathView::default()
    }
}

/// Decides for the channel of the first of these links.
fn decide(tallies: &mut Tallies, stream: StreamId, links: &[u32]) {
    let views: Vec<PathView> = links.iter().map(|number| view(*number)).collect();
    let asked = Asked {
        now: Instant::ZERO,
        lane: 0,
        stream,
        unit: ChunkUnit {
            size: ByteCount::new(1),
            ..ChunkUnit::default()
        },
        views: &views,
        decision: Decision::Channel(views[0].channel, Reason::Turn),
    };
    tallies.on_decision(&asked, |_, _| Some(Verdict::Gone));
}

/// Number of a link, bytes and verdicts.
type OfLink = (u32, u64, Vec<(Verdict, u64)>);

/// The counts by links, for the stream.
fn of_stream(placed: &[Placed]) -> Vec<OfLink> {
    let own = placed.iter().filter(|it| it.stream == Some(STREAM));
    own.map(|it| {
        let verdicts = it.tally.verdicts().collect();
        (it.link.value(), it.tally.bytes, verdicts)
    })
    .collect()
}

#[test]
fn counts_that_are_taken_and_added_elsewhere_are_the_same_there() {
    let mut here = Tallies::new(0);
    (1..=3).for_each(|number| here.add_link(link(number)));
    decide(&mut here, STREAM, &[1, 2]);
    here.on_given(STREAM, link(1), 100, false);
    here.on_given(STREAM, link(2), 7, true);
    let placed = here.take();
    let expected = [
        (1, 100, vec![(Verdict::Carried, 1)]),
        (2, 0, vec![(Verdict::Other, 1)]),
        (3, 0, vec![(Verdict::Gone, 1)]),
    ];
    assert_eq!(of_stream(&placed), expected);
    assert_eq!(here.take(), [], "they begin at zero again");
    let mut there = Tallies::new(0);
    for _ in 0..2 {
        placed.iter().for_each(|placed| there.add(placed));
    }
    let twice = [
        (1, 200, vec![(Verdict::Carried, 2)]),
        (2, 0, vec![(Verdict::Other, 2)]),
        (3, 0, vec![(Verdict::Gone, 2)]),
    ];
    assert_eq!(of_stream(&there.take()), twice);
}

#[test]
fn counts_of_many_streams_at_once_are_added_up_and_stay_that_when_added_elsewhere() {
    let mut here = Tallies::new(0);
    here.add_link(link(1));
    for stream in 0..100 {
        here.on_given(StreamId::new(stream), link(1), 10, false);
    }
    let placed = here.take();
    assert_eq!(placed.len(), 5);
    let mut there = Tallies::new(0);
    placed.iter().for_each(|placed| there.add(placed));
    let rest = there.rest().unwrap().links()[0].bytes;
    assert_eq!(rest, 960);
    assert_eq!(there.streams().len(), 4);
}

#[test]
fn links_that_come_and_go_find_room_once_the_counts_are_taken() {
    let mut tallies = Tallies::new(0);
    for number in 1..=9 {
        tallies.add_link(link(number));
        tallies.on_given(STREAM, link(number), 10, false);
    }
    assert_eq!(tallies.take().len(), MAX_LINKS);
    tallies.add_link(link(9));
    tallies.on_given(STREAM, link(9), 10, false);
    assert_eq!(of_stream(&tallies.take()), [(9, 10, vec![])]);
}

#[test]
fn a_link_that_turns_out_to_be_another_brings_its_counts() {
    let mut tallies = Tallies::new(0);
    (1..=3).for_each(|number| tallies.add_link(link(number)));
    (1..=3).for_each(|number| tallies.on_given(STREAM, link(number), number.into(), false));
    tallies.rename(link(1), link(3));
    tallies.rename(link(2), link(5));
    assert_eq!(tallies.links(), [link(5), link(3)]);
    let bytes = tallies.take();
    let bytes: Vec<_> = bytes.iter().map(|it| it.tally.bytes).collect();
    assert_eq!(bytes, [2, 4]);
}
