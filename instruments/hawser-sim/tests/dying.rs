//! Cost of dying links for transfers and requests beside a healthy link, as tables.

use hawser_scenario::Direction;
use hawser_scenario::dying::{Cell, Depth, DyingReport, DyingTable, Work};
use hawser_sim::dying;

#[test]
fn what_dying_links_take_from_transfers_gives_the_committed_table() {
    compare(Work::Bulk, include_str!("dying.txt"), "dying.txt");
}

#[test]
fn what_dying_links_take_from_requests_gives_the_committed_table() {
    let table = include_str!("dying_requests.txt");
    compare(Work::Requests, table, "dying_requests.txt");
}

/// Downloads beside a link of 60 kbit/s with a long queue.
fn compare(work: Work, expected: &str, file: &str) {
    let mut cells = Cell::all(work, 1);
    cells.retain(|cell| {
        let is_download = cell.direction == Direction::Get;
        is_download && cell.rate == 60 && cell.queue == Depth::Bytes
    });
    let mut reports = dying::run(&cells, None);
    reports.sort_by_key(DyingReport::badness);
    let table = DyingTable::new(&reports, None).to_string();
    let work = match work {
        Work::Requests => " --work requests",
        _ => "",
    };
    assert!(
        table == expected,
        "if that is meant, commit what this gives:\n\
         cargo run --release -p hawser-sim -- dying{work} --rate 60 --deep --direction get \
         > instruments/hawser-sim/tests/{file}"
    );
}
