use hawser_types::Permission;

use super::*;

fn rules(config: &str, state: &std::path::Path) -> Arc<LinkRuleStore> {
    let state = StateDir::resolve(Some(state.to_path_buf())).unwrap();
    LinkRuleStore::open(&Config::parse("test", config).unwrap(), &state)
}

/// Counts this many more bytes over link a, each way.
fn count(rules: &LinkRuleStore, bytes: u64) {
    rules.inner.lock().enter("a", both(bytes));
}

const fn both(bytes: u64) -> [ByteCount; 2] {
    [ByteCount::new(bytes), ByteCount::new(bytes)]
}

#[test]
fn an_allowance_that_is_used_up_changes_the_terms_and_stays_so_after_a_restart() {
    use hawser_types::LimitedBy::Allowance;
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
        count(&first, 499_999);
        assert_eq!(first.in_force()["a"].up, Permission::Allowed);
        assert_eq!(first.allowed("a").unwrap().limit, None);
        assert_eq!(first.allowed("b"), None);
        first.write_now();
        count(&first, 1);
        assert_eq!(first.in_force()["a"].up, expected);
        assert_eq!(first.in_force()["a"].down, expected);
        first.write_now();
        drop(first);
        let again = rules(&config, folder.path());
        let allowed = again.allowed("a").unwrap();
        assert_eq!(again.in_force()["a"].up, expected);
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
    assert!(!missing.exists(), "it can't be written");
    count(&rules, 600_000);
    rules.write_now();
    assert!(rules.in_force()["a"].forbid_all());
}

#[tokio::test]
async fn who_moves_bytes_beside_others_is_counted_once() {
    let folder = tempfile::tempdir().unwrap();
    let rules = rules("", folder.path());
    let (mut gateway, mut peer) = (Counted::default(), Counted::default());
    let session = |counted: &mut Counted, id: &str, bytes: u64| {
        let there = BTreeMap::from([(2, "a".to_owned())]);
        for (name, news) in counted.news(id, there, [(2, both(bytes))].into()) {
            rules.inner.lock().enter(&name, news);
        }
    };
    for _ in 0..3 {
        session(&mut gateway, "one", 100);
        session(&mut peer, "two", 20);
        rules.enter(&[("a".to_owned(), both(3))].into()).await;
    }
    let sent = || rules.allowed("a").unwrap().sent_bytes.as_u64();
    assert_eq!(sent(), 123);
    // The next session counts from zero, and the earlier one goes on beside it.
    for (id, bytes, sum) in [("three", 50, 173), ("one", 110, 183), ("three", 60, 193)] {
        session(&mut gateway, id, bytes);
        assert_eq!(sent(), sum);
    }
    gateway.keep(&["three".to_owned()]);
    session(&mut gateway, "three", 61);
    assert_eq!(sent(), 194);
}

#[test]
fn a_link_that_comes_back_under_another_number_is_counted_once() {
    let mut counted = Counted::default();
    let mut news = |there: &[(u32, &str)], moved: &[(u32, u64)]| -> Vec<u64> {
        let there = there
            .iter()
            .map(|(index, name)| (*index, (*name).to_owned()));
        let moved = moved.iter().map(|(index, bytes)| (*index, both(*bytes)));
        let news = counted.news("s", there.collect(), moved.collect());
        news.iter().map(|(_, [sent, _])| sent.as_u64()).collect()
    };
    assert_eq!(news(&[(2, "a"), (9, "lo")], &[(2, 100)]), [100]);
    // The last traffic of a link is counted when the link is gone.
    assert_eq!(news(&[], &[(2, 110)]), [10]);
    for new in [[0, 5], [0, 0]] {
        assert_eq!(news(&[(3, "a")], &[(2, 110), (3, 5)]), new);
    }
}
