use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddrV4;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use hawser_capture::RunGroup;

use crate::measure::own_program;
use crate::topology::Lab;

/// A process that makes connections when it is asked, and tells how long each took.
pub(super) struct Asker {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Asker {
    /// One at the client, in `group` if there is one.
    pub(super) fn start(
        lab: &Lab,
        server: SocketAddrV4,
        group: Option<&RunGroup>,
    ) -> io::Result<Self> {
        let mut command = lab.client().command(own_program()?);
        command.args(["meter", "connects", &server.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(group) = group {
            group.enter(&mut command)?;
        }
        let mut child = command.spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
        let from = BufReader::new(from);
        Ok(Self { child, to, from })
    }

    /// What the calls took that `question` asks for, in seconds.
    pub(super) fn ask(&mut self, question: &str) -> io::Result<Vec<f64>> {
        writeln!(self.to, "{question}")?;
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        let nanos: Vec<u64> = serde_json::from_str(&line)?;
        Ok(nanos.into_iter().map(|nanos| nanos as f64 / 1e9).collect())
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
