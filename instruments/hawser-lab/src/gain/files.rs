//! Files to load, with sizes and bytes from a seed.

use std::io;
use std::path::Path;

use hawser_types::ByteCount;
use rand::rngs::SmallRng;
use rand::{Rng, RngCore, SeedableRng};

/// One file on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct File {
    pub(super) name: String,
    pub(super) size: usize,
}

/// Makes sizes smaller, for a look: so many hundredths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Percent(pub(super) u8);

impl Percent {
    fn of(self, size: f64) -> usize {
        // No size is beyond some megabytes.
        (size * f64::from(self.0) / 100.0).max(1.0) as usize
    }
}

/// The eight files of mixed sizes that are loaded at once.
pub(super) fn mixed(percent: Percent) -> Vec<File> {
    let sizes = MIXED.into_iter().enumerate();
    let files = sizes.map(|(number, size)| File {
        name: format!("file{number}"),
        size: percent.of(size),
    });
    files.collect()
}

/// Files as an upgrade loads them, some large and most small: log-normal.
pub(super) fn packages(percent: Percent) -> Vec<File> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let files = (0..PACKAGES).map(|number| {
        let size = PACKAGE_MEDIAN * (PACKAGE_SPREAD * normal(&mut random)).exp();
        File {
            name: format!("package{number:02}.deb"),
            size: percent.of(size.clamp(SMALLEST_PACKAGE, LARGEST_PACKAGE)),
        }
    });
    files.collect()
}

/// The sizes of a page's parts: as many between 2 and 20 kB as between 20 and 200.
pub(super) fn parts(count: usize, percent: Percent) -> Vec<usize> {
    let mut random = SmallRng::seed_from_u64(SEED);
    let mut draw = || SMALLEST_PART * (LARGEST_PART / SMALLEST_PART).powf(random.random::<f64>());
    let sizes = (0..count).map(|_| percent.of(draw()));
    sizes.collect()
}

/// Returns the bytes of all files.
pub(super) fn total(files: &[File]) -> ByteCount {
    ByteCount::new(files.iter().map(|file| file.size as u64).sum())
}

/// The same in another order for each round, so that no order is lucky for good.
pub(super) fn shuffled(files: &[File], round: u8) -> Vec<File> {
    let mut random = SmallRng::seed_from_u64(SEED ^ u64::from(round));
    let mut files = files.to_vec();
    for last in (1..files.len()).rev() {
        files.swap(last, random.random_range(0..=last));
    }
    files
}

/// Writes bytes that nothing can compress, others for each file.
pub(super) fn publish(folder: &Path, files: &[File]) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    for file in files {
        let seed = file.name.bytes().fold(SEED, |seed, byte| {
            seed.wrapping_mul(31).wrapping_add(u64::from(byte))
        });
        let mut bytes = vec![0; file.size];
        SmallRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        std::fs::write(folder.join(&file.name), bytes)?;
    }
    Ok(())
}

/// An error where what was loaded is not what was published.
pub(super) fn compare(published: &Path, loaded: &Path) -> io::Result<()> {
    let name = loaded.file_name().unwrap_or_default().to_string_lossy();
    let (wanted, got) = (std::fs::read(published)?, std::fs::read(loaded));
    let got = got.map_err(|error| io::Error::new(error.kind(), format!("{name}: {error}")))?;
    if wanted == got {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "{name} has {} bytes of {}, or others",
            got.len(),
            wanted.len()
        )))
    }
}

/// From the standard normal distribution, by Box and Muller.
fn normal(random: &mut SmallRng) -> f64 {
    let (first, second) = (1.0 - random.random::<f64>(), random.random::<f64>());
    (-2.0 * first.ln()).sqrt() * (std::f64::consts::TAU * second).cos()
}

const SEED: u64 = 4;
const MIXED: [f64; 8] = [6e4, 1.2e5, 2.5e5, 5e5, 9e5, 1.8e6, 3.5e6, 3.8e6];
const PACKAGES: usize = 30;
const PACKAGE_MEDIAN: f64 = 1.5e5;
/// Standard deviation of the logarithm: one in six is more than four times the median.
const PACKAGE_SPREAD: f64 = 1.4;
const SMALLEST_PACKAGE: f64 = 2e4;
const LARGEST_PACKAGE: f64 = 4e6;
const SMALLEST_PART: f64 = 2e3;
const LARGEST_PART: f64 = 2e5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_mostly_small_and_together_some_megabytes() {
        let files = packages(Percent(100));
        assert_eq!(files, packages(Percent(100)));
        let mut sizes: Vec<_> = files.iter().map(|file| file.size).collect();
        sizes.sort_unstable();
        assert!(
            (20_000..300_000).contains(&sizes[PACKAGES / 2]),
            "{sizes:?}"
        );
        assert!(sizes[PACKAGES - 1] > 1_000_000, "{sizes:?}");
        let total = total(&files).as_u64();
        assert!((6_000_000..20_000_000).contains(&total), "{total}");
    }

    #[test]
    fn each_round_has_its_own_order_of_the_same_files() {
        let files = mixed(Percent(10));
        let orders = [0, 1].map(|round| shuffled(&files, round));
        assert_ne!(orders[0], orders[1]);
        for mut order in orders {
            order.sort_by_key(|file| file.size);
            assert_eq!(order, files);
        }
    }

    #[test]
    fn a_file_that_lacks_its_end_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let files = mixed(Percent(1));
        publish(folder.path(), &files).unwrap();
        let published = folder.path().join("file1");
        compare(&published, &published).unwrap();
        let cut = folder.path().join("cut");
        let bytes = std::fs::read(&published).unwrap();
        std::fs::write(&cut, &bytes[..bytes.len() - 1]).unwrap();
        assert!(compare(&published, &cut).is_err());
        assert!(compare(&published, &folder.path().join("nothing")).is_err());
    }
}
