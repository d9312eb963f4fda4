//! Model test for any network behaviour: every ordered stream is delivered in order, nothing is
//! lost or duplicated, and nothing is kept in the end.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// A message that is sent.
#[derive(Clone, Debug)]
struct Sent {
    stream: u16,
    unordered: bool,
    /// Lengths of its parts.
    parts: Vec<usize>,
    /// Number of packets sent after which it is abandoned, if it has not arrived.
    given_up: Option<usize>,
}

#[derive(Clone, Debug)]
struct Run {
    messages: Vec<Sent>,
    interleaving: bool,
    buffer: u64,
    /// Fate of each packet: its index among the unacknowledged ones, how often it arrives, and
    /// whether the reader reads after it.
    network: Vec<(Index, u8, bool)>,
}

fn sent(given_up: bool) -> impl Strategy<Value = Sent> {
    let parts = prop_oneof![
        3 => vec(1..30usize, 1..2),
        3 => vec(1..1400usize, 1..9),
        1 => vec(1000..1400usize, 20..40),
    ];
    let given_up = if given_up {
        prop_oneof![2 => Just(None), 1 => (0..200usize).prop_map(Some)].boxed()
    } else {
        Just(None).boxed()
    };
    let sent = (0..4u16, any::<bool>(), parts, given_up);
    sent.prop_map(|(stream, unordered, parts, given_up)| Sent {
        stream,
        unordered,
        parts,
        given_up,
    })
}

fn run(given_up: bool) -> impl Strategy<Value = Run> {
    let network = vec((any::<Index>(), 0..3u8, any::<bool>()), 0..200);
    let buffer = prop_oneof![Just(16_384u64), Just(65_536), Just(1 << 20)];
    let run = (vec(sent(given_up), 1..20), any::<bool>(), buffer, network);
    run.prop_map(|(messages, interleaving, buffer, network)| Run {
        messages,
        interleaving,
        buffer,
        network,
    })
}

/// Returns the parts of all messages in the order of their TSNs, each with its message's index.
/// With interleaving, the streams take turns.
fn parts(run: &Run) -> Vec<(usize, Data)> {
    let mut numbers = BTreeMap::new();
    let mut lanes: BTreeMap<_, Vec<(usize, Data)>> = BTreeMap::new();
    for (index, sent) in run.messages.iter().enumerate() {
        let lane = (sent.stream, sent.unordered);
        let number = numbers.entry(lane).or_insert(0u32);
        let queue = lanes.entry(run.interleaving.then_some(lane)).or_default();
        for (fragment, length) in sent.parts.iter().enumerate() {
            let first = fragment == 0;
            let data = Data {
                tsn: Tsn::default(),
                stream: StreamNumber::new(sent.stream),
                order: if run.interleaving {
                    DataOrder::Interleaved {
                        message: *number,
                        fragment: fragment as u32,
                    }
                } else {
                    DataOrder::Sequence(*number as u16)
                },
                unordered: sent.unordered,
                first,
                last: fragment + 1 == sent.parts.len(),
                immediate: false,
                protocol: if first || !run.interleaving {
                    index as u32
                } else {
                    0
                },
                payload: vec![byte(index, fragment); *length].into(),
            };
            queue.push((index, data));
        }
        *number += 1;
    }
    let mut lanes: Vec<_> = lanes.into_values().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(lanes.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            break;
        }
    }
    for (count, (_, data)) in all.iter_mut().enumerate() {
        data.tsn = tsn(count as u32);
    }
    all
}

/// Returns the byte that fills a part.
fn byte(message: usize, fragment: usize) -> u8 {
    (message * 7 + fragment) as u8
}

/// The receiver, its sender's knowledge, and its reader's data.
struct Model<'a> {
    run: &'a Run,
    inbound: Inbound,
    parts: Vec<(usize, Data)>,
    /// Number of parts acknowledged in order.
    cumulative: usize,
    beyond: BTreeSet<usize>,
    given_up: BTreeSet<usize>,
    /// Data read of each message.
    read: BTreeMap<usize, Vec<u8>>,
    /// Messages in the order of their ends; `false`: the rest was abandoned.
    ended: Vec<(usize, bool)>,
}

impl Model<'_> {
    fn unacknowledged(&self) -> Vec<usize> {
        let all = self.cumulative..self.parts.len();
        let waits = |index: &usize| {
            !self.beyond.contains(index) && !self.given_up.contains(&self.parts[*index].0)
        };
        all.filter(waits).collect()
    }

    fn arrive(&mut self, index: usize) -> Result<(), TestCaseError> {
        packet(&mut self.inbound, at(0), [self.parts[index].1.clone()]);
        prop_assert!(self.inbound.assembly.held() <= 4 * self.run.buffer as usize);
        self.hear()
    }

    /// Handles a SACK.
    fn hear(&mut self) -> Result<(), TestCaseError> {
        let Some(sack) = self.inbound.poll_sack(at(0), true) else {
            return Ok(());
        };
        let cumulative = sack.cumulative.advance(1).since(tsn(0)) as usize;
        prop_assert!(cumulative >= self.cumulative && cumulative <= self.parts.len());
        self.cumulative = cumulative;
        self.beyond.clear();
        for gap in &sack.gaps {
            let range = usize::from(gap.first)..=usize::from(gap.last);
            self.beyond
                .extend(range.map(|distance| cumulative + distance - 1));
        }
        Ok(())
    }

    /// Abandons messages whose limit is reached, and reports it.
    fn give_up(&mut self, packets: usize) -> Result<(), TestCaseError> {
        for (index, sent) in self.run.messages.iter().enumerate() {
            if sent.given_up.is_some_and(|at| at <= packets) {
                self.given_up.insert(index);
            }
        }
        let mut end = self.cumulative;
        let mut skipped = BTreeMap::new();
        while let Some((message, data)) = self.parts.get(end) {
            let is_given_up = self.given_up.contains(message);
            if !is_given_up && !self.beyond.contains(&end) {
                break;
            }
            if is_given_up && (self.run.interleaving || !data.unordered) {
                let number = match data.order {
                    DataOrder::Interleaved { message, .. } => message,
                    DataOrder::Sequence(number) => number.into(),
                };
                skipped.insert((data.stream, data.unordered), number);
            }
            end += 1;
        }
        if end == self.cumulative {
            return Ok(());
        }
        let skipped = skipped.into_iter().map(|(lane, last)| SkippedStream {
            stream: lane.0,
            unordered: lane.1,
            last,
        });
        let forward = ForwardTsn {
            cumulative: tsn(end as u32).advance(u32::MAX),
            interleaved: self.run.interleaving,
            skipped: skipped.collect(),
        };
        self.inbound.on_forward_tsn(at(0), &forward).unwrap();
        self.hear()
    }

    fn read(&mut self) -> Result<(), TestCaseError> {
        while let Some(received) = self.inbound.receive() {
            let index = received.protocol as usize;
            let sent = &self.run.messages[index];
            prop_assert_eq!(received.stream.value(), sent.stream);
            prop_assert_eq!(received.unordered, sent.unordered);
            let read = self.read.entry(index).or_default();
            read.extend_from_slice(&received.payload());
            match received.end {
                End::Whole => self.ended.push((index, true)),
                End::GivenUp => self.ended.push((index, false)),
                End::More => prop_assert!(received.length() > 0),
            }
        }
        Ok(())
    }

    /// Checks the data read once everything is acknowledged.
    fn conclude(&self) -> Result<(), TestCaseError> {
        let mut seen = BTreeSet::new();
        let mut last = BTreeMap::new();
        for (index, is_whole) in &self.ended {
            prop_assert!(seen.insert(*index), "message {} ended twice", index);
            let sent = &self.run.messages[*index];
            if !sent.unordered {
                let before = last.insert(sent.stream, *index);
                prop_assert!(before.is_none_or(|before| before < *index), "out of order");
            }
            prop_assert!(*is_whole || self.given_up.contains(index));
            let parts = sent.parts.iter().enumerate();
            let expected = parts.flat_map(|(fragment, length)| {
                std::iter::repeat_n(byte(*index, fragment), *length)
            });
            let expected: Vec<u8> = expected.collect();
            let read = &self.read[index];
            prop_assert!(expected.starts_with(read), "other bytes");
            prop_assert_eq!(read.len() == expected.len(), *is_whole);
        }
        for index in 0..self.run.messages.len() {
            prop_assert!(seen.contains(&index) || self.given_up.contains(&index));
        }
        prop_assert_eq!(self.inbound.assembly.held(), 0);
        Ok(())
    }
}

fn check(run: &Run) -> Result<(), TestCaseError> {
    let mut model = Model {
        run,
        inbound: inbound(run.buffer, run.interleaving),
        parts: parts(run),
        cumulative: 0,
        beyond: BTreeSet::new(),
        given_up: BTreeSet::new(),
        read: BTreeMap::new(),
        ended: Vec::new(),
    };
    for (packets, (index, times, reads)) in run.network.iter().enumerate() {
        let unacknowledged = model.unacknowledged();
        if !unacknowledged.is_empty() {
            for _ in 0..*times {
                model.arrive(*index.get(&unacknowledged))?;
            }
        }
        model.give_up(packets)?;
        if *reads {
            model.read()?;
        }
    }
    // From now on nothing is lost, and everything has to arrive.
    for _ in 0..1000 {
        let unacknowledged = model.unacknowledged();
        if unacknowledged.is_empty() && model.cumulative == model.parts.len() {
            break;
        }
        for index in unacknowledged {
            model.arrive(index)?;
        }
        model.give_up(run.network.len())?;
        model.read()?;
    }
    prop_assert_eq!(model.cumulative, model.parts.len(), "stuck");
    model.read()?;
    model.conclude()
}

proptest! {
    #[test]
    fn nothing_is_lost_doubled_or_out_of_order(run in run(false)) {
        check(&run)?;
    }

    #[test]
    fn what_is_given_up_harms_nothing_else(run in run(true)) {
        check(&run)?;
    }
}
