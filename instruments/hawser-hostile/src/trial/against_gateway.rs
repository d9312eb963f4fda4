//! A hostile client against `hawser serve`, and an honest one beside it.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use hawser_keys::invite::Invite;

use super::conditions::Conditions;
use super::course::{Course, MOST_TRIES, config};
use crate::client::Client;
use crate::error::HostileError;
use crate::honest::Honest;
use crate::outcome::Outcome;
use crate::performer::Performer;
use crate::program::Program;
use crate::scene::{FRONTED, Scene};
use crate::script::Script;
use crate::session::Session;
use crate::visitor::Visitor;

pub(super) async fn run(
    script: &Script,
    conditions: &Conditions,
    folder: &Path,
) -> Result<Outcome, HostileError> {
    let hawser = &conditions.hawser;
    let mut scene = Scene::open().await?;
    let mut gateway = gateway(script, conditions, folder, &mut scene)?;
    gateway.listens()?;
    let invited: Invite = invite(&gateway)?.parse()?;
    let mut hostile = if script.stranger {
        Client::stranger(invited.gateway(), front_door(&gateway)?)?
    } else {
        Client::enrol(&invited).await?
    };
    if script.narrow {
        hostile.narrow();
    }
    let mut beside = client(hawser, &folder.join("honest"), &gateway)?;
    let mut other = client(hawser, &folder.join("other"), &gateway)?;
    let honest = Honest::start(beside.listens()?, conditions.pace)?;
    let visitor = Visitor::start(other.listens()?)?;
    wait_for_bytes(&honest, 0).await?;
    let (began, bytes) = (Instant::now(), honest.bytes());
    tokio::time::sleep(conditions.before).await;
    let before = (honest.bytes() - bytes) as f64 / began.elapsed().as_secs_f64();

    let mut course = Course::begin(gateway, script, conditions)?;
    course.outcome.goodput_before = Some(before);
    let (begun, bytes) = (Instant::now(), honest.bytes());
    visitor.begin_to_count();
    let last = perform(script, &hostile, &scene, &mut course).await;
    let during = (honest.bytes() - bytes) as f64 / begun.elapsed().as_secs_f64();
    course.outcome.goodput_during = Some(during);
    let at = honest.bytes();
    if wait_for_bytes(&honest, at).await.is_err() {
        let problem = "the honest client gets nothing any more".to_owned();
        course.outcome.violations.push(problem);
    }
    let [connections, datagrams] = visitor.tallies().await;
    (course.outcome.connections, course.outcome.datagrams) = (connections, datagrams);
    drop(visitor);
    drop(last);
    if script.stranger {
        let status = course.subject.status().unwrap_or_default();
        let connected = status["counters"]["front-connected"].as_u64().unwrap_or(0);
        course.outcome.expect(connected == 0, || {
            format!("{connected} streams of strangers from this machine were connected")
        });
    }
    let (wrong, broken) = (honest.wrong(), honest.broken());
    // Before the gateway ends, without which a download would wait in vain.
    drop(honest);
    let mut outcome = course.end(script).await;
    outcome.expect(wrong == 0, || format!("{wrong} blocks had wrong bytes"));
    outcome.expect(broken == 0, || format!("{broken} honest downloads broke"));
    Ok(outcome)
}

/// Performs the script in one session after another while there is time. The last one goes on until
/// what this gives is dropped.
async fn perform<'a>(
    script: &Script,
    hostile: &'a Client,
    scene: &'a Scene,
    course: &mut Course,
) -> Option<Performer<'a>> {
    let mut last = None;
    loop {
        let session = match begin(script, hostile, course).await {
            Ok(session) => session,
            Err(error) => {
                let problem = format!("the hostile client's own key gets no session: {error}");
                course.outcome.violations.push(problem);
                return last;
            }
        };
        let until = course.performs_until(script);
        let mut performer = Performer::new(scene, Some(hostile), session, until);
        let goes_on = course.perform(script, &mut performer).await;
        course.outcome.tracked = course.outcome.tracked.max(performer.tracked);
        last = Some(performer);
        if !goes_on {
            return last;
        }
    }
}

/// Begins a session, also where the machine is busy.
async fn begin(
    script: &Script,
    hostile: &Client,
    course: &mut Course,
) -> Result<Session, HostileError> {
    let mut tries = 0;
    loop {
        let begun = if script.greets {
            hostile.begin_greeted().await
        } else {
            hostile.begin().await
        };
        if begun.is_ok() || tries == MOST_TRIES || !course.was_too_slow() {
            return begun;
        }
        tries += 1;
    }
}

/// Starts the gateway that the script is for.
fn gateway(
    script: &Script,
    conditions: &Conditions,
    folder: &Path,
    scene: &mut Scene,
) -> Result<Program, HostileError> {
    let mut arguments = vec!["serve", "--listen", "127.0.0.1:0", "--meet"];
    for network in ["127.0.0.0/8", "::1/128"] {
        arguments.extend(["--allow-destination", network]);
    }
    if script.carries_packets {
        scene.open_local_route()?;
        arguments.extend(["--packet-exit", "nat"]);
    }
    let mut config = config(conditions);
    if script.stranger {
        let behind = scene.behind();
        config.push_str(&format!(
            "[serve]\nfront = [\"{FRONTED}:proxy={behind}\"]\nfront-listen = \"127.0.0.1:0\"\n"
        ));
    }
    let folder = folder.join("gateway");
    Program::start(&conditions.hawser, &folder, &config, &arguments)
}

/// Starts an honest client of the gateway.
fn client(hawser: &Path, folder: &Path, gateway: &Program) -> Result<Program, HostileError> {
    let invite = invite(gateway)?;
    let up = ["up", "--listen", "127.0.0.1:0", "--link", "lo", "--gateway"];
    let arguments = [&up[..], &[&invite]].concat();
    Program::start(hawser, folder, "", &arguments)
}

fn invite(gateway: &Program) -> Result<String, HostileError> {
    let said = gateway.ask(&["invite"])?;
    let invite = said
        .split_whitespace()
        .find(|it| it.parse::<Invite>().is_ok());
    let missing = || HostileError::Strange(format!("no invite: {said}"));
    invite.map(str::to_owned).ok_or_else(missing)
}

/// Where strangers come in.
fn front_door(gateway: &Program) -> Result<SocketAddr, HostileError> {
    let log = gateway.log();
    let line = log.lines().find(|it| it.contains("have not enrolled"));
    let words = line.and_then(|line| line.split_once("listen="));
    let address = words.and_then(|(_, rest)| rest.split_whitespace().next());
    let address = address.and_then(|address| address.parse().ok());
    address.ok_or_else(|| HostileError::Strange(format!("no port for strangers: {log}")))
}

/// Waits until more than `beyond` bytes have come.
async fn wait_for_bytes(honest: &Honest, beyond: u64) -> Result<(), HostileError> {
    let until = Instant::now() + PATIENCE;
    while honest.bytes() <= beyond {
        if Instant::now() > until {
            let what = "the honest client gets something".to_owned();
            return Err(HostileError::Never(what));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(10);
