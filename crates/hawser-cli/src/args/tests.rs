use std::path::Path;

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

mod documents;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("hawser").chain(line.split_whitespace()))
}

fn command(line: &str) -> Command {
    parse(line)
        .unwrap_or_else(|error| panic!("{line}: {error}"))
        .command
}

fn refusal(line: &str) -> String {
    let error = parse(line)
        .err()
        .unwrap_or_else(|| panic!("{line} was taken"));
    assert_eq!(error.exit_code(), 2, "{line}");
    error.to_string()
}

#[test]
fn the_grammar_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn every_form_that_scripts_use_is_taken() {
    for line in [
        "serve",
        "serve --listen 0.0.0.0:7443 --advertise gw.example --advertise [2001:db8::1]:9 \
         --invite-file /run/i --allow-destination 10.0.0.0/8 --allow-destination fd00::/8",
        "up",
        "up --gateway hawser://gw:7443/#abc --listen 127.0.0.1:1080 --link eth0 --link wwan0",
        "up --gateway @/run/i --allow-lan --password-file /run/p",
        "up --listen 0.0.0.0:1080 --allow-lan --no-password",
        "up --web 127.0.0.1:7480",
        "up --capture system --kill-switch --kill-switch-allow 10.0.0.0/8 \
         --kill-switch-allow fd00::/8",
        "kill-switch",
        "kill-switch off",
        "serve --web [::1]:0",
        "web",
        "web --renew",
        "send a b --to @/run/i",
        "send --to hawser://gw:7443/#abc a",
        "send - --name backups/today.sql --json --to @/run/i",
        "receive /srv",
        "receive /srv --replace",
        "receive /srv --listen [::]:7443 --advertise gw --invite-file /run/i",
        "invite",
        "invite --ttl 30min",
        "peers",
        "peers --json",
        "peers revoke AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "peers remove -AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "peers remove bob@example.org",
        "peers revoke -AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "peers revoke -hAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
        "status",
        "status --json",
        "links --json",
        "streams",
        "events -f",
        "events --follow --json",
        "link eth0",
        "link eth0 --json",
        "link eth0 --use never",
        "link eth0 --up backup --down prefer --weight 5 --price 2EUR/GB --allowance 10GB --save",
        "policy",
        "policy --json",
        "policy set --scheduler ecf",
        "policy set --connection-scheduler only-one --via-gateway auto --profile calls --save",
        "rule add --now --program firefox --only wlan0",
        "top",
        "top --ascii --no-color",
        "bench",
        "bench --json --size 20MB",
        "bench --size 1000000",
        "doctor",
        "doctor --json",
        "completions bash",
        "man",
        "man --out /tmp/man",
        "up --log-format json",
    ] {
        command(line);
    }
}

#[test]
fn global_flags_stand_on_either_side_of_the_command() {
    for line in [
        "--state /s --config /c --log debug status",
        "status --state /s --config /c --log debug",
        "--state /s status --log debug --config /c",
    ] {
        let global = parse(line).unwrap().global;
        assert_eq!(global.state, Some("/s".into()), "{line}");
        assert_eq!(global.config, Some("/c".into()), "{line}");
        assert_eq!(global.log.map(LogLevel::as_str), Some("debug"), "{line}");
    }
    let global = parse("peers revoke AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA --state /s")
        .unwrap()
        .global;
    assert_eq!(global.state, Some("/s".into()));
}

#[test]
fn flags_go_over_the_file() {
    let mut config = UpConfig {
        links: vec!["lan0".to_owned()],
        ..UpConfig::default()
    };
    let line = "up --listen [::1]:9 --gateway @i --allow-lan --web 127.0.0.1:1";
    let Command::Up(up) = command(line) else {
        panic!("another command");
    };
    up.apply_to(&mut config, &mut ConnectionConfig::default());
    assert_eq!(config.listen.to_string(), "[::1]:9");
    assert_eq!(config.gateway, Some(GatewaySource::File("i".into())));
    assert_eq!(config.links, ["lan0"]);
    assert!(config.allow_lan);
    assert_eq!(config.web.map(|web| web.port()), Some(1));
    for (line, file, none) in [
        ("up --password-file p", Some("p"), false),
        ("up --no-password", None, true),
        ("up --password-file q", Some("q"), false),
    ] {
        let Command::Up(up) = command(line) else {
            panic!("another command");
        };
        up.apply_to(&mut config, &mut ConnectionConfig::default());
        let told = config.password_file.as_deref().and_then(Path::to_str);
        assert_eq!((told, config.no_password), (file, none), "{line}");
    }

    let mut config = ServeConfig::default();
    let line = "serve --listen 1.2.3.4:5 --advertise a:1 --allow-destination 127.0.0.1";
    let Command::Serve(serve) = command(line) else {
        panic!("another command");
    };
    serve.apply_to(&mut config);
    assert_eq!(config.listen.to_string(), "1.2.3.4:5");
    assert_eq!(config.advertise, ["a:1".parse().unwrap()]);
    assert_eq!(config.allow_destination, ["127.0.0.1/32".parse().unwrap()]);
}

#[test]
fn no_flags_leave_the_file_alone() {
    let mut config = ServeConfig::default();
    let (Command::Serve(serve), Command::Up(up)) = (command("serve"), command("up")) else {
        panic!("another command");
    };
    serve.apply_to(&mut config);
    assert_eq!(config, ServeConfig::default());
    let mut config = UpConfig::default();
    up.apply_to(&mut config, &mut ConnectionConfig::default());
    assert_eq!(config, UpConfig::default());
}

#[test]
fn a_wrong_value_is_refused_with_what_is_expected() {
    for (line, expected) in [
        (
            "up --listen 1080",
            "expected an address and a port such as 127.0.0.1:1080",
        ),
        (
            "serve --listen localhost:1",
            "expected an address and a port",
        ),
        (
            "serve --allow-destination 10/8",
            "expected a network such as 192.168.7.0/24",
        ),
        ("serve --allow-destination 10.1.1.1/8", "expected a network"),
        ("up --web 0.0.0.0:7480", "ssh -L 7480:127.0.0.1:7480 HOST"),
        ("serve --web 7480", "expected a loopback address and a port"),
        ("serve --advertise a:b:c", "is no HOST[:PORT]"),
        ("up --link a/b", "expected the name of an interface"),
        (
            "up --gateway gw:7443",
            "expected `@FILE` with an invite in the file",
        ),
        (
            "invite --ttl 40",
            "has no known unit: allowed are us, ms, s, min, h or d",
        ),
        ("invite --ttl 0s", "expected a time from 1s to 365d"),
        ("bench --size 5furlongs", "has no known unit"),
        ("bench --size 0", "expected a size greater than 0"),
        ("peers revoke \u{7f}", "expected a key"),
        ("peers remove bob", "expected a key"),
        (
            "--log loud status",
            "possible values: off, error, warn, info, debug, trace",
        ),
        ("--log-format xml status", "possible values: text, json"),
        (
            "completions csh",
            "possible values: bash, elvish, fish, powershell, zsh",
        ),
        ("send a", "--to <@FILE|-|URL>"),
        ("send --to @i", "<FILE|DIR|->..."),
        (
            "send - --to @i --name ../up",
            "the file name means a directory",
        ),
        ("send - --to @i --name /up", "the path begins with /"),
        ("receive", "<DIR>"),
        ("fly", "unrecognized subcommand 'fly'"),
        ("up --warp", "unexpected argument '--warp'"),
        ("up extra", "unexpected argument 'extra'"),
    ] {
        let shown = refusal(line);
        assert!(shown.contains(expected), "{line}: {shown}");
    }
}

#[test]
fn nothing_to_do_is_a_usage_error_and_shows_the_commands() {
    let shown = refusal("");
    assert!(
        shown.contains("serve") && shown.contains("doctor"),
        "{shown}"
    );
}

#[test]
fn version_is_told() {
    let error = parse("--version").unwrap_err();
    assert_eq!(
        (error.kind(), error.exit_code()),
        (ErrorKind::DisplayVersion, 0)
    );
    let expected = format!("hawser {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(error.to_string(), expected);
}

#[test]
fn help_fits_seventy_nine_columns() {
    let commands = [
        "",
        "serve",
        "up",
        "send",
        "receive",
        "invite",
        "peers",
        "peers revoke",
        "status",
        "links",
        "streams",
        "events",
        "web",
        "bench",
        "doctor",
        "completions",
        "man",
    ];
    for name in commands {
        for flag in ["-h", "--help"] {
            let error = parse(&format!("{name} {flag}")).unwrap_err();
            assert_eq!(error.exit_code(), 0);
            for line in error.to_string().lines() {
                assert!(line.chars().count() <= 79, "{name}: {line}");
            }
        }
    }
}
