//! Datagrams that consist of a token: the waiter for the token learns their source addresses.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::mpsc;

/// Random bytes that cannot be guessed. A datagram that consists of them is shorter than any sealed
/// datagram.
pub type Token = [u8; 16];

/// The waiters for tokens.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    waiting: Mutex<BTreeMap<Token, mpsc::Sender<SocketAddr>>>,
}

/// Receives the source addresses of a token, for as long as this lives.
#[derive(Debug)]
pub struct Sightings {
    token: Token,
    tokens: Arc<Tokens>,
    heard: mpsc::Receiver<SocketAddr>,
}

impl Tokens {
    /// Waits for a token. Returns `None` if it is waited for already, or if too many are.
    pub(super) fn wait(self: &Arc<Self>, token: Token) -> Option<Sightings> {
        let mut waiting = self.waiting.lock();
        if waiting.len() >= MAX_TOKENS || waiting.contains_key(&token) {
            return None;
        }
        let (sender, heard) = mpsc::channel(MAX_UNHEARD);
        waiting.insert(token, sender);
        Some(Sightings {
            token,
            tokens: Arc::clone(self),
            heard,
        })
    }

    /// Handles a datagram that no endpoint understands.
    pub(super) fn handle_datagram(&self, remote: SocketAddr, datagram: &[u8]) {
        if let Ok(token) = <Token>::try_from(datagram)
            && let Some(waiting) = self.waiting.lock().get(&token)
        {
            // Dropped if the channel is full: the token's sender repeats it.
            let _ = waiting.try_send(remote);
        }
    }
}

impl Sightings {
    /// Returns the next source address of the token.
    pub async fn next(&mut self) -> SocketAddr {
        match self.heard.recv().await {
            Some(remote) => remote,
            // The channel's sender lives as long as this.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Sightings {
    fn drop(&mut self) {
        self.tokens.waiting.lock().remove(&self.token);
    }
}

/// Most tokens waited for: far more than hosts that meet at a gateway at once.
const MAX_TOKENS: usize = 4096;
const MAX_UNHEARD: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_token_reaches_its_waiter_until_the_waiter_is_dropped() {
        let tokens = Arc::new(Tokens::default());
        let from = SocketAddr::from(([192, 0, 2, 1], 9));
        let mut sightings = tokens.wait([7; 16]).unwrap();
        assert!(tokens.wait([7; 16]).is_none());
        tokens.handle_datagram(from, &[8; 16]);
        tokens.handle_datagram(from, &[7; 17]);
        tokens.handle_datagram(SocketAddr::from(([192, 0, 2, 2], 8)), &[7; 16]);
        assert_eq!(sightings.next().await.port(), 8);
        for _ in 0..100 {
            tokens.handle_datagram(from, &[7; 16]);
        }
        assert_eq!(sightings.heard.len(), MAX_UNHEARD);
        drop(sightings);
        assert!(tokens.waiting.lock().is_empty());
    }

    #[tokio::test]
    async fn the_number_of_tokens_is_limited() {
        let tokens = Arc::new(Tokens::default());
        let wait = |number: usize| tokens.wait((number as u128).to_be_bytes());
        let all: Vec<_> = (0..MAX_TOKENS).filter_map(wait).collect();
        assert_eq!(all.len(), MAX_TOKENS);
        assert!(wait(MAX_TOKENS).is_none());
        drop(all);
        assert!(wait(MAX_TOKENS).is_some());
    }
}
