use std::net::SocketAddr;

use hawser_link::asker::Process;

use super::Origin;
use super::who::{Found, Sought, UnknownAsker, Who};

/// The application that asks for a connection.
#[derive(Clone, Debug)]
pub struct Asker(Answer);

#[derive(Clone, Debug)]
enum Answer {
    Known(Origin),
    Sought(Sought),
}

impl Who {
    /// Returns the asker at the other end of a connection that was accepted from `peer` at `local`.
    pub fn ask(&self, peer: SocketAddr, local: SocketAddr) -> Asker {
        if !peer.ip().to_canonical().is_loopback() {
            return unknown();
        }
        Asker(Answer::Sought(Sought::new(self, peer, local)))
    }
}

impl Asker {
    /// Returns the known facts about the asker, after a short wait for those still sought.
    ///
    /// # Errors
    /// If rules need facts that are not found in time.
    pub async fn origin(&self) -> Result<Origin, UnknownAsker> {
        let sought = match &self.0 {
            Answer::Known(origin) => return Ok(origin.clone()),
            Answer::Sought(sought) => sought,
        };
        Ok(match sought.find().await? {
            Found::Program(process) => Origin::from(process),
            Found::NoProcess => Origin::default(),
            Found::NotYet => Origin {
                sought: Some(sought.clone()),
                ..Origin::default()
            },
        })
    }
}

impl From<Process> for Origin {
    fn from(process: Process) -> Self {
        Self {
            program: Some(process.program),
            executable: process.executable,
            user: Some(process.user),
            cgroup: process.cgroup,
            ..Self::default()
        }
    }
}

/// Returns an asker that stays unknown.
pub fn unknown() -> Asker {
    known(Origin::default())
}

/// Returns an asker that is known already.
pub const fn known(origin: Origin) -> Asker {
    Asker(Answer::Known(origin))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt as _;
    use tokio::net::{TcpListener, TcpStream};

    use super::super::who::tests::{asked, silent};
    use super::*;

    const ROOM: usize = 4096;

    /// Waits without the limit of a connection, since a busy machine may take longer.
    async fn answered(asker: &Asker) {
        if let Answer::Sought(sought) = &asker.0 {
            sought.asked().await.unwrap();
        }
    }

    fn local() -> SocketAddr {
        "127.0.0.1:9".parse().unwrap()
    }

    fn nowhere() -> SocketAddr {
        "127.0.0.1:1".parse().unwrap()
    }

    #[tokio::test]
    async fn the_program_behind_a_connection_is_known() {
        let who = Who::start(ROOM).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let _client = TcpStream::connect(local).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        let asker = who.ask(peer, local);
        answered(&asker).await;
        let origin = asker.origin().await.unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(origin.program.as_deref(), Some(name.trim_end()));
        assert!(origin.user.is_some());
        assert_eq!(asker.origin().await, Ok(origin), "it is remembered");
    }

    #[tokio::test]
    async fn where_the_asker_can_not_be_known_nothing_is_refused() {
        let who = Who::start(ROOM).unwrap().with_refusal_while(|| true);
        let elsewhere = "192.0.2.1:9".parse().unwrap();
        for peer in [elsewhere, nowhere()] {
            let asker = who.ask(peer, local());
            answered(&asker).await;
            assert_eq!(asker.origin().await, Ok(Origin::default()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_asker_is_sought_before_it_matters() {
        let matters = Arc::new(AtomicBool::new(false));
        let (who, _asked) = silent(1);
        let wanted = Arc::clone(&matters);
        let who = who.with_wait_while(move || wanted.load(Ordering::Relaxed));
        let who = who.with_refusal_while(|| true);
        let asker = who.ask(nowhere(), local());
        assert_eq!(asker.origin().await.unwrap().program, None);
        assert_eq!(*who.open().borrow(), 0);
        // A rule was added while the connection was open.
        matters.store(true, Ordering::Relaxed);
        assert_eq!(asker.origin().await, Err(UnknownAsker));
        assert_eq!(*who.open().borrow(), 1);
    }

    #[tokio::test]
    async fn a_program_without_a_waiting_connection_is_known_once_it_is_viewed() {
        let who = Who::start(ROOM).unwrap().with_wait_while(|| false);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let local = listener.local_addr().unwrap();
        let _client = TcpStream::connect(local).await.unwrap();
        let (_server, peer) = listener.accept().await.unwrap();
        let origin = who.ask(peer, local).origin().await.unwrap();
        assert_eq!(*who.open().borrow(), 0, "nothing was sought");
        let label = origin.label().unwrap();
        label();
        who.open().wait_for(|count| *count == 0).await.unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(label().as_deref(), Some(name.trim_end()));
    }

    #[tokio::test]
    async fn one_that_is_found_too_late_for_its_connection_is_known_to_those_who_look() {
        let (who, asked) = asked(1);
        let origin = who.ask(nowhere(), local()).origin().await.unwrap();
        let label = origin.label().unwrap();
        assert_eq!((origin.program, label()), (None, None));
        let (_, answer) = asked.recv().unwrap();
        let curl = Process {
            program: "curl".to_owned(),
            executable: None,
            user: 0,
            cgroup: None,
        };
        answer.send(Some(curl)).unwrap();
        assert_eq!(label().as_deref(), Some("curl"));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_known_in_time_is_waited_for_no_longer() {
        let (who, _asked) = silent(1);
        // The second search finds no room.
        for _ in 0..2 {
            let asker = who.ask(nowhere(), local());
            assert_eq!(asker.origin().await.unwrap().program, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_rules_depend_on_it_who_is_not_known_in_time_is_refused() {
        for room in [0, 1] {
            let (who, _asked) = silent(room);
            let who = who.with_refusal_while(|| true);
            let asker = who.ask(nowhere(), local());
            assert_eq!(asker.origin().await, Err(UnknownAsker), "{room}");
        }
        // As many askers may be sought at once as there can be connections.
        let who = Who::start(ROOM).unwrap().with_refusal_while(|| true);
        let ask = |_| who.ask(nowhere(), local());
        let all: Vec<Asker> = (0..ROOM).map(ask).collect();
        let is_asked = |it: &Asker| match &it.0 {
            Answer::Sought(sought) => !matches!(sought.asked().now_or_never(), Some(Err(_))),
            Answer::Known(_) => false,
        };
        assert!(all.iter().all(is_asked));
    }
}
