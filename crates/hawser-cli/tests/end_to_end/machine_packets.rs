//! Packets of a whole machine, over a gateway to a third network.

use std::io::Write as _;
use std::net::TcpListener;
use std::process::Command;

use hawser_skip::namespace::in_namespace_of_root;

use super::internet::{Internet, SERVER, STREAM, local_python, said};
use super::program::{Daemon, until};

/// Returns the routes of packets to the server, and the rules that select them.
fn ways() -> [String; 3] {
    let way = |arguments: &[&str]| said(Command::new("ip").args(arguments));
    let way_to = way(&["-4", "route", "get", SERVER]);
    [way_to, way(&["rule"]), way(&["-6", "rule"])]
}

impl Internet {
    /// Starts a client whose machine's packets are carried.
    pub(crate) fn up(&self, arguments: &[&str]) -> Daemon {
        let always = ["up", "--listen", "127.0.0.1:0", "--capture", "system"];
        let up = self
            .place
            .launch("client", &[&always[..], arguments].concat());
        let are_carried = || up.listen(&self.place).is_some() && ways()[0].contains("dev hawser0");
        until("packets are carried", are_carried, || up.log());
        up
    }

    /// Returns what the gateway's machine receives from a port of this machine, over one link.
    fn call(&self) -> String {
        let call = "exec 3<>/dev/tcp/10.2.0.2/8000 && cat <&3";
        said(
            self.gateway
                .command("timeout")
                .args(["20", "bash", "-c", call]),
        )
    }
}

/// Listens, and answers every client with a greeting.
fn listen() {
    let listener = TcpListener::bind("10.2.0.2:8000").unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.unwrap().write_all(b"here");
        }
    });
}

fn python(script: &str) -> String {
    said(&mut local_python(script))
}

#[test]
fn all_packets_of_a_machine_go_over_the_gateway_and_its_links_answer_by_themselves() {
    let test = "machine_packets::all_packets_of_a_machine_go_over_the_gateway_and_its_links_answer_by_\
                themselves";
    in_namespace_of_root(test, || {
        let Some(net) = Internet::captured(test) else {
            return;
        };
        let before = ways();
        let gateway = net.serve();
        let client = net.up(&["--gateway", &net.place.invite()]);
        let log = || format!("{}\n{}", client.log(), gateway.log());
        // Whatever does not go by the tunnel, the gateway's machine drops.
        assert_eq!(python(DATAGRAMS), "True True", "{}", log());
        let packets = net.counter("packets-packets-up");
        assert!(packets >= 2, "{}", log());
        // TCP goes as streams.
        assert_eq!(python(STREAM), "11.0.0.1 True", "{}", log());
        let after = net.counter("packets-packets-up");
        assert!(after < packets + 50, "{packets}, {after}: {}", log());
        // Who comes by a link is answered by it.
        listen();
        assert_eq!(net.call(), "here", "{}", log());
        let own = ways()[0].clone();
        client.kill();
        assert_eq!(ways()[0], before[0], "what is left leads nowhere else");
        let client = net.up(&[]);
        assert_eq!(ways()[0], own, "the address lasts");
        client.end();
        assert_eq!(ways(), before);
    });
}

const DATAGRAMS: &str = "
unconnected = echo(udp(), ('11.0.0.2', 7), b'unconnected')
s = udp()
s.connect(('11.0.0.2', 7))
print(unconnected, echo(s, ('11.0.0.2', 7), b'connected'))
";
