//! Control groups of rules, and of processes as the kernel names them, behind a zero: a path within
//! a group stays within it at any depth.
#![no_main]

use hawser_policy::CgroupPath;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let (rule, group) = text.split_once('\0').unwrap_or((&text, "/user.slice"));
    let Ok(rule) = rule.parse::<CgroupPath>() else {
        return;
    };
    assert_eq!(rule.to_string().parse(), Ok(rule.clone()));
    assert!(rule.contains(rule.as_str()));
    if rule.contains(group) {
        assert!(rule.contains(&format!("{group}/below")));
    }
});
