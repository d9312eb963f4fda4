use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hawser_control::{LinkStatus, Response, Role, StatusSnapshot, encode_response};
use hawser_session::recorder::Recorder;
use tokio::time::advance;

use super::super::books::tests::view;
use super::*;

/// A daemon with sessions that have this many streams each; later streams move more data.
struct Many {
    streams: Vec<u64>,
    seconds: Arc<AtomicU64>,
    /// Sessions and streams that were looked at.
    taken: Arc<[AtomicU64; 2]>,
}

impl Many {
    fn take(&self, session: usize, max_streams: usize) -> View {
        let count = self.streams[session];
        let first = count.saturating_sub(max_streams as u64);
        let moved = self.seconds.load(Ordering::Relaxed) * (session as u64 + 1);
        let streams: Vec<_> = (first..count).map(|id| (2 * id, moved)).collect();
        self.taken[0].fetch_add(1, Ordering::Relaxed);
        self.taken[1].fetch_add(streams.len() as u64, Ordering::Relaxed);
        let mut view = view(&[(0, moved), (1, moved)], &streams);
        view.id = name(session);
        if let Some(session) = &mut view.session {
            session.stream_count = usize::try_from(count).unwrap();
        }
        view
    }
}

impl Subject for Many {
    fn sessions(&self, wanted: &dyn Fn(&str) -> bool, max_streams: usize) -> Vec<View> {
        let all = 0..self.session_count();
        let wanted = all.filter(|session| wanted(&name(*session)));
        wanted.map(|it| self.take(it, max_streams)).collect()
    }

    fn session_count(&self) -> usize {
        self.streams.len()
    }

    fn links(&self) -> Vec<LinkStatus> {
        Vec::new()
    }

    fn recorder(
        &self,
        _session: &str,
        _read: &mut dyn FnMut(&Recorder, hawser_types::Instant),
    ) -> bool {
        false
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        BTreeMap::new()
    }
}

fn name(session: usize) -> String {
    format!("{session:04}")
}

/// A daemon with such sessions, which has run for a second.
struct Scene {
    shared: State,
    taken: Arc<[AtomicU64; 2]>,
}

impl Scene {
    async fn new(streams: &[u64]) -> Self {
        let shared = State::new(Role::Gateway, None);
        let (seconds, taken) = (Arc::<AtomicU64>::default(), Arc::default());
        let subject = Many {
            streams: streams.to_vec(),
            seconds: Arc::clone(&seconds),
            taken: Arc::clone(&taken),
        };
        shared.show(subject);
        for _ in 0..2 {
            shared.enter();
            shared.notice();
            seconds.fetch_add(1000, Ordering::Relaxed);
            advance(Duration::from_secs(1)).await;
        }
        shared.enter();
        Self { shared, taken }
    }

    /// Returns the answer, and the numbers of sessions and streams that were looked at for it.
    fn status(&self, request: &Request) -> (StatusSnapshot, [u64; 2]) {
        let before = self.taken();
        let Response::Status(status) = self.shared.answer(request) else {
            panic!("another answer");
        };
        let after = self.taken();
        (*status, [0, 1].map(|of| after[of] - before[of]))
    }

    fn taken(&self) -> [u64; 2] {
        [0, 1].map(|of| self.taken[of].load(Ordering::Relaxed))
    }
}

fn most(sessions: u64, streams: u64) -> Request {
    Request::Status {
        sessions: Some(sessions),
        streams: Some(streams),
    }
}

#[tokio::test(start_paused = true)]
async fn of_many_sessions_the_busiest_are_looked_at_and_all_are_counted() {
    let scene = Scene::new(&[20; 1000]).await;
    let (status, taken) = scene.status(&Request::STATUS);
    let listed: Vec<_> = status.sessions.iter().map(|it| it.id.as_str()).collect();
    let busiest: Vec<_> = (936..1000).map(name).collect();
    assert_eq!(listed, busiest);
    assert_eq!(taken, [64, 64 * 7]);
    assert_eq!(status.session_count, 1000);
    assert_eq!(status.all_sessions.stream_count, 20_000);
    assert_eq!(status.unlisted_streams(), 20_000 - 64 * 7);
    // The books follow the listed streams.
    let streams = status.sessions.iter().flat_map(|it| &it.streams);
    assert!(
        streams
            .map(|it| it.rate)
            .all(|rate| rate > hawser_types::Rate::ZERO)
    );

    let (status, taken) = scene.status(&Request::STATUS_WITHOUT_SESSIONS);
    assert_eq!((status.sessions.len(), taken), (0, [0, 0]));
    assert_eq!(status.session_count, 1000);
    assert_eq!(status.all_sessions.stream_count, 20_000);
    assert_eq!(scene.status(&most(3, 2)).1, [3, 6]);
    // A request for all sessions gets them, but no more streams.
    let (status, taken) = scene.status(&most(u64::MAX, u64::MAX));
    assert_eq!((status.sessions.len(), taken), (1000, [1000, 0]));
}

#[tokio::test(start_paused = true)]
async fn streams_share_the_room_so_that_few_of_one_session_leave_more_for_others() {
    let scene = Scene::new(&[400, 2, 300]).await;
    let (status, taken) = scene.status(&Request::STATUS);
    let listed: Vec<_> = status.sessions.iter().map(|it| it.streams.len()).collect();
    assert_eq!((listed, taken), (vec![249, 2, 249], [3, 500]));
    let latest = status.sessions[0].streams.last().map(|it| it.id.value());
    assert_eq!(latest, Some(798));
    // A single session gets the whole limit.
    let scene = Scene::new(&[10_000]).await;
    assert_eq!(scene.status(&Request::STATUS).1, [1, 500]);
}

/// Prints measurements; asserts nothing.
#[tokio::test(start_paused = true)]
#[ignore = "measures, and asserts no time: cargo xtask cost"]
async fn what_a_picture_costs() {
    println!("sessions of 20 streams   status   as JSON  metrics  events   books");
    for count in [10, 100, 1000] {
        let scene = Scene::new(&vec![20; count]).await;
        let response = || scene.shared.answer(&Request::STATUS);
        let json = encode_response(&response()).unwrap().len();
        let columns = [
            cost(|| drop(response())),
            format!("{} kB", json / 1000),
            cost(|| drop(scene.shared.answer(&Request::STATUS_WITHOUT_SESSIONS))),
            cost(|| _ = scene.shared.notice()),
            cost(|| scene.shared.enter()),
        ];
        let [status, json, metrics, events, books] = columns;
        println!("{count:>8} {status:>22} {json:>9} {metrics:>8} {events:>7} {books:>7}");
    }
}

/// The mean time that `work` takes.
fn cost(work: impl Fn()) -> String {
    let begun = Instant::now();
    for _ in 0..TIMES {
        work();
    }
    let mean = begun.elapsed() / TIMES;
    format!("{:.2} ms", mean.as_secs_f64() * 1e3)
}

const TIMES: u32 = 20;
