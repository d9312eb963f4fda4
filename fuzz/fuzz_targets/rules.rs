//! A file of rules, and the connection that they judge: its name, in front, closed by a zero.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (name, rules) = text.split_once('\0').unwrap_or(("name", &text));
    if let Ok(rules) = hawser_config::parse_rules("fuzz", rules) {
        let facts = hawser_policy::Facts {
            program: Some(name),
            executable: Some(name),
            domain: Some(name),
            cgroup: Some(name),
            ..hawser_policy::Facts::to(hawser_policy::Protocol::Udp, None, 443)
        };
        hawser_policy::RuleSet::new(rules).judge(&facts);
    }
});
