//! Replays the corpora that the fuzzers keep and extend.

use hawser_skip::replay;

use crate::fuzzing;

#[test]
fn every_file_of_the_corpora_of_file_transfer_is_read_without_a_panic() {
    replay("file_answer", fuzzing::answer);
    replay("file_journal", fuzzing::journal);
    replay("file_name", fuzzing::name);
    replay("file_offer", fuzzing::offer);
    replay("file_placement", fuzzing::placement);
    replay("file_trailer", fuzzing::trailer);
}
