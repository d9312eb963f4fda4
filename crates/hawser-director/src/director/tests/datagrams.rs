use hawser_policy::{Action, Avoid, Class, Protocol};

use super::*;

/// A flow of datagrams over link a.
fn datagrams(director: &Rig) -> RigFlow {
    let request = ConnectionRequest {
        protocol: Protocol::Udp,
        ..by("x")
    };
    let decision = director.decide(&request);
    director.open(&decision, index("a"))
}

/// Reads the interface counters of link a after half a second in which it sent and received `more`
/// bytes.
fn read_counters(director: &Rig, total: &mut [ByteCount; 2], more: [u64; 2]) {
    director.advance(Duration::from_millis(500));
    for (total, more) in total.iter_mut().zip(more) {
        *total += ByteCount::new(more);
    }
    director.handle_counters(&[(index("a"), *total)].into());
}

/// Returns the measured rates of link a, sent and received, in kbit/s.
fn seen(director: &Rig) -> [u64; 2] {
    let link = &director.report().links[0];
    [link.up, link.down].map(|rate| rate.bits_per_second() / 1000)
}

#[test]
fn datagrams_that_are_sent_are_no_rate_of_their_link_and_those_that_come_are() {
    let director = director(ConnectionPolicy::Auto, &["a"]);
    let flow = datagrams(&director);
    flow.connected(None);
    let mut total = [ByteCount::ZERO; 2];
    for _ in 0..10 {
        flow.moved(2_500_000, 250_000);
        read_counters(&director, &mut total, [2_500_000, 250_000]);
    }
    // It pauses, and ends.
    for _ in 0..10 {
        read_counters(&director, &mut total, [0, 0]);
    }
    drop(flow);
    let before = director.report().links[0].counts_for[0];
    assert_eq!(seen(&director), [0, 4_000]);
    assert_eq!(before, hawser_sched::connection::FALLBACK_RATE);
}

#[test]
fn what_an_interface_sends_beside_an_upload_is_no_rate_where_much_of_it_is_datagrams() {
    for (datagrams_sent, expected) in [(1_000_000, 4_000), (10_000, 4_160)] {
        let director = director(ConnectionPolicy::Auto, &["a"]);
        let (upload, flow) = (connect(&director, &by("x")), datagrams(&director));
        let mut total = [ByteCount::ZERO; 2];
        for turn in 0..20 {
            let sent = if turn < 10 { 0 } else { datagrams_sent };
            upload.moved(250_000, 0);
            // The kernel's program reports them half a second later.
            flow.moved(if turn == 10 { 0 } else { sent }, 0);
            read_counters(&director, &mut total, [250_000 + sent, 0]);
        }
        assert_eq!(seen(&director), [expected, 0]);
    }
}

/// Opens a call over link a, and returns the order of links for connections that must avoid calls.
fn call(director: &Rig, protocol: Protocol) -> (RigFlow, impl Fn() -> Vec<String>) {
    let set = |then| director.set_rule(rule(then));
    set(Action {
        class: Some(Class::RealTime),
        ..Action::default()
    });
    let request = ConnectionRequest {
        protocol,
        ..by("phone")
    };
    let decision = director.decide(&request);
    let call = director.open(&decision, index("a"));
    set(Action {
        avoid: Some(vec![Avoid::Calls]),
        ..Action::default()
    });
    let others = director.clone();
    (call, move || order(&others, &by("x")))
}

#[test]
fn a_call_over_datagrams_is_one_until_it_ends_answered_or_not_and_also_while_it_pauses() {
    for is_answered in [true, false] {
        let director = director(ConnectionPolicy::OnlyOne, &["a", "b"]);
        let (call, order) = call(&director, Protocol::Udp);
        if is_answered {
            call.connected(None);
            call.moved(1_000, 1_000);
        }
        for seconds in [1, 3, 60, 600] {
            director.advance(Duration::from_secs(seconds));
            assert_eq!(order(), ["b", "a"], "{is_answered} {seconds}");
        }
        assert_eq!(director.report().links[0].load, Load::default());
        drop(call);
        assert_eq!(order(), ["a", "b"]);
    }
}

#[test]
fn a_call_over_a_stream_is_one_again_as_soon_as_it_goes_on() {
    let director = director(ConnectionPolicy::OnlyOne, &["a", "b"]);
    let (call, order) = call(&director, Protocol::Tcp);
    assert_eq!(order(), ["b", "a"]);
    call.connected(None);
    director.advance(Duration::from_secs(3));
    assert_eq!(order(), ["a", "b"], "it may be left open for days");
    call.moved(1_000, 1_000);
    director.advance(Duration::from_millis(100));
    assert_eq!(order(), ["b", "a"]);
}
