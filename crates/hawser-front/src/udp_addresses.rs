//! Encoding of the addresses of UDP sockets that hosts exchange.

use std::io;
use std::net::{IpAddr, SocketAddr};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// Appends an address: its kind (4 or 6), its octets and its port.
pub(crate) fn put(address: SocketAddr, out: &mut Vec<u8>) {
    match address.ip().to_canonical() {
        IpAddr::V4(four) => {
            out.push(4);
            out.extend(four.octets());
        }
        IpAddr::V6(six) => {
            out.push(6);
            out.extend(six.octets());
        }
    }
    out.extend(address.port().to_be_bytes());
}

/// Reads an address.
///
/// # Errors
/// Errors of the stream; `InvalidData` for an unknown kind.
pub(crate) async fn take(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<SocketAddr> {
    let ip: IpAddr = match stream.read_u8().await? {
        4 => {
            let mut octets = [0; 4];
            stream.read_exact(&mut octets).await?;
            octets.into()
        }
        6 => {
            let mut octets = [0; 16];
            stream.read_exact(&mut octets).await?;
            octets.into()
        }
        _ => return Err(io::ErrorKind::InvalidData.into()),
    };
    Ok(SocketAddr::new(ip, stream.read_u16().await?))
}

/// Encodes a list of addresses, which replaces the previous list: their number, and each of them.
pub(crate) fn list(addresses: &[SocketAddr]) -> Vec<u8> {
    let addresses = &addresses[..addresses.len().min(MAX_ADDRESSES)];
    let mut out = vec![addresses.len() as u8];
    addresses.iter().for_each(|address| put(*address, &mut out));
    out
}

/// Reads a list.
///
/// # Errors
/// Those of [`take`], and `InvalidData` for a list that is too long.
pub(crate) async fn take_list(
    stream: &mut (impl AsyncRead + Unpin),
) -> io::Result<Vec<SocketAddr>> {
    let count = usize::from(stream.read_u8().await?);
    if count > MAX_ADDRESSES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        addresses.push(take(stream).await?);
    }
    Ok(addresses)
}

/// Maximum number of addresses of an association.
pub(crate) const MAX_ADDRESSES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_list_comes_back_as_it_went_and_a_wrong_one_is_refused() {
        let addresses: Vec<SocketAddr> = ["192.0.2.1:7", "[2001:db8::1]:65535"]
            .map(|it| it.parse().unwrap())
            .into();
        let written = list(&addresses);
        assert_eq!(written.len(), 1 + 7 + 19);
        assert_eq!(take_list(&mut &written[..]).await.unwrap(), addresses);
        assert!(take_list(&mut &written[..26]).await.is_err());
        assert!(take_list(&mut &[1, 5, 0, 0][..]).await.is_err());
        assert!(
            take_list(&mut &[MAX_ADDRESSES as u8 + 1][..])
                .await
                .is_err()
        );
        let many = vec![addresses[0]; 99];
        let cut = take_list(&mut &list(&many)[..]).await.unwrap();
        assert_eq!(cut.len(), MAX_ADDRESSES);
    }
}
