//! Messages that scripts send, determined by encoding them and decoding the result.

use std::collections::BTreeSet;

use bytes::BytesMut;
use hawser_session::Side;
use hawser_wire::sctp::ChunkKind;
use hawser_wire::{Command, CommandKind, FirstWord, Frame, FrameIterator, FrameKind, StreamKind};

use crate::datagrams::Names;
use crate::samples;
use crate::scene::Scene;
use crate::scripts;
use crate::step::{Make, Step, Turn};

/// All kinds that the scripts of one side send.
#[derive(Debug, Default)]
struct Sent {
    streams: BTreeSet<StreamKind>,
    commands: BTreeSet<CommandKind>,
    frames: BTreeSet<FrameKind>,
    chunks: BTreeSet<ChunkKind>,
    words: BTreeSet<FirstWord>,
}

impl Sent {
    fn steps(&mut self, steps: &[Step], scene: &Scene) {
        for step in steps {
            match step {
                Step::Repeat(_, steps) => self.steps(steps, scene),
                Step::Commands(count, make) => self.commands(written(*count, *make, scene)),
                Step::CommandsOf(count, kind) => {
                    let turns = turns(*count, scene);
                    self.commands(turns.map(|turn| vec![samples::command(*kind, turn)]));
                }
                Step::Records(count, make) => self.records(written(*count, *make, scene)),
                Step::FramesOf(count, kind) => self.records(turns(*count, scene).map(|turn| {
                    let mut body = BytesMut::new();
                    samples::frame(*kind, turn, &mut body);
                    body
                })),
                Step::StreamsOf(count, kind) => self.records(turns(*count, scene).map(|turn| {
                    let mut body = BytesMut::new();
                    samples::open(*kind, turn, &mut body);
                    body
                })),
                Step::Packets(count, make) => self.packets(written(*count, *make, scene)),
                Step::Begin(_, word) => {
                    let says = samples::first_word(*word, 1);
                    self.words
                        .extend(says.first().map(|byte| FirstWord::of(*byte)));
                }
                _ => {}
            }
        }
    }

    fn commands(&mut self, said: impl Iterator<Item = Vec<Command>>) {
        self.commands.extend(said.flatten().map(|it| it.kind()));
    }

    fn records(&mut self, bodies: impl Iterator<Item = BytesMut>) {
        // What does not decode is a fault that its script wants.
        for frame in bodies
            .flat_map(|body| FrameIterator::new(body.freeze()))
            .flatten()
        {
            self.frames.insert(frame.kind());
            if let Frame::Chunk(header, _) = frame
                && header.flags.open
            {
                self.streams
                    .extend(StreamKind::of_opening(&header.metadata));
            }
        }
    }

    /// By the first byte: values are not sensible, so no chunk decodes.
    fn packets(&mut self, packets: impl Iterator<Item = BytesMut>) {
        let first = packets.filter_map(|packet| packet.first().copied());
        self.chunks.extend(first.filter_map(ChunkKind::of_number));
    }
}

/// What a step writes in its first turns.
fn written<T: Default>(count: u64, make: Make<T>, scene: &Scene) -> impl Iterator<Item = T> {
    turns(count, scene).map(move |turn| {
        let mut out = T::default();
        make(turn, &mut out);
        out
    })
}

fn turns(count: u64, scene: &Scene) -> impl Iterator<Item = Turn<'_>> {
    (0..count.min(TURNS)).map(move |number| Turn {
        number,
        first_stream: 2,
        scene,
        names: Names::default(),
    })
}

const TURNS: u64 = 64;

/// Those of `all` that are not `sent`.
fn missing<T: Copy + Ord>(all: &[T], sent: &BTreeSet<T>) -> Vec<T> {
    let is_missing = |it: &T| !sent.contains(it);
    all.iter().copied().filter(is_missing).collect()
}

#[tokio::test]
async fn every_kind_of_the_wire_is_sent_by_a_script_of_each_side_that_can() {
    let (scene, scripts) = (Scene::open().await.unwrap(), scripts::all());
    for side in [Side::Client, Side::Gateway] {
        let mut sent = Sent::default();
        for script in scripts.iter().filter(|script| script.side == side) {
            sent.steps(&script.steps, &scene);
        }
        assert_eq!(missing(CommandKind::ALL, &sent.commands), [], "{side:?}");
        assert_eq!(missing(FrameKind::ALL, &sent.frames), [], "{side:?}");
        assert_eq!(missing(StreamKind::ALL, &sent.streams), [], "{side:?}");
        if side == Side::Client {
            assert_eq!(missing(ChunkKind::ALL, &sent.chunks), []);
            assert_eq!(missing(&FirstWord::ALL, &sent.words), []);
        }
    }
}
