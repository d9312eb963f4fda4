//! Replays the fuzzers' corpus of invites.

use std::fs;
use std::path::Path;

use hawser_net::invite::Invite;

#[test]
fn every_invite_of_the_corpus_that_is_read_is_the_same_when_written_and_read_again() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/invite");
    let (mut files, mut good) = (0, 0);
    for input in fs::read_dir(&folder).unwrap() {
        let bytes = fs::read(input.unwrap().path()).unwrap();
        files += 1;
        // Cut anywhere, as when not all of it was copied.
        for end in 0..=bytes.len() {
            let text = String::from_utf8_lossy(&bytes[..end]);
            if let Ok(invite) = text.parse::<Invite>() {
                let again = invite.to_line().parse::<Invite>().unwrap();
                assert!(invite == again);
                good += 1;
            }
        }
    }
    assert!(files > 0, "the corpus is gone: {}", folder.display());
    assert!(good > 0, "none of the corpus is an invite");
}
