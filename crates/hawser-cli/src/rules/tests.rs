use hawser_sched::rules::Permission;

use super::*;

fn rules(config: &str, state: &std::path::Path) -> Arc<LinkRules> {
    let state = StateDir::resolve(Some(state.to_path_buf())).unwrap();
    LinkRules::open(&Config::parse("test", config).unwrap(), &state)
}

fn count(rules: &LinkRules, session: &str, bytes: u64) {
    let bytes = ByteCount::new(bytes);
    let day = rules.lock().reset_day("a");
    let moved = [bytes, bytes];
    rules
        .lock()
        .accounts
        .enter(session, "a", moved, today(), day);
}

#[test]
fn an_allowance_that_is_used_up_changes_the_terms_and_stays_so_after_a_restart() {
    use hawser_sched::governor::Exclusion::Allowance;
    for (at_limit, expected, shown) in [
        ("stop", Permission::Forbidden(Allowance), "stopped"),
        ("backup", Permission::Reserve(Allowance), "backup"),
        ("continue", Permission::Allowed, "continues"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "[[link]]\nname = \"a\"\nallowance = \"1MB\"\nat-limit = \"{at_limit}\"\nprice = \"1000EUR/GB\""
        );
        let first = rules(&config, folder.path());
        count(&first, "s", 499_999);
        assert_eq!(first.terms()["a"].up, Permission::Allowed);
        assert_eq!(first.allowed("a").unwrap().limit, None);
        assert_eq!(first.allowed("b"), None);
        first.write_now();
        count(&first, "s", 500_000);
        assert_eq!(first.terms()["a"].up, expected);
        assert_eq!(first.terms()["a"].down, expected);
        first.write_now();
        drop(first);
        let again = rules(&config, folder.path());
        let allowed = again.allowed("a").unwrap();
        assert_eq!(again.terms()["a"].up, expected);
        assert_eq!(allowed.sent_bytes, ByteCount::new(500_000));
        assert_eq!(allowed.limit.as_deref(), Some(shown));
        assert_eq!(allowed.cost.as_deref(), Some("1.00 EUR"));
    }
}

#[test]
fn without_a_ledger_it_counts_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let rules = rules("[[link]]\nname = \"a\"\nallowance = \"1MB\"", &missing);
    assert!(rules.ledger.is_none());
    count(&rules, "s", 600_000);
    rules.write_now();
    assert!(rules.terms()["a"].forbid_all());
}
