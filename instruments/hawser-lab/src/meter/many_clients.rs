//! A thousand clients in one process, each with a key, an address on every link and its own
//! session. Lines of the standard input control them; each answer is a line, too.

mod client;
mod hostile;
mod load;
mod order;
mod protocol;

use std::io::{self, BufRead as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use hawser_link::links::list_links;
use tokio::task::JoinSet;

use self::client::{Client, honest};
use super::library::runtime;
use crate::open_files::raise_open_files;
use crate::output::print;

pub(crate) use self::client::{MAX_CLIENTS, address, identity};
pub(crate) use self::order::ManyClients;
pub(crate) use self::protocol::{Answers, Ask, Load, Loaded};

/// Starts all clients, says `ready`, and does what it is asked until the input ends.
pub(crate) fn run(order: &ManyClients) -> anyhow::Result<()> {
    raise_open_files()?;
    runtime()?.block_on(async {
        let clients = start(order).await?;
        print("ready\n")?;
        loop {
            let line = tokio::task::spawn_blocking(read_line).await??;
            if line.is_empty() {
                return Ok(());
            }
            let answer = match serde_json::from_str(&line)? {
                Ask::Answers { within } => serde_json::to_string(&all(&clients, within).await)?,
                Ask::Load(load) => serde_json::to_string(&load::run(&clients, load).await?)?,
            };
            print(&(answer + "\n"))?;
        }
    })
}

fn read_line() -> io::Result<String> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(line)
}

async fn start(order: &ManyClients) -> anyhow::Result<Vec<Arc<Client>>> {
    let mut links = list_links().await?;
    links.retain(|link| order.links.contains(&link.name));
    links.sort_by_key(|link| order.links.iter().position(|name| *name == link.name));
    anyhow::ensure!(links.len() == order.links.len(), "a link is missing");
    (0..=order.clients)
        .map(|number| Client::start(order, number, &links).map(Arc::new))
        .collect::<anyhow::Result<_>>()
        .context("the clients cannot be started")
}

/// Lets every honest client make requests until one is answered, for at most `within` seconds.
async fn all(clients: &[Arc<Client>], within: f64) -> Answers {
    let begin = Instant::now();
    let deadline = begin + Duration::from_secs_f64(within);
    let mut asking = JoinSet::new();
    for client in honest(clients) {
        let client = Arc::clone(client);
        asking.spawn(async move {
            let answered = client.request_until(deadline).await;
            answered.then(|| begin.elapsed().as_secs_f64())
        });
    }
    let answered: Vec<_> = asking.join_all().await;
    Answers {
        missing: answered.iter().filter(|it| it.is_none()).count(),
        seconds: answered.into_iter().flatten().collect(),
    }
}
