use std::sync::Arc;

use hawser_config::Config;
use hawser_control::{ErrorReason, Response, RuleStatus, encode};
use hawser_front::connection::SharedDirector;
use hawser_front::name_stub::KnownNames;
use hawser_keys::store::StateDir;
use hawser_link::links::Link;
use hawser_types::{LinkIndex, LinkUse};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::sync::watch;

use super::*;
use crate::config_file::ConfigFile;
use crate::gateway::views::congestion_name;
use crate::proxy::agent::ShownStandby;
use crate::proxy::links::Links;
use crate::proxy::live_rules::LiveRules;
use crate::proxy::rules::LinkRuleStore;
use crate::proxy::session::SessionChoice;
use crate::rule_files::RuleFiles;
use crate::setup::Setup;
use crate::subject::Subject as _;

/// A daemon with links dsl and lte, which are not there.
struct Stage {
    folder: TempDir,
    subject: ClientSubject,
    director: SharedDirector,
}

impl Stage {
    /// Creates a stage with this configuration, or without one.
    fn new(config: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hawser.toml");
        if let Some(text) = config {
            std::fs::write(&path, text).unwrap();
        }
        let state = StateDir::resolve(Some(folder.path().join("state"))).unwrap();
        state.prepare().unwrap();
        let setup = Setup {
            config: Config::parse("test", config.unwrap_or_default()).unwrap(),
            config_file: ConfigFile::resolve(config.map(|_| path), &state, true),
            state,
            is_at_terminal: false,
            is_taking_over: false,
        };
        let links = [link(2, "dsl"), link(3, "lte")];
        let (_, links) = watch::channel(Arc::new(links.to_vec()));
        let rules = LinkRuleStore::open(&setup.config, &setup.state);
        let live = LiveRules::follow(RuleFiles::of(&setup)).unwrap();
        let director = SharedDirector::new(ConnectionPolicy::Auto, Vec::new());
        director.set_gateway(GatewayUse::Always);
        let subject = subject(&setup, &director, (links, rules), live);
        Self {
            folder,
            subject,
            director,
        }
    }

    fn ask(&self, asked: &Request) -> Changed {
        self.subject.change(asked).unwrap()
    }

    fn policy(&self) -> PolicyStatus {
        self.subject.policy().unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }
}

/// What a daemon shows that has no session.
fn subject(
    setup: &Setup,
    director: &SharedDirector,
    (links, rules): (Links, Arc<LinkRuleStore>),
    connection_rules: LiveRules,
) -> ClientSubject {
    ClientSubject {
        client: None,
        director: director.clone(),
        peers: None,
        held: None,
        discovered: None,
        vouched: None,
        announcing: None,
        named: None,
        proxy: Arc::default(),
        kill_switch: None,
        registration: None,
        lan: None,
        who: None,
        names: KnownNames::default(),
        links,
        wanted: Vec::new(),
        rules,
        connection_rules,
        choice: SessionChoice::of(&setup.config.session),
        congestion: congestion_name(&setup.config.session),
        standby: ShownStandby::default(),
        changing: Mutex::default(),
        peer: String::new(),
    }
}

fn link(index: u32, name: &str) -> Link {
    Link {
        has_default_route_v4: true,
        ..Link::new(LinkIndex::new(index), name)
    }
}

fn scheduler(of: Scheduled, name: &str, save: bool) -> Request {
    let scheduler = name.to_owned();
    Request::SetScheduler {
        of,
        scheduler,
        save,
    }
}

fn transport(name: &str, save: bool) -> Request {
    let transport = name.to_owned();
    Request::SetTransport { transport, save }
}

fn gateway(usage: &str, save: bool) -> Request {
    let usage = usage.to_owned();
    Request::SetGateway { usage, save }
}

fn profile(name: &str, save: bool) -> Request {
    let profile = name.to_owned();
    Request::SetProfile { profile, save }
}

fn rule(text: &str, save: bool) -> Request {
    let rule = text.to_owned();
    Request::AddRule { rule, save }
}

fn forget(number: u64, meant: &str, save: bool) -> Request {
    let rule = meant.to_owned();
    Request::RemoveRule { number, rule, save }
}

fn lte(change: LinkChange) -> Request {
    let name = "lte".to_owned();
    Request::SetLink(LinkChange { name, ..change })
}

fn priced(price: &str) -> LinkChange {
    LinkChange {
        price: Some(price.to_owned()),
        ..LinkChange::default()
    }
}

#[tokio::test]
async fn what_is_said_holds_at_once_and_is_shown() {
    let stage = Stage::new(None);
    for asked in [
        scheduler(Scheduled::Sessions, "ecf", false),
        scheduler(Scheduled::Connections, "round-robin", false),
        scheduler(Scheduled::Packets, "ikr", false),
        transport("auto", false),
        gateway("never", false),
        profile("calls", false),
        rule("program = \"curl\"\nonly = \"lte\"", false),
    ] {
        assert_eq!(stage.ask(&asked).unwrap(), None);
    }
    let policy = stage.policy();
    assert_eq!(policy.sessions, "ecf");
    assert_eq!(policy.sessions_known.len(), ChunkPolicy::ALL.len());
    assert_eq!(policy.connections.as_deref(), Some("round-robin"));
    assert_eq!(policy.packets.as_deref(), Some("ikr"));
    assert_eq!(policy.packets_known.len(), PacketPolicy::ALL.len());
    assert_eq!(policy.transport.as_deref(), Some("auto"));
    assert_eq!(policy.transports_known, ["tcp", "sctp", "auto"]);
    assert_eq!(policy.gateway.as_deref(), Some("never"));
    assert_eq!(policy.profile.as_deref(), Some("calls"));
    assert_eq!(policy.file, None);
    let first = &policy.rules[0];
    assert_eq!((first.number, first.source.as_str()), (1, "session"));
    assert_eq!(first.then, "only lte");
    assert_eq!(policy.rules[1].source, "profile");
    assert_eq!(stage.director.policy(), ConnectionPolicy::RoundRobin);
    assert_eq!(stage.director.gateway_use(), Some(GatewayUse::Never));

    assert_eq!(stage.ask(&forget(1, &first.rule, false)).unwrap(), None);
    assert_eq!(stage.policy().rules[0].source, "profile");
}

#[tokio::test]
async fn what_is_said_of_a_link_leaves_the_rest_of_it_alone() {
    let config = "[[link]]\nname = \"lte\"\nup = \"backup\"\nallowance = \"1GB\"\nreset-day = 9\n";
    let stage = Stage::new(Some(config));
    let change = LinkChange {
        down: Some(LinkUse::Never),
        weight: Some(5),
        allowance: Some("2GB".to_owned()),
        ..priced("3EUR/GB")
    };
    stage.ask(&lte(change)).unwrap();
    let rules = stage.subject.rules.in_force()["lte"];
    assert_eq!((rules.weight, rules.price), (5.0, 3.0));
    assert!(rules.down.is_forbidden() && !rules.up.is_forbidden());
    let allowed = stage.subject.rules.allowed("lte").unwrap();
    assert_eq!(
        (allowed.up, allowed.down),
        (LinkUse::Backup, LinkUse::Never)
    );
    assert_eq!(allowed.allowance_bytes.unwrap().as_u64(), 2_000_000_000);
    assert!(allowed.since.ends_with("-09"), "{}", allowed.since);
    assert_eq!(allowed.cost.as_deref(), Some("0.00 EUR"));
    assert_eq!(allowed.price.as_deref(), Some("3EUR/GB"));
    assert_eq!(allowed.weight, Some(5));
    let none = LinkChange {
        allowance: Some("none".to_owned()),
        ..priced("0")
    };
    stage.ask(&lte(none)).unwrap();
    let allowed = stage.subject.rules.allowed("lte").unwrap();
    assert_eq!((allowed.allowance_bytes, allowed.cost), (None, None));
    assert_eq!(stage.read("hawser.toml"), config);
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_in_a_line_that_says_what_is_allowed() {
    use ErrorReason::{Invalid, NotFound};
    let stage = Stage::new(Some("[[link]]\nname = \"dsl\"\nprice = \"1EUR/GB\"\n"));
    let before = stage.policy();
    let nolink = Request::SetLink(LinkChange {
        name: "nolink0".to_owned(),
        weight: Some(1),
        ..LinkChange::default()
    });
    let weight = LinkChange {
        weight: Some(0),
        ..LinkChange::default()
    };
    let allowance = LinkChange {
        allowance: Some("much".to_owned()),
        ..LinkChange::default()
    };
    let remove = |number| forget(number, "only = \"lte\"", false);
    let cases = [
        (
            scheduler(Scheduled::Sessions, "fast", false),
            Invalid,
            "unknown scheduler `fast`: allowed are backlog",
        ),
        (
            scheduler(Scheduled::Connections, "ecf", true),
            Invalid,
            "unknown scheduler for connections `ecf`: allowed are only-one",
        ),
        (
            gateway("often", false),
            Invalid,
            "`often`: allowed are always auto never",
        ),
        (
            profile("home", true),
            Invalid,
            "unknown profile `home`: allowed are speed calls saver",
        ),
        (
            nolink,
            NotFound,
            "no link is called nolink0; there are dsl, lte",
        ),
        (
            lte(LinkChange::default()),
            Invalid,
            "contains nothing to change",
        ),
        (
            lte(weight),
            Invalid,
            "`weight` is 0; allowed: a whole number from 1 to 1000",
        ),
        (
            lte(priced("cheap")),
            Invalid,
            "`price` is \"cheap\"; allowed: a price from 0 to 1000000 such as \"2.5EUR/GB\", or 0",
        ),
        (
            lte(priced("2USD/GB")),
            Invalid,
            "`price` is 2USD/GB; allowed: a price in EUR, like the others",
        ),
        (
            lte(allowance),
            Invalid,
            "`allowance` is \"much\"; allowed: a size such as \"10GB\", or none",
        ),
        (
            rule("only = 5", false),
            Invalid,
            "the rule:2: `rule.only` is 5",
        ),
        (
            rule("program = \"x\"", true),
            Invalid,
            "a rule says at least one of",
        ),
        (
            rule("only = \"a\"\n[[rule]]\nonly = \"b\"", false),
            Invalid,
            "one rule is expected, not 2",
        ),
        (
            rule("only = \"a\"\n[up]", false),
            Invalid,
            "unknown key `up`",
        ),
        (
            remove(0),
            NotFound,
            "there is no rule 0 that ends with the daemon; there are 0",
        ),
        (
            remove(1),
            NotFound,
            "there is no rule 1 that ends with the daemon; there are 0",
        ),
    ];
    for (asked, reason, message) in cases {
        let refused = stage.ask(&asked).unwrap_err();
        let said = refused.to_string();
        assert!(said.contains(message) && !said.contains('\n'), "{said}");
        assert_eq!(refused.reason(), reason, "{said}");
    }
    assert_eq!(stage.policy(), before);
    assert!(!stage.read("hawser.toml").contains("lte"));
}

#[tokio::test]
async fn what_is_saved_is_written_among_remarks_and_holds() {
    let config = "\
# Mine.
[session] # chunks
scheduler = \"auto\" # for now

# Connections.
[connection]
# All of them, by whom.
scheduler = \"auto\" # well
gateway = \"always\" # it is near
profile = \"speed\" # till I call
# The end of it.

# The stick.
[[link]]
name = \"lte\" # of the van
weight = 1 # as it is

# Backups.
[[rule]]
program = \"restic\" # at night
class = \"bulk\"
# The end.
";
    let stage = Stage::new(Some(config));
    // A saved profile replaces the one that was set before.
    stage.ask(&profile("saver", false)).unwrap();
    let weight = LinkChange {
        weight: Some(9),
        save: true,
        ..LinkChange::default()
    };
    for asked in [
        scheduler(Scheduled::Sessions, "blest", true),
        scheduler(Scheduled::Connections, "max-throughput", true),
        gateway("auto", true),
        profile("calls", true),
        lte(weight),
    ] {
        let saved = stage.ask(&asked).unwrap().unwrap();
        assert_eq!(saved, stage.folder.path().join("hawser.toml"));
    }
    let expected = config
        .replace("\"auto\" # for now", "\"blest\" # for now")
        .replace("\"auto\" # well", "\"max-throughput\" # well")
        .replace("\"always\"", "\"auto\"")
        .replace("\"speed\"", "\"calls\"")
        .replace("weight = 1 ", "weight = 9 ");
    assert_eq!(stage.read("hawser.toml"), expected);
    stage
        .ask(&rule("program = \"curl\"\nonly = \"lte\"", true))
        .unwrap();
    let written = stage.read("hawser.toml");
    let added = "[[rule]]\nprogram = \"curl\"\nonly = \"lte\"\n";
    assert!(written.contains(added), "{written}");
    for line in expected.lines() {
        assert!(written.contains(line), "{line} is gone:\n{written}");
    }
    let policy = stage.policy();
    assert_eq!(policy.sessions, "blest");
    assert_eq!(policy.connections.as_deref(), Some("max-throughput"));
    assert_eq!(policy.gateway.as_deref(), Some("auto"));
    assert_eq!(policy.profile.as_deref(), Some("calls"));
    let user: Vec<_> = policy
        .rules
        .iter()
        .filter(|it| it.source == "user")
        .collect();
    assert_eq!(
        (user[0].then.as_str(), user[1].then.as_str()),
        ("only lte", "class bulk")
    );
    assert!(
        policy
            .file
            .is_some_and(|file| file.ends_with("/hawser.toml"))
    );

    stage.ask(&forget(1, &user[0].rule, true)).unwrap();
    assert_eq!(stage.read("hawser.toml"), expected);
    let first = &stage.policy().rules[0];
    assert_eq!((first.number, first.then.as_str()), (1, "class bulk"));
}

#[tokio::test]
async fn the_usual_configuration_is_begun_by_what_is_saved_first() {
    let stage = Stage::new(None);
    assert_eq!(stage.policy().file, None);
    let begun = stage.ask(&profile("calls", true)).unwrap().unwrap();
    assert_eq!(begun, stage.folder.path().join("state/hawser.toml"));
    stage.ask(&gateway("never", true)).unwrap();
    let expected = "[connection]\nprofile = \"calls\"\ngateway = \"never\"\n";
    assert_eq!(stage.read("state/hawser.toml"), expected);
    let policy = stage.policy();
    assert_eq!(policy.file.as_deref(), begun.to_str());
    assert_eq!(policy.profile.as_deref(), Some("calls"));
    // Rules go into the configuration, too, since it exists.
    let saved = stage.ask(&rule("only = \"lte\"", true)).unwrap().unwrap();
    assert_eq!(saved, begun);
    assert_eq!(stage.policy().rules[0].source, "user");
}

#[tokio::test]
async fn where_it_cannot_be_begun_nothing_changes() {
    let stage = Stage::new(None);
    let before = stage.policy();
    // Not even root can make a file there.
    let place = stage.folder.path().join("state/hawser.toml");
    std::os::unix::fs::symlink(stage.folder.path().join("nowhere/else"), &place).unwrap();
    let save = LinkChange {
        weight: Some(2),
        save: true,
        ..LinkChange::default()
    };
    for asked in [scheduler(Scheduled::Sessions, "ecf", true), lte(save)] {
        let refused = stage.ask(&asked).unwrap_err().to_string();
        assert!(
            refused.starts_with("the change can't be saved: cannot "),
            "{refused}"
        );
    }
    assert_eq!(stage.policy(), before);
    assert_eq!(stage.subject.rules.allowed("lte"), None);
}

#[tokio::test]
async fn without_a_configuration_rules_are_saved_in_the_state_directory() {
    let stage = Stage::new(None);
    let saved = stage.ask(&rule("only = \"lte\"", true)).unwrap().unwrap();
    assert_eq!(saved, stage.folder.path().join("state/rules.toml"));
    assert!(
        stage
            .read("state/rules.toml")
            .ends_with("[[rule]]\nonly = \"lte\"\n")
    );
    assert_eq!(stage.policy().rules[0].source, "user");
    // Numbers are those of the list, which includes unsaved rules.
    stage.ask(&rule("only = \"dsl\"", false)).unwrap();
    let remove = |number| forget(number, "only = \"lte\"", true);
    let said = stage.ask(&remove(1)).unwrap_err();
    assert_eq!(said.reason(), ErrorReason::Invalid);
    stage.ask(&remove(2)).unwrap();
    let rules = stage.policy().rules;
    assert_eq!((rules.len(), rules[0].source.as_str()), (1, "session"));
}

#[tokio::test]
async fn a_rule_that_has_another_number_by_now_is_not_mistaken_for_its_neighbour() {
    let stage = Stage::new(Some(""));
    for save in [true, false] {
        for link in ["c", "b", "a"] {
            stage
                .ask(&rule(&format!("only = \"{link}\""), save))
                .unwrap();
        }
        let seen = stage.policy().rules;
        let [first, second] = [&seen[0], &seen[1]];
        let said = |it: &RuleStatus| forget(it.number, &it.rule, save);
        stage.ask(&said(first)).unwrap();
        let before = stage.policy();
        let refused = stage.ask(&said(second)).unwrap_err();
        assert_eq!(refused.reason(), ErrorReason::NotFound);
        assert!(refused.to_string().contains("have changed"), "{refused}");
        assert_eq!(stage.policy(), before);
        stage.ask(&forget(1, &second.rule, save)).unwrap();
        assert_eq!(stage.policy().rules[0].then, "only c");
        stage.ask(&forget(1, &seen[2].rule, save)).unwrap();
    }
}

#[tokio::test]
async fn a_change_that_can_not_be_saved_is_not_done() {
    let stage = Stage::new(Some("[connection]\nprofile = \"speed\"\n"));
    std::fs::write(stage.folder.path().join("hawser.toml"), "[connection\n").unwrap();
    let refused = stage.ask(&profile("calls", true)).unwrap_err();
    assert!(
        refused.to_string().contains("hawser.toml:1: not TOML"),
        "{refused}"
    );
    assert_eq!(stage.policy().profile.as_deref(), Some("speed"));
    std::fs::remove_file(stage.folder.path().join("hawser.toml")).unwrap();
    let refused = stage
        .ask(&scheduler(Scheduled::Sessions, "ecf", true))
        .unwrap_err();
    assert_eq!(refused.reason(), ErrorReason::Failed);
    assert_eq!(stage.policy().sessions, "auto");
}

#[tokio::test]
async fn rules_that_are_saved_but_not_in_force_are_told_so() {
    let stage = Stage::new(Some(""));
    // The other of the two files is broken.
    let own = stage.folder.path().join("state/rules.toml");
    std::fs::write(own, "[[rule]]\nclass = \"fast\"\n").unwrap();
    let refused = stage.ask(&rule("only = \"lte\"", true)).unwrap_err();
    assert_eq!(refused.reason(), ErrorReason::Failed);
    let said = refused.to_string();
    assert!(
        said.contains("hawser.toml, but") && said.contains("rules.toml:2"),
        "{said}"
    );
    assert_eq!(stage.policy().rules, []);
    assert!(stage.read("hawser.toml").contains("only = \"lte\""));
    // Changes of other kinds do not depend on that file.
    for asked in [
        scheduler(Scheduled::Sessions, "ecf", true),
        profile("calls", true),
    ] {
        assert!(stage.ask(&asked).unwrap().is_some());
    }
    let policy = stage.policy();
    assert_eq!(policy.sessions, "ecf");
    assert_eq!(policy.profile.as_deref(), Some("calls"));
}

#[tokio::test]
async fn as_many_rules_as_there_may_be_of_the_longest_fit_one_answer() {
    type Values = fn(usize) -> Vec<String>;
    // An answer has each rule twice, and these marks are escaped in both.
    let marks: Values = |many| vec![r#""\"#.repeat(50); many];
    let ports: Values = |many| (1..=many).map(|port| port.to_string()).collect();
    for (key, values) in [("program", marks), ("port", ports)] {
        let text = |many| {
            let values = toml_edit::Array::from_iter(values(many));
            format!("{key} = {values}\nonly = \"lte\"")
        };
        let fits = |many: &usize| one_rule(&text(*many)).is_ok();
        let longest = (1..).take_while(fits).last().unwrap();
        let stage = Stage::new(None);
        let refused = stage.ask(&rule(&text(longest + 1), false)).unwrap_err();
        assert!(refused.to_string().contains("allowed: 3000"), "{refused}");
        while stage.ask(&rule(&text(longest), false)).is_ok() {}
        let policy = stage.policy();
        let said = policy.rules.iter().filter(|it| it.source == "session");
        assert_eq!(said.count(), 64);
        encode(&Response::Policy(Box::new(policy))).unwrap();
    }
}
