use hawser_director::{AllLinkRules, Health};
use hawser_link::links::Link;
use hawser_sched::connection::ConnectionPolicy;
use hawser_types::ByteCount;
use parking_lot::Mutex;
use tokio::time::timeout;

use super::super::testing::link;
use super::super::{Observation, Observe, Origin, OverLinks, resolved};
use super::*;
use crate::connect::ConnectOptions;
use crate::destination::{Destination, HostName};
use crate::near::Surroundings;
use crate::resolve::Resolve;
use crate::transport::{ByteStream, ResetCode};

/// A link's response to a connection.
#[derive(Clone, Copy)]
pub(crate) enum Does {
    Answer(u64),
    Fail(io::ErrorKind),
    Nothing,
}

/// Links that respond as they are told, and the attempts on them with the milliseconds at which
/// they began.
#[derive(Clone)]
pub(crate) struct Scripted {
    does: Arc<Mutex<Vec<(&'static str, Does)>>>,
    log: Arc<Mutex<Vec<(String, u128)>>>,
    begun: Instant,
}

impl Scripted {
    pub(crate) fn new(does: &[(&'static str, Does)]) -> Self {
        Self {
            does: Arc::new(Mutex::new(does.to_vec())),
            log: Arc::default(),
            begun: Instant::now(),
        }
    }
}

impl ByteStream for tokio::io::Empty {
    fn reset(&mut self, _code: ResetCode) {}
}

impl Observe for tokio::io::Empty {
    fn observe(&self) -> Observation {
        Observation::default()
    }
}

impl Via for Scripted {
    type Stream = tokio::io::Empty;

    async fn connect(&self, link: Option<&Link>, _to: SocketAddr) -> io::Result<Self::Stream> {
        let name = link.map_or("system", |link| &link.name);
        let at = self.begun.elapsed().as_millis();
        self.log.lock().push((name.to_owned(), at));
        let does = self
            .does
            .lock()
            .iter()
            .find(|it| it.0 == name)
            .map(|it| it.1);
        match does {
            Some(Does::Answer(after)) => {
                tokio::time::sleep(Duration::from_millis(after)).await;
                Ok(tokio::io::empty())
            }
            Some(Does::Fail(kind)) => Err(kind.into()),
            Some(Does::Nothing) | None => std::future::pending().await,
        }
    }
}

impl Surroundings for Scripted {
    async fn is_near(&self, address: IpAddr) -> bool {
        address.is_loopback()
    }
}

/// A name with an address of each family.
struct BothFamilies;

impl Resolve for BothFamilies {
    async fn resolve(&self, _name: &HostName) -> Result<Vec<IpAddr>, DialError> {
        Ok(vec![
            "2001:db8::9".parse().unwrap(),
            "192.0.2.9".parse().unwrap(),
        ])
    }
}

type Links = OverLinks<Scripted, BothFamilies>;

/// Opens a connection.
async fn dial(links: &Links, to: &str) -> Result<Counted<tokio::io::Empty>, DialError> {
    let to: Destination = to.parse().unwrap();
    let addresses = links.resolve(&to).await?;
    let request = resolved(Origin::default().towards(&to), &addresses);
    links.dial(request, addresses, Vec::new()).await
}

struct Bench {
    director: SharedDirector,
    dialer: Arc<Links>,
    scripted: Scripted,
}

impl Bench {
    /// Creates links with these names, all of which may be used.
    fn new(does: &[(&'static str, Does)]) -> Self {
        let director = SharedDirector::new(ConnectionPolicy::RoundRobin, Vec::new());
        let scripted = Scripted::new(does);
        let options = ConnectOptions::default();
        let dialer = OverLinks::new(director.clone(), scripted.clone(), BothFamilies, options);
        let bench = Self {
            director,
            dialer: Arc::new(dialer),
            scripted,
        };
        bench.set_links(&does.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        bench
    }

    fn set_links(&self, names: &[&str]) {
        let links: Vec<Link> = names.iter().map(|name| Link::clone(&link(name))).collect();
        self.director.set_links(&links);
    }

    fn set(&self, name: &'static str, does: Does) {
        self.scripted.does.lock().insert(0, (name, does));
    }

    /// Dials; returns the link that was taken and the milliseconds that it took.
    async fn dial(&self, to: &str) -> Result<(String, u128), DialError> {
        let begun = Instant::now();
        let stream = dial(&self.dialer, to).await?;
        let taken = stream.flow().and_then(super::super::Flow::link);
        let report = self.director.report();
        let link = report.links.iter().find(|it| Some(it.link.index) == taken);
        let name = link.map_or("system", |it| &it.link.name).to_owned();
        Ok((name, begun.elapsed().as_millis()))
    }

    fn attempts(&self) -> Vec<(String, u128)> {
        std::mem::take(&mut *self.scripted.log.lock())
    }

    fn health(&self, name: &str) -> Health {
        let report = self.director.report();
        let mut links = report.links.iter();
        links.find(|it| it.link.name == name).unwrap().health
    }
}

fn on(link: &str, at: u128) -> (String, u128) {
    (link.to_owned(), at)
}

pub(crate) const UNREACHABLE: Does = Does::Fail(io::ErrorKind::NetworkUnreachable);
const PLACE: &str = "192.0.2.9:80";

#[tokio::test(start_paused = true)]
async fn a_link_that_answers_is_the_only_one_that_is_asked() {
    let bench = Bench::new(&[("a", Does::Answer(20)), ("b", Does::Answer(20))]);
    assert_eq!(bench.dial(PLACE).await, Ok(on("a", 20)));
    assert_eq!(bench.attempts(), [on("a", 0)]);
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 20)));
}

#[tokio::test(start_paused = true)]
async fn a_failure_on_one_link_is_tried_on_the_next_at_once() {
    let bench = Bench::new(&[("a", UNREACHABLE), ("b", Does::Answer(20))]);
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 20)));
    assert_eq!(bench.attempts(), [on("a", 0), on("b", 0)]);
    assert_eq!(bench.director.report().moved_over, 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_link_is_raced_after_its_patience_and_left_out_once_it_is_suspect() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Answer(20))]);
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 270)));
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 20)), "its turn");
    assert_eq!(bench.health("a"), Health::Sound);
    let waited = bench.dial(PLACE).await.unwrap();
    assert!(waited.0 == "b" && waited.1 > 100, "{waited:?}");
    assert_eq!(bench.health("a"), Health::Suspect);
    for _ in 0..10 {
        assert_eq!(bench.dial(PLACE).await, Ok(on("b", 20)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_link_is_waited_for_as_long_as_it_carries_what_others_asked_for() {
    let bench = Bench::new(&[("a", Does::Answer(20)), ("b", Does::Answer(20))]);
    let busy = dial(&bench.dialer, PLACE).await.unwrap();
    // A round trip takes 20 ms without the queue.
    for _ in 0..50 {
        busy.flow().unwrap().round_trip(Duration::from_secs(5));
    }
    let carrying = tokio::spawn(async move {
        loop {
            let some = ByteCount::new(1000);
            busy.flow().unwrap().moved(ByteCount::ZERO, some);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    bench.set("a", Does::Answer(4000));
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 20)), "its turn");
    assert_eq!(bench.dial(PLACE).await, Ok(on("a", 4000)));
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 20)));
    // Dropping the task's connection ends it, and the link is silent from then on.
    carrying.abort();
    let waited = bench.dial(PLACE).await.unwrap();
    assert!(
        waited.0 == "b" && (2000..3000).contains(&waited.1),
        "{waited:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_suspect_is_asked_beside_the_others_and_comes_back_when_it_answers() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Answer(20))]);
    while bench.health("a") == Health::Sound {
        bench.dial(PLACE).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    bench.attempts();
    assert_eq!(
        bench.dial(PLACE).await,
        Ok(on("b", 20)),
        "the race does not wait for the trial"
    );
    let mut asked = bench.attempts();
    asked.sort();
    assert_eq!(
        asked.iter().map(|it| it.0.as_str()).collect::<Vec<_>>(),
        ["a", "b"]
    );
    // Slower than the other link, so that it never wins a race.
    bench.set("a", Does::Answer(300));
    tokio::time::sleep(Duration::from_millis(2100)).await;
    bench.dial(PLACE).await.unwrap();
    assert_eq!(bench.health("a"), Health::Suspect);
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(bench.health("a"), Health::Sound);
}

#[tokio::test(start_paused = true)]
async fn a_suspect_is_not_asked_for_local_places() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Answer(20))]);
    bench.set("system", Does::Answer(1));
    while bench.health("a") == Health::Sound {
        bench.dial(PLACE).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(1100)).await;
    bench.attempts();
    assert_eq!(bench.dial("127.0.0.1:80").await, Ok(on("system", 1)));
    tokio::time::sleep(Duration::from_millis(10)).await;
    let asked = bench.attempts();
    assert!(asked.iter().all(|it| it.0 == "system"), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_caught_on_a_link_that_goes_away_moves_over_at_once() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Answer(20))]);
    let dialer = Arc::clone(&bench.dialer);
    let caught = tokio::spawn(async move {
        let begun = Instant::now();
        let stream = dial(&dialer, PLACE).await.unwrap();
        (
            stream.flow().unwrap().link().unwrap().value(),
            begun.elapsed().as_millis(),
        )
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    bench.set_links(&["b"]);
    assert_eq!(caught.await.unwrap(), (u32::from(b'b'), 70));
}

#[tokio::test(start_paused = true)]
async fn what_is_caught_on_a_link_found_suspect_moves_over_at_once() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Answer(20))]);
    let mut caught = tokio::task::JoinSet::new();
    let begun = Instant::now();
    for number in 0..40 {
        let dialer = Arc::clone(&bench.dialer);
        caught.spawn(async move {
            tokio::time::sleep(Duration::from_millis(number * 10)).await;
            drop(dial(&dialer, PLACE).await.unwrap());
            begun.elapsed().as_millis()
        });
    }
    let mut ended = caught.join_all().await;
    ended.sort_unstable();
    // The first two attempts show it by 290 ms; later attempts do not wait any more.
    assert!(ended.iter().all(|at| *at <= 410), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_link_that_appears_is_taken_by_those_that_wait_without_hope() {
    let bench = Bench::new(&[("a", Does::Nothing)]);
    bench.set("c", Does::Answer(20));
    let dialer = Arc::clone(&bench.dialer);
    let caught = tokio::spawn(async move { dial(&dialer, PLACE).await.is_ok() });
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.set_links(&[]);
    bench.set_links(&["c"]);
    assert!(caught.await.unwrap());
    assert_eq!(bench.attempts(), [on("a", 0), on("c", 1000)]);
}

#[tokio::test(start_paused = true)]
async fn a_destination_that_refuses_is_refused_and_speaks_for_the_links() {
    let refuse = Does::Fail(io::ErrorKind::ConnectionRefused);
    let bench = Bench::new(&[("a", refuse), ("b", refuse)]);
    for _ in 0..5 {
        assert_eq!(bench.dial(PLACE).await, Err(DialError::ConnectionRefused));
    }
    assert_eq!(
        (bench.health("a"), bench.health("b")),
        (Health::Sound, Health::Sound)
    );
    assert_eq!(bench.director.report().unanswered, 5);
}

#[tokio::test(start_paused = true)]
async fn a_place_that_never_answers_speaks_against_no_link() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Nothing)]);
    for _ in 0..3 {
        assert_eq!(bench.dial(PLACE).await, Err(DialError::TimedOut));
    }
    assert_eq!(
        (bench.health("a"), bench.health("b")),
        (Health::Sound, Health::Sound)
    );
}

#[tokio::test(start_paused = true)]
async fn names_are_raced_over_families_and_links_at_once() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Answer(20))]);
    assert_eq!(bench.dial("example.org:80").await, Ok(on("b", 270)));
    assert_eq!(bench.attempts().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn local_places_go_as_the_system_has_it() {
    let bench = Bench::new(&[("system", Does::Answer(1)), ("a", Does::Answer(1))]);
    bench.set_links(&["a"]);
    assert_eq!(bench.dial("127.0.0.1:80").await, Ok(on("system", 1)));
    assert_eq!(bench.director.report().opened, 0);
}

#[tokio::test(start_paused = true)]
async fn a_link_in_reserve_is_tried_late_and_a_forbidden_one_never() {
    use hawser_sched::rules::LinkRules;
    use hawser_types::{LimitedBy, Permission};
    let bench = Bench::new(&[
        ("a", Does::Nothing),
        ("b", Does::Answer(20)),
        ("c", Does::Answer(20)),
    ]);
    let rules = |permission| LinkRules {
        up: permission,
        ..LinkRules::default()
    };
    let rules = [
        (
            "b".to_owned(),
            rules(Permission::Reserve(LimitedBy::Choice)),
        ),
        (
            "c".to_owned(),
            rules(Permission::Forbidden(LimitedBy::Choice)),
        ),
    ];
    bench.director.set_link_rules(AllLinkRules {
        by_name: rules.into(),
        ..AllLinkRules::default()
    });
    assert_eq!(bench.dial(PLACE).await, Ok(on("b", 1020)));
    bench.set_links(&["c"]);
    assert_eq!(bench.dial(PLACE).await, Err(DialError::NetworkUnreachable));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_given_up_leaves_nothing_behind() {
    let bench = Bench::new(&[("a", Does::Nothing), ("b", Does::Nothing)]);
    let dialing = dial(&bench.dialer, PLACE);
    assert!(timeout(Duration::from_secs(1), dialing).await.is_err());
    assert_eq!(bench.director.with(|it, _| it.open_count()), 0);
    let report = bench.director.report();
    assert!(report.links.iter().all(|it| it.load.connections == 0));
}

/// Returns rules by which these links are never used.
fn never(names: &[&str]) -> AllLinkRules {
    use hawser_sched::rules::LinkRules;
    use hawser_types::{LimitedBy, Permission};
    let forbidden = LinkRules {
        up: Permission::Forbidden(LimitedBy::Choice),
        ..LinkRules::default()
    };
    AllLinkRules {
        by_name: names
            .iter()
            .map(|name| ((*name).to_owned(), forbidden))
            .collect(),
        ..AllLinkRules::default()
    }
}

/// Dials, and changes something after 50 ms; returns how long the dial took.
async fn dial_while(bench: &Bench, change: impl FnOnce(&SharedDirector)) -> (String, u128) {
    let change = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        change(&bench.director);
    };
    let (dialed, ()) = tokio::join!(bench.dial(PLACE), change);
    dialed.unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_attempt_over_a_link_that_is_forbidden_meanwhile_ends_and_the_next_begins() {
    let bench = Bench::new(&[("a", Does::Answer(150)), ("b", Does::Answer(20))]);
    let forbid = |director: &SharedDirector| director.set_link_rules(never(&["a"]));
    assert_eq!(dial_while(&bench, forbid).await, on("b", 70));
    assert_eq!(bench.attempts(), [on("a", 0), on("b", 50)]);
    let stories = bench.director.stories(10).1;
    assert_eq!(stories.len(), 1);
    assert_eq!(stories[0].decided_again, 1);
    let report = bench.director.report();
    let loads = report.links.iter().map(|it| it.load.connections);
    assert_eq!(loads.sum::<u32>(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_same_holds_for_rules_for_connections() {
    use hawser_policy::{Action, LinkChoice, Rule, RuleSet};
    let bench = Bench::new(&[("a", Does::Answer(150)), ("b", Does::Answer(20))]);
    let rule = Rule {
        then: Action {
            links: Some(LinkChoice::Only(vec!["b".to_owned()])),
            ..Action::default()
        },
        ..Rule::default()
    };
    let rules = Arc::new(RuleSet::new([rule]));
    let taken = dial_while(&bench, |director| director.set_rules(rules)).await;
    assert_eq!(taken, on("b", 70));
}

#[tokio::test(start_paused = true)]
async fn a_link_that_is_forbidden_or_gone_meanwhile_is_not_the_next() {
    let does = [
        ("a", Does::Nothing),
        ("b", Does::Answer(20)),
        ("c", Does::Answer(20)),
    ];
    let bench = Bench::new(&does);
    let forbid = |director: &SharedDirector| director.set_link_rules(never(&["b"]));
    assert_eq!(dial_while(&bench, forbid).await, on("c", 270));
    let bench = Bench::new(&does);
    let left = ["a", "c"].map(|name| Link::clone(&link(name)));
    let remove = |director: &SharedDirector| director.set_links(&left);
    assert_eq!(dial_while(&bench, remove).await, on("c", 270));
}

#[tokio::test(start_paused = true)]
async fn what_is_forbidden_everywhere_meanwhile_has_no_way() {
    let bench = Bench::new(&[("a", Does::Answer(150))]);
    let forbid = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        bench.director.set_link_rules(never(&["a"]));
    };
    let (dialed, ()) = tokio::join!(bench.dial(PLACE), forbid);
    assert_eq!(dialed, Err(DialError::NetworkUnreachable));
}

/// Dials with a change after the decision and before the first attempt.
async fn dial_after(bench: &Bench, change: impl FnOnce(&SharedDirector)) -> Option<LinkIndex> {
    let to: Destination = PLACE.parse().unwrap();
    let addresses = bench.dialer.resolve(&to).await.unwrap();
    let request = resolved(Origin::default().towards(&to), &addresses);
    let decided = Decided {
        changes: bench.director.changes(),
        decision: bench.director.decide_links(&request),
        asks_bond: Vec::new(),
    };
    change(&bench.director);
    let dialed = bench.dialer.dial_decided(request, addresses, decided);
    dialed
        .await
        .unwrap()
        .flow()
        .and_then(super::super::Flow::link)
}

#[tokio::test(start_paused = true)]
async fn what_changes_between_the_decision_and_the_first_attempt_counts() {
    let does = [("a", Does::Answer(20)), ("b", Does::Answer(20))];
    let b = Some(link("b").index);
    let bench = Bench::new(&does);
    let forbid = |director: &SharedDirector| director.set_link_rules(never(&["a"]));
    assert_eq!(dial_after(&bench, forbid).await, b);
    assert_eq!(bench.attempts(), [on("b", 0)]);
    for before in [&["a"][..], &[]] {
        let bench = Bench::new(&does);
        bench.set_links(before);
        let comes = [Link::clone(&link("b"))];
        let come = |director: &SharedDirector| director.set_links(&comes);
        assert_eq!(dial_after(&bench, come).await, b, "{before:?}");
    }
}
