//! Commands of a puppet.

use std::collections::VecDeque;
use std::io::{self, BufRead};
use std::net::{SocketAddr, TcpStream, UdpSocket};

use socket2::{Domain, Protocol, Socket, Type};

/// Runs the command of each input line. Sockets stay open until `drop`.
pub(crate) fn run() {
    println!("\n> ready");
    let mut held = VecDeque::new();
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        match obey(&mut held, &words) {
            Ok(answer) => println!("\n> {answer}"),
            Err(error) => println!("\n> error {} {error}", error.raw_os_error().unwrap_or(0)),
        }
    }
}

fn obey(held: &mut VecDeque<Socket>, words: &[&str]) -> io::Result<String> {
    match words {
        ["tcp", to] => connect(held, parse(to)?, Type::STREAM, None),
        ["udp", to] => connect(held, parse(to)?, Type::DGRAM, None),
        ["udp-from", from, to] => connect(held, parse(to)?, Type::DGRAM, Some(parse(from)?)),
        ["tcp-from", from, to] => connect(held, parse(to)?, Type::STREAM, Some(parse(from)?)),
        ["mapped", to] => mapped(held, parse(to)?),
        ["marked", dscp, to] => marked(held, dscp.parse().unwrap(), parse(to)?),
        ["send", count, to] => send(count.parse().unwrap(), parse(to)?),
        ["ask", to] => ask(Socket::new(domain(to)?, Type::DGRAM, None)?, parse(to)?),
        ["ask-mapped", to] => ask_mapped(parse(to)?),
        ["ask-from", from, to] => {
            let socket = Socket::new(domain(to)?, Type::DGRAM, None)?;
            socket.bind(&parse(from)?.into())?;
            ask(socket, parse(to)?)
        }
        ["ask-marked", to] => {
            let socket = Socket::new(domain(to)?, Type::DGRAM, None)?;
            socket.set_mark(1)?;
            ask(socket, parse(to)?)
        }
        ["ask-connected", to] => ask_connected(Type::DGRAM, parse(to)?, 0),
        ["ask-connected-marked", to] => ask_connected(Type::DGRAM, parse(to)?, 1),
        ["ask-tcp", to] => ask_connected(Type::STREAM, parse(to)?, 0),
        ["ask-in-turn", first, second] => ask_in_turn([parse(first)?, parse(second)?]),
        ["many", count, to] => many(count.parse().unwrap(), parse(to)?),
        ["again", to] => again(held, parse(to)?),
        ["write", text] => write(held, text),
        ["last-sends", to] => {
            held[held.len() - 1].send_to(b"question", &parse(to)?.into())?;
            Ok("sent".to_owned())
        }
        ["mark"] => Ok(held[held.len() - 1].mark()?.to_string()),
        ["peer"] => Ok(address(&held[held.len() - 1].peer_addr()?)),
        ["capture", group] => hold_capture(group),
        ["children", count, to] => children(count.parse().unwrap(), to),
        ["drop"] => {
            held.clear();
            Ok("dropped".to_owned())
        }
        ["join", group] => {
            std::fs::write(format!("{group}/cgroup.procs"), "0")?;
            Ok("joined".to_owned())
        }
        ["name", name] => {
            let name = std::ffi::CString::new(*name)?;
            // SAFETY: the name ends with a zero.
            unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
            Ok("named".to_owned())
        }
        ["user", user] => {
            // SAFETY: takes no memory. By the kernel's call only this thread changes.
            let code = unsafe { libc::syscall(libc::SYS_setuid, user.parse::<u32>().unwrap()) };
            match code {
                0 => Ok("changed".to_owned()),
                _ => Err(io::Error::last_os_error()),
            }
        }
        _ => Err(io::Error::other(format!("unknown: {words:?}"))),
    }
}

fn parse(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

fn connect(
    held: &mut VecDeque<Socket>,
    to: SocketAddr,
    kind: Type,
    from: Option<SocketAddr>,
) -> io::Result<String> {
    let socket = Socket::new(Domain::for_address(to), kind, None)?;
    if let Some(from) = from {
        socket.bind(&from.into())?;
    }
    held.push_back(socket);
    tell(&held[held.len() - 1], to)
}

fn tell(socket: &Socket, to: SocketAddr) -> io::Result<String> {
    socket.connect(&to.into())?;
    let device = socket.device()?.unwrap_or_default();
    let device = String::from_utf8_lossy(&device).into_owned();
    Ok(format!("{} {device}", address(&socket.local_addr()?)))
}

/// Connects the last socket again.
fn again(held: &mut VecDeque<Socket>, to: SocketAddr) -> io::Result<String> {
    tell(&held[held.len() - 1], to)
}

/// Connects to an IPv4 address over an IPv6 socket.
fn mapped(held: &mut VecDeque<Socket>, to: SocketAddr) -> io::Result<String> {
    let SocketAddr::V4(to) = to else {
        return Err(io::Error::other("not IPv4"));
    };
    let socket = Socket::new(Domain::IPV6, Type::STREAM, Some(Protocol::TCP))?;
    held.push_back(socket);
    let to = SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port());
    tell(&held[held.len() - 1], to)
}

/// Connects with this DSCP.
fn marked(held: &mut VecDeque<Socket>, dscp: u32, to: SocketAddr) -> io::Result<String> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.set_tos_v4(dscp << 2)?;
    held.push_back(socket);
    tell(&held[held.len() - 1], to)
}

fn address(address: &socket2::SockAddr) -> String {
    let address = address.as_socket().unwrap();
    SocketAddr::new(address.ip().to_canonical(), address.port()).to_string()
}

fn write(held: &mut VecDeque<Socket>, text: &str) -> io::Result<String> {
    held[held.len() - 1].send(text.as_bytes())?;
    Ok("written".to_owned())
}

/// Sends datagrams from an unconnected socket; waits for the answer to each.
fn send(count: u32, to: SocketAddr) -> io::Result<String> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.set_read_timeout(Some(crate::ground::PATIENCE))?;
    for _ in 0..count {
        socket.send_to(b"question", to)?;
        socket.recv_from(&mut [0; 64])?;
    }
    Ok("answered".to_owned())
}

fn domain(to: &str) -> io::Result<Domain> {
    parse(to).map(Domain::for_address)
}

/// Asks without a connection; returns the answer, and twice its apparent sender.
fn ask(socket: Socket, to: SocketAddr) -> io::Result<String> {
    socket.set_read_timeout(Some(crate::ground::PATIENCE))?;
    let socket = UdpSocket::from(socket);
    socket.send_to(b"question", to)?;
    let mut bytes = [0; 64];
    let (length, from) = socket.recv_from(&mut bytes)?;
    let from = SocketAddr::new(from.ip().to_canonical(), from.port());
    let answer = String::from_utf8_lossy(&bytes[..length]);
    Ok(format!("{answer} {from} {from}"))
}

/// Asks an IPv4 server over an IPv6 socket.
fn ask_mapped(to: SocketAddr) -> io::Result<String> {
    let SocketAddr::V4(to) = to else {
        return Err(io::Error::other("not IPv4"));
    };
    let to = SocketAddr::new(to.ip().to_ipv6_mapped().into(), to.port());
    ask(Socket::new(Domain::IPV6, Type::DGRAM, None)?, to)
}

/// Asks over a connection; returns the answer, its apparent sender, and the peer.
fn ask_connected(kind: Type, to: SocketAddr, mark: u32) -> io::Result<String> {
    let socket = Socket::new(Domain::for_address(to), kind, None)?;
    socket.set_mark(mark)?;
    socket.set_read_timeout(Some(crate::ground::PATIENCE))?;
    socket.connect(&to.into())?;
    socket.send(b"question")?;
    let mut bytes = [std::mem::MaybeUninit::uninit(); 64];
    let (length, from) = socket.recv_from(&mut bytes)?;
    // SAFETY: that many bytes were received.
    let answer = unsafe { &*(&raw const bytes[..length] as *const [u8]) };
    let answer = String::from_utf8_lossy(answer);
    let peer = address(&socket.peer_addr()?);
    // TCP does not report the sender of each piece.
    let from = from.as_socket().map_or(peer.clone(), |_| address(&from));
    Ok(format!("{answer} {from} {peer}"))
}

/// Connects one socket to two servers in turn; returns both answers.
fn ask_in_turn(servers: [SocketAddr; 2]) -> io::Result<String> {
    let socket = UdpSocket::bind(("0.0.0.0", 0))?;
    socket.set_read_timeout(Some(crate::ground::PATIENCE))?;
    let mut answers = Vec::new();
    for server in servers {
        socket.connect(server)?;
        socket.send(b"question")?;
        let mut bytes = [0; 64];
        let length = socket.recv(&mut bytes)?;
        answers.push(String::from_utf8_lossy(&bytes[..length]).into_owned());
    }
    Ok(answers.join(" "))
}

/// Connects and closes repeatedly; returns the rate per second.
fn many(count: u32, to: SocketAddr) -> io::Result<String> {
    let begin = std::time::Instant::now();
    for _ in 0..count {
        let stream = TcpStream::connect(to)?;
        // Avoids TIME-WAIT, which would exhaust the ports.
        socket2::SockRef::from(&stream).set_linger(Some(std::time::Duration::ZERO))?;
    }
    Ok(format!(
        "{:.0}",
        f64::from(count) / begin.elapsed().as_secs_f64()
    ))
}

thread_local! {
    /// The puppet's capture.
    static HELD: std::cell::RefCell<Option<hawser_capture::Capture>> =
        const { std::cell::RefCell::new(None) };
}

/// Captures a group over both links in turns, until the puppet ends.
fn hold_capture(group: &str) -> io::Result<String> {
    let settings = hawser_capture::Settings {
        policy: hawser_sched::connection::ConnectionPolicy::RoundRobin,
        ..hawser_capture::Settings::default()
    };
    let mut capture =
        hawser_capture::Capture::start(group.as_ref(), &settings).map_err(io::Error::other)?;
    capture
        .set_links(&crate::ground::entries())
        .map_err(io::Error::other)?;
    HELD.set(Some(capture));
    Ok("captured".to_owned())
}

/// Connects from new threads, whose sockets the process shares.
fn children(count: usize, to: &str) -> io::Result<String> {
    let to: SocketAddr = to.parse().map_err(io::Error::other)?;
    let connect = move || TcpStream::connect(to)?.local_addr();
    let threads: Vec<_> = (0..count).map(|_| std::thread::spawn(connect)).collect();
    let mut from = Vec::new();
    for thread in threads {
        from.push(thread.join().expect("it only connects")?.to_string());
    }
    Ok(from.join(" "))
}
