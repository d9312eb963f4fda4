//! Programs and tables of an object in the kernel, and bulk updates of these.

use std::collections::{BTreeMap, BTreeSet};

use aya::maps::lpm_trie::Key;
use aya::maps::{HashMap, LpmTrie, Map, MapData, MapError};
use aya::programs::Program;
use aya::{Ebpf, Pod};
use ipnet::IpNet;

use crate::{CaptureError, tables};

/// Prefixes of keys of `N` bytes, by length in bits, each with a value.
pub(crate) type Trie<const N: usize> = BTreeMap<(u32, [u8; N]), u64>;

/// Replaces the contents of a table by `entries`; entries that stay are never missing.
pub(crate) fn replace<K: Pod + Ord, V: Pod>(
    table: &mut HashMap<MapData, K, V>,
    entries: impl Iterator<Item = (K, V)>,
) -> Result<(), CaptureError> {
    let mut stays = BTreeSet::new();
    for (key, value) in entries {
        table.insert(key, value, 0)?;
        stays.insert(key);
    }
    let known: Vec<K> = table.keys().collect::<Result<_, _>>()?;
    for key in known.iter().filter(|key| !stays.contains(*key)) {
        table.remove(key)?;
    }
    Ok(())
}

/// Replaces the contents of a table of prefixes likewise.
pub(crate) fn replace_trie<const N: usize>(
    table: &mut LpmTrie<MapData, [u8; N], u64>,
    rows: &Trie<N>,
) -> Result<(), CaptureError> {
    for ((bits, key), value) in rows {
        table.insert(&Key::new(*bits, *key), value, 0)?;
    }
    let known: Vec<_> = table.keys().collect::<Result<_, _>>()?;
    for key in known {
        if !rows.contains_key(&(key.prefix_len(), key.data())) {
            table.remove(&key)?;
        }
    }
    Ok(())
}

/// Returns the entries of a table; concurrent changes may hide some.
pub(crate) fn snapshot<K: Pod + Ord, V: Pod>(table: &HashMap<MapData, K, V>) -> BTreeMap<K, V> {
    // If the last entry seen is removed, the kernel starts over, so the iteration need not end.
    table.iter().flatten().take(MAX_STEPS).collect()
}

/// Ignores a missing entry: the kernel's program may have removed it before.
pub(crate) fn missing_is_fine(error: MapError) -> Result<(), MapError> {
    match error {
        MapError::KeyNotFound => Ok(()),
        MapError::SyscallError(error) if error.io_error.raw_os_error() == Some(libc::ENOENT) => {
            Ok(())
        }
        other => Err(other),
    }
}

/// Returns a network as a prefix of addresses of 16 bytes.
pub(crate) fn prefix(network: &IpNet) -> (u32, [u8; 16]) {
    let bits = match network {
        IpNet::V4(network) => u32::from(network.prefix_len()) + MAPPED.0,
        IpNet::V6(network) => u32::from(network.prefix_len()),
    };
    (bits, tables::mapped(network.network()))
}

/// Takes a table of the object, by its name.
pub(crate) fn take(programs: &mut Ebpf, name: &'static str) -> Result<Map, CaptureError> {
    let missing = || CaptureError::Refused(format!("the object has no table {name}"));
    programs.take_map(name).ok_or_else(missing)
}

/// Returns a program of the object, by its name.
pub(crate) fn program<'a>(
    programs: &'a mut Ebpf,
    name: &'static str,
) -> Result<&'a mut Program, CaptureError> {
    let missing = || CaptureError::Refused(format!("the object has no program {name}"));
    programs.program_mut(name).ok_or_else(missing)
}

/// All of IPv4, mapped into IPv6.
pub(crate) const MAPPED: (u32, [u8; 16]) =
    (96, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0]);

/// Limit of iteration steps: twice the size of the largest table.
const MAX_STEPS: usize = 2 * 65_536;
