mod crash;
mod disk;
mod hostile;
mod input;
mod link;
mod resume;
mod transfer;
mod tree;

use std::fs;
use std::path::{Path, PathBuf};

use hawser_types::ByteCount;
use tempfile::TempDir;

use self::link::{Link, LinkOptions};
use super::{
    NoProgress, ReceiveError, ReceiveOptions, Received, Receiver, SendError, SendOptions, Sent,
    send_file,
};

/// A directory to send from and one to receive into.
struct Place {
    source: TempDir,
    target: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = || tempfile::tempdir().expect("the test can make a directory");
        Self {
            source: directory(),
            target: directory(),
        }
    }

    fn file(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.source.path().join(name);
        fs::write(&path, content).expect("the test can write its file");
        path
    }

    fn receiver(&self) -> Receiver {
        self.receiver_with(options())
    }

    fn receiver_with(&self, options: ReceiveOptions) -> Receiver {
        Receiver::new(self.target.path(), options).expect("the directory is there")
    }

    fn received(&self, name: &str) -> PathBuf {
        self.target.path().join(name)
    }

    fn names(&self) -> Vec<String> {
        names_in(self.target.path())
    }
}

fn names_in(directory: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(directory)
        .expect("the directory is readable")
        .map(|entry| {
            let entry = entry.expect("the directory is readable");
            entry.file_name().to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    names
}

fn options() -> ReceiveOptions {
    ReceiveOptions {
        keep_free: ByteCount::ZERO,
        ..ReceiveOptions::default()
    }
}

/// Returns content without any repetition, the same for the same length.
fn content(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

type Outcome = (Result<Sent, SendError>, Result<Received, ReceiveError>);

async fn transfer(path: &Path, receiver: &Receiver, link: LinkOptions) -> Outcome {
    let Link {
        sender,
        reader,
        writer,
    } = Link::new(link);
    let options = SendOptions::default();
    tokio::join!(
        send_file(sender, path, &options, &NoProgress),
        receiver.receive(reader, writer, &NoProgress),
    )
}

fn both(outcome: Outcome) -> (Sent, Received) {
    match outcome {
        (Ok(sent), Ok(received)) => {
            assert_eq!(sent.hash, received.hash);
            assert_eq!(sent.already_there, received.already_there);
            (sent, received)
        }
        other => panic!("the transfer failed: {other:?}"),
    }
}

const MIB: usize = 1 << 20;
