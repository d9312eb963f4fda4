use hawser_config::Config;
use hawser_control::LinkChange;

use super::*;

/// Returns the text of the configuration `before` after the change.
fn saved(before: &str, save: impl FnOnce(&Path) -> anyhow::Result<()>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("hawser.toml");
    std::fs::write(&config, before).unwrap();
    save(&config).unwrap();
    std::fs::read_to_string(&config).unwrap()
}

fn link(change: LinkChange) -> impl FnOnce(&Path) -> anyhow::Result<()> {
    let change = LinkChange {
        name: "lte".to_owned(),
        ..change
    };
    move |config| set_link(config, &CheckedChange::read(&change).unwrap())
}

const REMARKED: &str = "\
# Mine.

# Where I listen.
[up]
listen = \"127.0.0.1:1080\" # as ever

# How much, by whom.
[session] # chunks
# The policy.
scheduler   =  \"auto\"   # for now
# The end of the session.

# The stick.
[[link]] # of the van
# Its name.
name = \"lte\" # the device's
use = \"normal\" # mostly
# What it costs.
price = \"2.5EUR/GB\" # until May
# How much.
allowance = \"10GB\" # a month
# Since the bill comes then.
reset-day = 15 # of each
# The end of the link.

# What goes straight.
[connection]
# None yet.
# The end.
";

#[test]
fn a_word_is_changed_where_it_stands_and_every_remark_stays() {
    let after = saved(REMARKED, |config| {
        set(config, "session", "scheduler", "ecf")
    });
    let expected = REMARKED.replace("\"auto\"   # for now", "\"ecf\"   # for now");
    assert_eq!(after, expected);
}

#[test]
fn a_word_that_was_not_there_is_added_to_its_section() {
    let after = saved(REMARKED, |config| {
        set(config, "connection", "profile", "calls")
    });
    let expected = REMARKED.replace("[connection]\n", "[connection]\nprofile = \"calls\"\n");
    assert_eq!(after, expected);
    for (before, expected) in [
        ("", "[connection]\nprofile = \"calls\"\n"),
        (
            "[up]\n\n# mine\n",
            "[up]\n\n# mine\n\n[connection]\nprofile = \"calls\"\n",
        ),
        (
            "[serve]\n[up]\n[serve.limits]\nsessions = 9\n# end",
            "[serve]\n[up]\n[serve.limits]\nsessions = 9\n# end\n[connection]\nprofile = \"calls\"\n",
        ),
        (
            "connection = { mptcp = \"off\" } # short\n",
            "connection = { mptcp = \"off\" , profile = \"calls\" } # short\n",
        ),
        (
            "connection.mptcp = \"off\" # short\n",
            "connection.mptcp = \"off\" # short\nconnection.profile = \"calls\"\n",
        ),
    ] {
        let after = saved(before, |config| {
            set(config, "connection", "profile", "calls")
        });
        assert_eq!(after, expected);
    }
}

#[test]
fn what_is_said_of_a_link_is_changed_where_it_stands_and_nothing_else() {
    let change = LinkChange {
        up: Some(LinkUse::Never),
        down: Some(LinkUse::Never),
        weight: Some(7),
        price: Some("3EUR/GB".to_owned()),
        allowance: Some("20GB".to_owned()),
        ..LinkChange::default()
    };
    let expected = REMARKED
        .replace("\"normal\"", "\"never\"")
        .replace("\"2.5EUR/GB\"", "\"3EUR/GB\"")
        .replace("\"10GB\"", "\"20GB\"")
        .replace("15 # of each\n", "15 # of each\nweight = 7\n");
    assert_eq!(saved(REMARKED, link(change)), expected);
}

#[test]
fn an_allowance_goes_with_what_means_nothing_without_it() {
    let none = LinkChange {
        allowance: Some("none".to_owned()),
        price: Some("0".to_owned()),
        ..LinkChange::default()
    };
    let after = saved(REMARKED, link(none));
    let config = Config::parse("after", &after).unwrap();
    assert_eq!(config.links[0].rule.allowance, None);
    assert_eq!(config.links[0].rule.price, 0.0);
    for remark in [
        "# Its name.",
        "# mostly",
        "# until May",
        "# The end of the link.",
    ] {
        assert!(after.contains(remark), "{after}");
    }
}

#[test]
fn a_link_that_is_not_spoken_of_yet_comes_last() {
    let prefer = || LinkChange {
        up: Some(LinkUse::Prefer),
        ..LinkChange::default()
    };
    let before = REMARKED.replace("\"lte\"", "\"dsl\"");
    let after = saved(&before, link(prefer()));
    assert_eq!(
        after,
        format!("{before}\n[[link]]\nname = \"lte\"\nup = \"prefer\"\n")
    );
    assert_eq!(
        saved("", link(prefer())),
        "[[link]]\nname = \"lte\"\nup = \"prefer\"\n"
    );
}

#[test]
fn directions_that_stand_there_are_kept_apart() {
    let with = |up, down| LinkChange {
        up,
        down,
        ..LinkChange::default()
    };
    let never = Some(LinkUse::Never);
    for (before, change, expected) in [
        ("up = \"backup\"", with(never, None), "up = \"never\""),
        (
            "use = \"prefer\"",
            with(None, never),
            "use = \"prefer\"\ndown = \"never\"",
        ),
        (
            "up = \"backup\" # ours",
            with(never, never),
            "up = \"never\" # ours\nuse = \"never\"",
        ),
        (
            "up = \"backup\"\ndown = \"prefer\"",
            with(never, never),
            "up = \"never\"\ndown = \"never\"",
        ),
        (
            "use = \"backup\"",
            with(never, Some(LinkUse::Prefer)),
            "use = \"backup\"\nup = \"never\"\ndown = \"prefer\"",
        ),
    ] {
        let head = "[[link]]\nname = \"lte\"\n";
        let after = saved(&format!("{head}{before}\n"), link(change));
        assert_eq!(after, format!("{head}{expected}\n"));
    }
}

#[test]
fn what_can_not_be_written_leaves_the_file_alone() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("hawser.toml");
    for (before, problem) in [
        ("link = [{ name = \"lte\" }]\n", "change it there yourself"),
        ("[[link]]\nname = 1\n", "`link.name` is 1"),
        ("[[link]\n", "not TOML"),
    ] {
        std::fs::write(&config, before).unwrap();
        let change = LinkChange {
            weight: Some(2),
            ..LinkChange::default()
        };
        let error = link(change)(&config).unwrap_err().to_string();
        assert!(error.contains(problem), "{error}");
        assert_eq!(std::fs::read_to_string(&config).unwrap(), before);
    }
    let error = set(
        &config.with_file_name("none"),
        "session",
        "scheduler",
        "ecf",
    );
    assert!(error.is_err());
}
