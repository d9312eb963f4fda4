//! The pair of sockets between a process and its successor.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::message::{MAX_SIZE, Message};
use hawser_link::sys::watch_both;

/// One end of the pair.
#[derive(Debug)]
pub struct Pipe(AsyncFd<OwnedFd>);

/// Makes a pair: one end for this process, and one for a child. Must be called within a tokio
/// runtime.
///
/// # Errors
/// The system refuses.
pub fn pair() -> io::Result<(Pipe, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((Pipe::new(own)?, other))
}

impl Pipe {
    /// Uses an end that was handed to this process. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// The socket is not an end of a pair, or the system refuses.
    pub fn new(end: OwnedFd) -> io::Result<Self> {
        if rustix::net::sockopt::socket_type(&end)? != SocketType::SEQPACKET {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        rustix::io::ioctl_fionbio(&end, true)?;
        Ok(Self(watch_both(end)?))
    }

    /// Sends a message, with a descriptor if the message carries one; waits until there is room.
    ///
    /// # Errors
    /// The other process is gone.
    pub async fn send(&self, message: &Message, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let bytes = message.encode();
        let write = |end: &OwnedFd| send(end, &bytes, with);
        self.0.async_io(Interest::WRITABLE, write).await
    }

    /// As [`Self::send`], without waiting.
    ///
    /// # Errors
    /// The other process is gone, or there is no room now.
    pub fn try_send(&self, message: &Message, with: Option<BorrowedFd<'_>>) -> io::Result<()> {
        send(self.0.get_ref(), &message.encode(), with)
    }

    /// Waits for the next message and its descriptor; `None` once the other process is gone.
    ///
    /// # Errors
    /// The message cannot be read.
    pub async fn receive(&self) -> io::Result<Option<(Message, Option<OwnedFd>)>> {
        let mut buffer = vec![0; MAX_SIZE];
        let (length, with) = self
            .0
            .async_io(Interest::READABLE, |end| receive(end, &mut buffer))
            .await?;
        if length == 0 {
            return Ok(None);
        }
        let message = buffer.get(..length).and_then(Message::decode);
        let message = message.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((message, with)))
    }
}

fn send(end: &OwnedFd, bytes: &[u8], with: Option<BorrowedFd<'_>>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let with: Vec<BorrowedFd<'_>> = with.into_iter().collect();
    if !with.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(&with));
    }
    let bytes = [IoSlice::new(bytes)];
    sendmsg(end, &bytes, &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn receive(end: &OwnedFd, buffer: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut buffers = [IoSliceMut::new(buffer)];
    let came = recvmsg(end, &mut buffers, &mut ancillary, RecvFlags::CMSG_CLOEXEC);
    let came = match came {
        // The other process ended with messages unread.
        Err(rustix::io::Errno::CONNRESET) => return Ok((0, None)),
        came => came?,
    };
    let descriptors = ancillary.drain().filter_map(|it| match it {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((came.bytes, descriptors.flatten().next()))
}
