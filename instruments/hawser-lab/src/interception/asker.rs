use std::io;
use std::net::SocketAddrV4;

use hawser_capture::RunGroup;

use crate::dialogue::Dialogue;
use crate::measure::own_program;
use crate::topology::Lab;

/// A process that makes connections when it is asked, and tells how long each took.
pub(super) struct Asker(Dialogue);

impl Asker {
    /// One at the client, in `group` if there is one.
    pub(super) fn start(
        lab: &Lab,
        server: SocketAddrV4,
        group: Option<&RunGroup>,
    ) -> io::Result<Self> {
        let mut command = lab.client().command(own_program()?);
        command.args(["meter", "connects", &server.to_string()]);
        if let Some(group) = group {
            group.enter(&mut command)?;
        }
        Dialogue::start(command).map(Self)
    }

    /// Returns the times of the calls that `question` asks for, in seconds.
    pub(super) fn ask(&mut self, question: &str) -> io::Result<Vec<f64>> {
        self.0.say(question)?;
        let nanos: Vec<u64> = serde_json::from_str(&self.0.hear()?)?;
        Ok(nanos.into_iter().map(|nanos| nanos as f64 / 1e9).collect())
    }
}
