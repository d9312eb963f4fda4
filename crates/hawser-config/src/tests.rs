use std::time::Duration;

use hawser_sched::rules::{Allowance, AtLimit, Rule};
use hawser_types::{ByteCount, LinkUse, SignalStrength};
use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> Config {
    Config::parse("hawser.toml", text).unwrap()
}

fn error(text: &str) -> String {
    Config::parse("hawser.toml", text).unwrap_err().to_string()
}

#[test]
fn an_empty_file_means_the_defaults() {
    assert_eq!(parse(""), Config::default());
    assert_eq!(
        parse("[serve]\n[serve.limits]\n[up]\n[session]\n"),
        Config::default()
    );
    assert_eq!(Config::default().serve.listen.to_string(), "[::]:7443");
    assert_eq!(Config::default().up.listen.to_string(), "127.0.0.1:1080");
}

#[test]
fn every_key_reaches_its_place() {
    let config = parse(
        r#"
        [serve]
        listen = "0.0.0.0:9000"
        advertise = ["gw.example", "[2001:db8::1]:7443"]
        allow-destination = ["192.168.7.0/24", "fd00::/8"]
        limits = { sessions = 1, sessions-per-client = 2, streams-per-session = 3, memory = "16MiB", half-open-handshakes = 5, connects-per-second = 0x6, packet-flows-per-client = 7, packet-flows-per-second = 8 }
        udp = false
        client-schedulers = false
        web = "[::1]:7481"
        [up]
        listen = "[::1]:0"
        links = ["eth0", "wwan0"]
        gateway = "@/etc/hawser/invite"
        allow-lan = true
        kill-switch = true
        kill-switch-allow = ["192.168.7.0/24"]
        capture = ["system", "lan:eth1"]
        web = "127.0.0.1:7480"
        [session]
        scheduler = "least-rtt"
        packet-scheduler = "ikr"
        channels-per-link = 2
        chunk-size = "16KiB"
        encryption = "none"
        survive = "5min"
        receive-memory = "1GiB"
        recorder = "0B"
        congestion = "bbr"
        express = false
        transport = "auto"
        sctp-paths = "paper"
        [[link]]
        name = "wwan0"
        use = "backup"
        down = "prefer"
        weight = 7
        price = "2.5 EUR/GB"
        price-weight = 0.5
        allowance = "10GB"
        reset-day = 31
        at-limit = "backup"
        leave-below = "-85dBm"
        measure-signal = "5s"
        standby = true
        [[link]]
        name = "eth1"
        allowance = "5GB"
        [[link]]
        name = "eth0"
        "#,
    );
    assert_eq!(config.serve.listen.to_string(), "0.0.0.0:9000");
    let advertise: Vec<_> = config
        .serve
        .advertise
        .iter()
        .map(HostPort::to_string)
        .collect();
    assert_eq!(advertise, ["gw.example", "[2001:db8::1]:7443"]);
    assert_eq!(config.serve.allow_destination.len(), 2);
    let limits = ServeLimits {
        sessions: 1,
        sessions_per_client: 2,
        streams_per_session: 3,
        memory: ByteCount::from_mib(16),
        half_open_handshakes: 5,
        connects_per_second: 6,
        packet_flows_per_client: 7,
        packet_flows_per_second: 8,
    };
    assert_eq!(config.serve.limits, limits);
    assert!(!config.serve.udp && !config.serve.client_schedulers);
    assert_eq!(config.up.listen.to_string(), "[::1]:0");
    assert_eq!(config.up.links, ["eth0", "wwan0"]);
    let leave_below = config.links.iter().map(|link| link.leave_below);
    let expected = [SignalStrength::new(-85), None, None];
    assert_eq!(leave_below.collect::<Vec<_>>(), expected);
    let measure = config.links.iter().map(|link| link.measure_signal);
    let expected = [Some(Duration::from_secs(5)), None, None];
    assert_eq!(measure.collect::<Vec<_>>(), expected);
    let standby = config.links.iter().map(|link| link.standby);
    assert_eq!(standby.collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(
        config.up.gateway,
        Some(GatewaySource::File("/etc/hawser/invite".into()))
    );
    assert!(config.up.allow_lan && config.up.kill_switch);
    assert_eq!(config.up.kill_switch_allow[0].to_string(), "192.168.7.0/24");
    let capture = config.up.capture.iter().map(ToString::to_string);
    assert_eq!(capture.collect::<Vec<_>>(), ["system", "lan:eth1"]);
    let web = [config.up.web, config.serve.web].map(|web| web.unwrap().to_string());
    assert_eq!(web, ["127.0.0.1:7480", "[::1]:7481"]);
    let session = SessionConfig {
        scheduler: ChunkPolicy::LeastRtt,
        packet_scheduler: hawser_sched::packet::PacketPolicy::InOrder,
        channels_per_link: hawser_session::Spread::Fixed(2),
        chunk_size: ChunkSize::Fixed(ByteCount::from_kib(16)),
        encryption: Encryption::None,
        survive: Duration::from_secs(300),
        receive_memory: ByteCount::from_mib(1024),
        recorder: ByteCount::ZERO,
        congestion: Congestion::Named("bbr".to_owned()),
        express: false,
        transport: hawser_session::TransportChoice::Auto,
        sctp_paths: SctpPaths::Paper,
    };
    assert_eq!(config.session, session);
    assert_eq!(session.for_session(1).sctp_paths, SctpPaths::Paper);
    let rule = Rule {
        up: LinkUse::Backup,
        down: LinkUse::Prefer,
        weight: 7.0,
        price: 2.5,
        price_weight: 0.5,
        allowance: Some(Allowance {
            bytes: ByteCount::new(10_000_000_000),
            reset_day: 31,
            at_limit: AtLimit::Backup,
        }),
    };
    let wwan0 = config.link("wwan0").unwrap();
    assert_eq!((wwan0.rule, wwan0.currency.as_str()), (rule, "EUR"));
    let rule = Rule {
        allowance: Some(Allowance {
            bytes: ByteCount::new(5_000_000_000),
            reset_day: 1,
            at_limit: AtLimit::Stop,
        }),
        ..Rule::default()
    };
    assert_eq!(config.link("eth1").map(|link| link.rule), Some(rule));
    assert_eq!(config.link("lo"), None);
}

#[test]
fn an_unknown_key_is_named_with_those_allowed() {
    assert_eq!(
        error("[serve]\nlisten = \"[::]:1\"\n\n[serve.limits]\nsesions = 5\n"),
        "hawser.toml:5: unknown key `serve.limits.sesions`; allowed: sessions, \
         sessions-per-client, streams-per-session, memory, half-open-handshakes, \
         connects-per-second, packet-flows-per-client, packet-flows-per-second"
    );
    assert_eq!(
        error("\n[[link]]\nname = \"a\"\nprize = 3\n"),
        "hawser.toml:4: unknown key `link.prize`; allowed: name, use, up, down, weight, price, \
         price-weight, allowance, reset-day, at-limit, leave-below, measure-signal, standby"
    );
    assert_eq!(
        error("[[link]]\nname = \"a\"\nleave-below = \"85dBm\""),
        "hawser.toml:3: `link.leave-below` is \"85dBm\"; allowed: a signal strength from \"-160dBm\" \
         to \"0dBm\""
    );
    for wrong in ["0s", "61s", "1500ms", "-5s", "often"] {
        let told = error(&format!(
            "[[link]]\nname = \"a\"\nmeasure-signal = \"{wrong}\""
        ));
        let expected = "hawser.toml:3: `link.measure-signal` is \"WRONG\"; allowed: whole seconds \
                        from \"1s\" to \"60s\"";
        assert_eq!(told, expected.replace("WRONG", wrong));
    }
    assert_eq!(
        error("z = 1\na = 1"),
        "hawser.toml:1: unknown key `z`; allowed: serve, up, session, directory, link, connection, rule"
    );
}

#[test]
fn a_wrong_value_is_shown_with_what_is_allowed() {
    for (text, expected) in [
        (
            "[session]\nsurvive = \"40\"",
            "2: `session.survive` is \"40\"; allowed: a time from 1s to 7d, such as \"60s\"",
        ),
        (
            "[session]\nsurvive = 40",
            "2: `session.survive` is 40; allowed: a time from 1s to 7d, such as \"60s\"",
        ),
        (
            "session.scheduler = \"fastest\"",
            "1: `session.scheduler` is \"fastest\"; allowed: \"backlog\", \"round-robin\", \
             \"weighted-round-robin\", \"least-rtt\", \"load-index\", \"ecf\", \"blest\", \
             \"redundant\", \"auto\"",
        ),
        (
            "session.chunk-size = \"65KiB\"",
            "1: `session.chunk-size` is \"65KiB\"; allowed: \"auto\", \"mtu\", or a size from \
             256B to 64KiB",
        ),
        (
            "session.channels-per-link = 5",
            "1: `session.channels-per-link` is 5; allowed: \"auto\", or a whole number from 1 to 4",
        ),
        (
            "[session]\nexpress = \"yes\"",
            "2: `session.express` is \"yes\"; allowed: true, false",
        ),
        (
            "session.congestion = \"../bbr\"",
            "1: `session.congestion` is \"../bbr\"; allowed: \"auto\" or the name of a \
             congestion control such as \"bbr\"",
        ),
        (
            "up.accept-joins = 443",
            "1: `up.accept-joins` is 443; allowed: a whole number from 1024 to 65535",
        ),
        (
            "serve.limits.sessions = 0",
            "1: `serve.limits.sessions` is 0; allowed: a whole number from 1 to 1000000",
        ),
        (
            "serve.limits.sessions = -1",
            "1: `serve.limits.sessions` is -1; allowed: a whole number from 1 to 1000000",
        ),
        (
            "serve.allow-destination = [\n \"10.0.0.0/8\",\n \"10/8\",\n]",
            "3: `serve.allow-destination` is \"10/8\"; allowed: a list of networks such as \
             \"192.168.7.0/24\" or \"fd00::/8\"",
        ),
        (
            "up.kill-switch-allow = [\"home\"]",
            "1: `up.kill-switch-allow` is \"home\"; allowed: a list of networks such as \
             \"192.168.7.0/24\" or \"fd00::/8\"",
        ),
        (
            "up.listen = \"1080\"",
            "1: `up.listen` is \"1080\"; allowed: an address and a port such as \
             \"127.0.0.1:1080\" or \"[::]:7443\"",
        ),
        (
            "up.web = \"0.0.0.0:7480\"",
            "1: `up.web` is \"0.0.0.0:7480\"; allowed: a loopback address and a port such as \
             127.0.0.1:7480; from other machines it is reached by ssh -L 7480:127.0.0.1:7480 HOST",
        ),
        (
            "serve.web = 7480",
            "1: `serve.web` is 7480; allowed: a loopback address and a port such as \
             127.0.0.1:7480; from other machines it is reached by ssh -L 7480:127.0.0.1:7480 HOST",
        ),
        (
            "up.links = [\"a/b\"]",
            "1: `up.links` is \"a/b\"; allowed: the name of an interface such as \"wwan0\"",
        ),
        (
            "serve = 5",
            "1: `serve` is 5; allowed: a section with keys of its own",
        ),
        (
            "link = 5",
            "1: `link` is 5; allowed: sections that begin with [[link]]",
        ),
        (
            "[[link]]\nname = \"a\"\n[[link]]\nname = \"a\"",
            "4: `link.name` is \"a\"; allowed: one [[link]] for each interface",
        ),
        (
            "[[link]]\nname = \"a\"\nuse = \"always\"",
            "3: `link.use` is \"always\"; allowed: \"normal\", \"prefer\", \"backup\", \"never\"",
        ),
        (
            "[[link]]\nname = \"a\"\nprice = \"2 EUR\"",
            "3: `link.price` is \"2 EUR\"; \
             allowed: a price from 0 to 1000000 such as \"2.5EUR/GB\"",
        ),
        (
            "[[link]]\nname = \"a\"\nprice = \"-2EUR/GB\"",
            "3: `link.price` is \"-2EUR/GB\"; allowed: a price from 0 to 1000000 such as \
             \"2.5EUR/GB\"",
        ),
        (
            "[[link]]\nname = \"a\"\nprice = \"2EUR/GB\"\n[[link]]\nname = \"b\"\nprice = \"3USD/GB\"",
            "6: `link.price` is \"3USD/GB\"; allowed: a price in EUR, like the others",
        ),
        (
            "[[link]]\nname = \"a\"\nprice-weight = 1.5",
            "3: `link.price-weight` is 1.5; allowed: a number from 0 to 1 such as 0.5",
        ),
        (
            "[[link]]\nname = \"a\"\nprice-weight = nan",
            "3: `link.price-weight` is nan; allowed: a number from 0 to 1 such as 0.5",
        ),
        (
            "[[link]]\nname = \"a\"\nallowance = \"0GB\"",
            "3: `link.allowance` is \"0GB\"; allowed: a size such as \"10GB\"",
        ),
        (
            "[[link]]\nname = \"a\"\nreset-day = 5",
            "1: `link.allowance` is missing; allowed: a size such as \"10GB\"",
        ),
        (
            "[[link]]\nname = \"a\"\nallowance = \"1GB\"\nreset-day = 32",
            "4: `link.reset-day` is 32; allowed: a whole number from 1 to 31",
        ),
        (
            "\n[[link]]\nweight = 2",
            "2: `link.name` is missing; allowed: the name of an interface such as \"wwan0\"",
        ),
    ] {
        assert_eq!(error(text), format!("hawser.toml:{expected}"), "{text}");
    }
}

#[test]
fn an_error_never_repeats_the_secret_of_an_invite() {
    assert_eq!(
        error("up.gateway = \"hawser:/gw.example:7443/#c2VjcmV0\""),
        "hawser.toml:1: `up.gateway` is \"hawser:/gw.example:7443/; allowed: an invite \
         \"hawser://…\" or \"@FILE\""
    );
}

#[test]
fn long_and_strange_values_are_shortened() {
    let shown = error(&format!("up.listen = \"{}\\u0007\n\"", "é".repeat(200)));
    assert!(shown.len() < 300, "{shown}");
    let shown = error(&format!("up.listen = '''{}\n\n'''", "é".repeat(200)));
    assert!(
        shown.contains("é…;") && shown.lines().count() == 1,
        "{shown}"
    );
}

#[test]
fn text_that_is_not_toml_is_refused_with_its_line() {
    assert!(error("[serve]\nlisten = \n").starts_with("hawser.toml:2: not TOML: "));
    assert!(error("[serve]\n[serve]\n").starts_with("hawser.toml:2: not TOML: "));
    assert!(error("a = 1\na = 1\n").starts_with("hawser.toml:2: not TOML: "));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.toml");
    let shown = Config::load(&path).unwrap_err().to_string();
    assert!(
        shown.starts_with(&format!("cannot read {}: ", path.display())),
        "{shown}"
    );

    std::fs::write(&path, "#".repeat((1 << 20) + 1)).unwrap();
    let shown = Config::load(&path).unwrap_err().to_string();
    assert!(shown.ends_with("larger than 1 MiB"), "{shown}");

    std::fs::write(&path, [0xff]).unwrap();
    assert!(matches!(Config::load(&path), Err(ConfigError::Read { .. })));
}

#[test]
fn the_shipped_example_says_the_defaults() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/hawser.example.toml");
    assert_eq!(Config::load(&path).unwrap(), Config::default());

    // Every line that is commented out is a key that works.
    let text = std::fs::read_to_string(&path).unwrap();
    let whole: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .collect();
    let config = Config::parse("example", &whole.join("\n")).unwrap();
    assert_eq!(config.links.len(), 2);
    assert_eq!(config.rules.len(), 4);
    assert!(config.links[1].rule.allowance.is_some());
    assert!(config.up.web.is_some() && config.serve.web.is_some());
    assert!(config.up.gateway.is_some() && !config.serve.advertise.is_empty());
    assert_eq!(config.up.capture.len(), 2);
}

#[test]
fn the_defaults_are_those_of_a_session() {
    let config = Config::default();
    let session = config
        .session
        .for_session(config.serve.limits.streams_per_session);
    assert_eq!(session, hawser_session::SessionConfig::default());
}

#[test]
fn what_is_captured_is_one_scope_or_a_list() {
    let one = parse("up.capture = \"lan:eth1\"").up.capture;
    assert_eq!(one, [CaptureScope::Lan("eth1".to_owned())]);
    let wrong = error("up.capture = [\"system\", \"eth1\"]");
    assert!(wrong.contains("\"lan:INTERFACE\""), "{wrong}");
}

#[test]
fn a_port_open_to_others_needs_leave() {
    assert!(!Config::default().up.is_exposed());
    assert!(parse("up.listen = \"0.0.0.0:1080\"").up.is_exposed());
    assert!(
        parse("up.listen = \"[::ffff:10.0.0.1]:1080\"")
            .up
            .is_exposed()
    );
    assert!(
        !parse("up.listen = \"[::ffff:127.0.0.1]:1080\"")
            .up
            .is_exposed()
    );
    assert!(
        !parse("up = { listen = \"0.0.0.0:1080\", allow-lan = true }")
            .up
            .is_exposed()
    );
}

#[test]
fn a_port_open_to_others_needs_a_password_or_leave_to_have_none() {
    let lacks = |more: &str| {
        let text = format!("up = {{ listen = \"0.0.0.0:1080\", allow-lan = true{more} }}");
        parse(&text).up.lacks_password()
    };
    assert!(lacks(""));
    assert!(lacks(", no-password = false"));
    assert!(!lacks(", no-password = true"));
    assert!(!lacks(", password-file = \"/run/p\""));
    assert!(!parse("up.allow-lan = true").up.lacks_password());
    let both = "up = { password-file = \"p\", no-password = true }";
    let refused = Config::parse("f", both).unwrap_err().to_string();
    assert!(refused.contains("up.no-password"), "{refused}");
    assert!(refused.contains("no password-file beside it"), "{refused}");
}

#[test]
fn every_file_of_the_corpus_is_read_without_a_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/config");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(entry.unwrap().path()).unwrap();
        let _ = Config::parse("corpus", &String::from_utf8_lossy(&bytes));
        files += 1;
    }
    assert!(files > 0, "the corpus is gone");
}

/// Text that looks like a configuration, right and wrong.
fn document() -> impl Strategy<Value = String> {
    let key = prop_oneof![
        prop::sample::select(vec![
            "[serve]",
            "[serve.limits]",
            "[up]",
            "[session]",
            "[[link]]",
            "[link]",
            "listen",
            "links",
            "limits",
            "memory",
            "survive",
            "channels-per-link",
            "chunk-size",
            "name",
            "weight",
            "price",
            "price-weight",
            "allowance",
            "reset-day",
            "gateway",
            "up.links",
        ])
        .prop_map(str::to_owned),
        "[a-z.-]{1,8}",
    ];
    let value = prop_oneof![
        Just(String::new()),
        "[0-9]{1,25}",
        "\"[ -~]{0,12}\"",
        "\\[(\"[a-z0-9./:]{0,9}\",?){0,3}\\]",
        "\\{[a-z-]{1,9} = [0-9]{1,3}\\}",
    ];
    let line = (key, value).prop_map(|(key, value)| match value.as_str() {
        "" => key,
        _ => format!("{key} = {value}"),
    });
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}") {
        let _ = Config::parse("x", &text);
    }

    #[test]
    fn text_that_looks_like_a_configuration_never_panics(text in document()) {
        let _ = Config::parse("x", &text);
    }
}
