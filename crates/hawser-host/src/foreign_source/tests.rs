use std::process::Command;

use hawser_skip::namespace::{in_namespace, ip};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

/// Runs `body` on a machine with a link, whose default route leads nowhere.
fn on_a_link(body: impl AsyncFnOnce()) {
    for command in [
        "link set lo up",
        "link add link0 type veth peer name link1",
        "link set link0 up",
        "link set link1 up",
        "address add 198.51.100.1/24 dev link0",
        "address add 2001:db8:1::1/64 dev link0 nodad",
        "route add default via 198.51.100.2",
        "route add default via 2001:db8:1::2",
    ] {
        ip(command);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(body());
}

/// Returns the output of `ip` with these arguments.
fn told(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    String::from_utf8(output.unwrap().stdout).unwrap()
}

#[test]
fn a_service_sees_the_address_that_a_connection_bears_and_its_answers_come_back() {
    let test = "foreign_source::tests::\
                a_service_sees_the_address_that_a_connection_bears_and_its_answers_come_back";
    in_namespace(test, || {
        on_a_link(async || {
            let service = TcpListener::bind("[::]:0").await.unwrap();
            let port = service.local_addr().unwrap().port();
            let source = ForeignSource::begin([port].into()).await.unwrap();
            for client in ["203.0.113.7", "::ffff:203.0.113.8", "2001:db8:7::1"] {
                let client: IpAddr = client.parse().unwrap();
                let mut near = source.connect(client, port).await.unwrap();
                let (mut far, seen) = service.accept().await.unwrap();
                assert_eq!(seen.ip().to_canonical(), client.to_canonical());
                far.write_all(b"answer").await.unwrap();
                let mut answer = [0; 6];
                near.read_exact(&mut answer).await.unwrap();
                assert_eq!(&answer, b"answer");
            }
            let other = source
                .connect("203.0.113.7".parse().unwrap(), port ^ 1)
                .await;
            assert_eq!(other.unwrap_err().kind(), io::ErrorKind::Unsupported);
            let count = |family| told(family).matches("lookup 5213").count();
            assert_eq!(count("-4 rule"), 1, "{}", told("-4 rule"));
            assert_eq!(count("-6 rule"), 1, "{}", told("-6 rule"));
            // As after a crash: the next instance begins all the same, and leaves only the rules of
            // others.
            drop(source);
            let other = ForeignSource::begin([port ^ 1].into()).await.unwrap();
            let again = ForeignSource::begin([port].into()).await.unwrap();
            assert_eq!(count("-4 rule") + count("-6 rule"), 4);
            again.end().await;
            assert_eq!(count("-4 rule") + count("-6 rule"), 2);
            other.end().await;
            assert_eq!(count("-4 rule") + count("-6 rule"), 0);
        });
    });
}

#[test]
fn it_is_told_why_it_does_not_work() {
    let test = "foreign_source::tests::it_is_told_why_it_does_not_work";
    in_namespace(test, || {
        // No answer returns by a loopback device that is down.
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let begun = runtime.block_on(ForeignSource::begin([80].into()));
        let error = begun.unwrap_err().to_string();
        assert!(
            error.contains("trial") || error.contains("answers"),
            "{error}"
        );
        assert!(!told("rule").contains("lookup 5213"), "{}", told("rule"));
    });
}
