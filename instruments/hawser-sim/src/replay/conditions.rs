//! Link properties during a recording, as a scenario on which any policy can be tried.
//!
//! A recording shows only what was observed: a link that was not busy may have had more capacity.
//! The delay is half of the shortest round trip; the queue is the longest one seen, which a policy
//! that keeps queues short does not fill.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use hawser_session::Side;
use hawser_session::recorder::{Entry, Note, Recording};
use hawser_types::{ByteCount, ChannelId, Instant, LinkIndex, Rate};
use hawser_wire::ChannelRole;

use super::{link_name, placed};

/// The links of a recording over time, as the text of a scenario file.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditions {
    summary: String,
    direction: &'static str,
    payload: ByteCount,
    links: Vec<Line>,
    silences: Vec<Silence>,
}

/// What one link was seen to do.
#[derive(Clone, Debug, PartialEq)]
struct Line {
    name: String,
    delay: Duration,
    queue: Duration,
    lost_ppm: u64,
    /// Rates of whole packets, each with how long it lasted.
    rates: Vec<(Duration, Rate)>,
}

/// A time in which nothing passed.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Silence {
    at: Duration,
    link: usize,
    span: Duration,
    /// The connections ended at once, so that it was not mere silence.
    carrier: bool,
}

/// What is gathered of a link.
#[derive(Debug, Default)]
struct LinkObservations {
    /// The latest bulk rate of each channel.
    latest: BTreeMap<ChannelId, Rate>,
    /// The highest rate of all bulk channels together, by second.
    seconds: BTreeMap<u64, Rate>,
    min_rtt: Option<Duration>,
    queue: Duration,
    lost_ppm: u64,
    channels: u64,
    /// Since when it is silent, or without a channel, and which of both.
    down: Option<(Instant, bool)>,
    downs: Vec<(Instant, Instant, bool)>,
}

impl Conditions {
    /// What the recording says of its links; `None` when it says nothing of any.
    pub fn of(recording: &Recording) -> Option<Self> {
        let mut links: BTreeMap<LinkIndex, LinkObservations> = BTreeMap::new();
        let mut roles: BTreeMap<ChannelId, ChannelRole> = BTreeMap::new();
        let mut began = None;
        let mut last = Instant::ZERO;
        let mut payload = ByteCount::ZERO;
        for entry in recording.entries() {
            last = last.max(entry.at());
            match entry {
                Entry::Decision(recorded) => {
                    if recorded.role == ChannelRole::Bulk {
                        began.get_or_insert(recorded.now);
                        roles.extend(recorded.views.iter().map(|v| (v.channel, recorded.role)));
                    }
                    payload += placed(&recorded);
                }
                Entry::Note(at, note) => {
                    if let Note::Added { channel, role, .. } = note {
                        roles.insert(channel, role);
                    }
                    if let Some(link) = link_of(&note) {
                        links.entry(link).or_default().on_note(at, &note, &roles);
                    }
                }
            }
        }
        let began = began?;
        links.retain(|_, seen| seen.min_rtt.is_some());
        let silences = links.values_mut().enumerate().flat_map(|(place, seen)| {
            seen.end(last);
            let downs = seen.downs.iter().filter(|(_, to, _)| *to > began);
            let silence = downs.map(move |(from, to, carrier)| Silence {
                at: from.since(began),
                link: place + 1,
                span: to.since((*from).max(began)),
                carrier: *carrier,
            });
            silence.collect::<Vec<_>>()
        });
        let silences = silences.collect();
        let lines = links.iter();
        let lines = lines.map(|(link, seen)| seen.line(link_name(recording, *link), began, last));
        let lines: Vec<Line> = lines.collect();
        (!lines.is_empty()).then_some(Self {
            summary: format!("Recorded over {:.1} s", last.since(began).as_secs_f64()),
            direction: match recording.head.side {
                Side::Client => "put",
                Side::Gateway => "get",
            },
            payload: payload.max(MIN_PAYLOAD),
            links: lines,
            silences,
        })
    }
}

impl LinkObservations {
    fn on_note(&mut self, at: Instant, note: &Note, roles: &BTreeMap<ChannelId, ChannelRole>) {
        match *note {
            Note::Added { .. } => {
                self.channels += 1;
                self.end(at);
            }
            Note::Lost {
                channel, silence, ..
            } => {
                self.latest.remove(&channel);
                self.channels = self.channels.saturating_sub(1);
                if self.channels == 0 && self.down.is_none() {
                    self.down = Some((at - silence, silence.is_zero()));
                }
            }
            Note::Suspect { silence, .. } => {
                self.down.get_or_insert((at - silence, false));
            }
            Note::Recovered { .. } => self.end(at),
            Note::Sample {
                channel,
                rate,
                rtt,
                min_rtt,
                lost_ppm,
                ..
            } => {
                if !min_rtt.is_zero() {
                    let least = self.min_rtt.map_or(min_rtt, |least| least.min(min_rtt));
                    self.min_rtt = Some(least);
                    self.queue = self.queue.max(rtt.saturating_sub(min_rtt));
                }
                if roles.get(&channel) == Some(&ChannelRole::Bulk) {
                    self.latest.insert(channel, rate);
                    self.lost_ppm = lost_ppm;
                    let together: Rate = self.latest.values().copied().sum();
                    let second = at.as_nanos() / SECOND;
                    let most = self.seconds.entry(second).or_default();
                    *most = (*most).max(together);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, at: Instant) {
        if let Some((from, carrier)) = self.down.take() {
            self.downs.push((from, at, carrier));
        }
    }

    fn line(&self, name: String, began: Instant, last: Instant) -> Line {
        let first = began.as_nanos() / SECOND;
        let mut rates: Vec<(Duration, Rate)> = Vec::new();
        let known = self.seconds.values().next().copied();
        let mut now = known.unwrap_or(MIN_RATE);
        for second in first..=(last.as_nanos() / SECOND).min(first + MAX_SECONDS) {
            now = self.seconds.get(&second).copied().unwrap_or(now);
            // The rate of whole packets that carry this rate of bytes.
            let bytes = now.bytes_per_second().saturating_mul(1500) / 1448;
            let rate = Rate::from_bytes_per_second(bytes).clamp(MIN_RATE, MAX_RATE);
            match rates.last_mut() {
                Some((span, before)) if alike(*before, rate) => *span += STEP,
                _ => rates.push((STEP, rate)),
            }
        }
        Line {
            name,
            delay: self.min_rtt.unwrap_or_default() / 2,
            queue: self.queue.max(MIN_QUEUE),
            lost_ppm: self.lost_ppm.min(MAX_LOST),
            rates,
        }
    }
}

fn link_of(note: &Note) -> Option<LinkIndex> {
    match note {
        Note::Added { link, .. }
        | Note::Lost { link, .. }
        | Note::Suspect { link, .. }
        | Note::Recovered { link, .. }
        | Note::Sample { link, .. } => Some(*link),
        _ => None,
    }
}

/// Whether two rates are within a tenth.
fn alike(a: Rate, b: Rate) -> bool {
    let (a, b) = (a.bytes_per_second(), b.bytes_per_second());
    a.abs_diff(b) <= a.max(b) / 10
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "summary = \"{}\"", self.summary)?;
        writeln!(f, "payload = \"{}B\"", self.payload.as_u64())?;
        writeln!(f, "direction = \"{}\"", self.direction)?;
        for line in &self.links {
            writeln!(f, "\n# {}", line.name.replace(char::is_control, "?"))?;
            writeln!(f, "[[link]]")?;
            match &line.rates[..] {
                [(_, rate)] => writeln!(f, "rate = \"{}\"", kilobits(*rate))?,
                rates => writeln!(f, "trace = [{}]", steps(rates))?,
            }
            writeln!(f, "delay = \"{}us\"", line.delay.as_micros())?;
            writeln!(f, "queue = \"{}us\"", line.queue.as_micros())?;
            writeln!(f, "loss = \"{}%\"", line.lost_ppm as f64 / 1e4)?;
        }
        for silence in &self.silences {
            writeln!(f, "\n[[event]]")?;
            writeln!(f, "at = \"{}ms\"", silence.at.as_millis())?;
            writeln!(f, "link = {}", silence.link)?;
            let action = if silence.carrier {
                "carrier-down"
            } else {
                "black-hole"
            };
            writeln!(f, "action = \"{action}\"")?;
            writeln!(f, "for = \"{}ms\"", silence.span.as_millis().max(1))?;
        }
        Ok(())
    }
}

fn steps(rates: &[(Duration, Rate)]) -> String {
    let mut text = String::new();
    for (n, (span, rate)) in rates.iter().enumerate() {
        let comma = if n == 0 { "" } else { ", " };
        let (span, rate) = (span.as_secs(), kilobits(*rate));
        // Writing to a string does not fail.
        let _ = write!(text, "{comma}{{ for = \"{span}s\", rate = \"{rate}\" }}");
    }
    text
}

fn kilobits(rate: Rate) -> String {
    format!("{}kbit/s", rate.bits_per_second() / 1000)
}

const SECOND: u64 = 1_000_000_000;
const STEP: Duration = Duration::from_secs(1);
/// The longest trace; what is longer goes on as it was.
const MAX_SECONDS: u64 = 3_599;
const MIN_PAYLOAD: ByteCount = ByteCount::from_kib(64);
const MIN_RATE: Rate = Rate::from_bytes_per_second(7_500);
const MAX_RATE: Rate = Rate::from_bits_per_second(10_000_000_000);
const MIN_QUEUE: Duration = Duration::from_millis(50);
/// A tenth: what loses more is down rather than lossy.
const MAX_LOST: u64 = 100_000;
