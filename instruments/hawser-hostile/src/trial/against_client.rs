//! A hostile gateway against `hawser up`, whose applications send requests all the time.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::conditions::Conditions;
use super::course::{Course, config};
use crate::error::HostileError;
use crate::gateway::Gateway;
use crate::honest::connect;
use crate::outcome::Outcome;
use crate::performer::Performer;
use crate::program::Program;
use crate::scene::Scene;
use crate::script::Script;

pub(super) async fn run(
    script: &Script,
    conditions: &Conditions,
    folder: &Path,
) -> Result<Outcome, HostileError> {
    let scene = Scene::open().await?;
    let mut gateway = Gateway::start().await?;
    let invite = gateway.invite().to_line();
    let up = ["up", "--listen", "127.0.0.1:0", "--link", "lo", "--gateway"];
    let arguments = [&up[..], &[&invite]].concat();
    let config = config(conditions);
    let folder = folder.join("client");
    let mut client = Program::start(&conditions.hawser, &folder, &config, &arguments)?;
    let mut session = gateway.accept().await?;
    let proxy = client.listens()?;
    let mut course = Course::begin(client, script, conditions)?;
    let applications = Applications::start(proxy);
    loop {
        let until = course.performs_until(script);
        let mut performer = Performer::new(&scene, None, session, until);
        if !course.perform(script, &mut performer).await {
            break;
        }
        drop(performer);
        session = gateway.accept().await?;
    }
    drop(applications);
    Ok(course.end(script).await)
}

/// Programs that connect through the daemon, write and read.
struct Applications {
    stop: Arc<AtomicBool>,
}

impl Applications {
    fn start(proxy: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        for number in 0..APPLICATIONS {
            let stop = Arc::clone(&stop);
            let target = SocketAddr::from((Ipv4Addr::new(198, 51, 100, number), 80));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // What becomes of it is up to the gateway.
                    let _ = visit(proxy, target, &stop);
                    std::thread::sleep(PAUSE);
                }
            });
        }
        Self { stop }
    }
}

impl Drop for Applications {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn visit(proxy: SocketAddr, target: SocketAddr, stop: &AtomicBool) -> std::io::Result<()> {
    let mut stream = connect(proxy, target)?;
    stream.set_read_timeout(Some(PAUSE))?;
    stream.set_write_timeout(Some(PAUSE))?;
    let mut buffer = vec![0x33; 64 * 1024];
    while !stop.load(Ordering::Relaxed) {
        // Nothing may be read or written for long; an end shows in either.
        if stream.write(&buffer).is_err_and(|it| !is_late(&it)) {
            break;
        }
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Err(error) if !is_late(&error) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

fn is_late(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{TimedOut, WouldBlock};
    matches!(error.kind(), TimedOut | WouldBlock)
}

const APPLICATIONS: u8 = 4;
const PAUSE: Duration = Duration::from_millis(100);
