//! An invite as a user pastes it: what is read must read the same when written again.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(invite) = text.parse::<hawser_keys::invite::Invite>() {
        let again = invite.to_line().parse::<hawser_keys::invite::Invite>();
        assert!(
            again.is_ok(),
            "an invite that was read is written so that it cannot be read"
        );
    }
});
