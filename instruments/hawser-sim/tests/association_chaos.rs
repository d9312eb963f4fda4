//! Associations under chaos; `hawser-sim association chaos` plays more seeds.

use hawser_sim::association::chaos;

#[test]
fn ordered_streams_survive_whatever_happens_to_paths() {
    for seed in 0..150 {
        assert_eq!(chaos::play(seed), Ok(()), "seed {seed}");
    }
}
