//! Gains the right to create namespaces: as root, or as root of an own user namespace.

use std::fs;
use std::io;
use std::time::Duration;

/// Reason why no lab can be built here.
#[derive(Debug, thiserror::Error)]
#[error(
    "no network namespace can be made here, neither directly ({direct}) nor in a user namespace \
     ({rootless}); run as root, or allow unprivileged user namespaces (see \
     /proc/sys/user/max_user_namespaces and kernel.unprivileged_userns_clone or AppArmor's \
     kernel.apparmor_restrict_unprivileged_userns)"
)]
pub struct Forbidden {
    direct: io::Error,
    rootless: io::Error,
}

/// Makes the calling process able to make network namespaces.
///
/// Must be called while the process has one thread. As root nothing changes; otherwise the
/// process moves into a user namespace in which it is root.
pub fn acquire() -> Result<(), Forbidden> {
    let direct = match probe() {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    enter_user_namespace()
        .and_then(|()| probe())
        .map_err(|rootless| Forbidden { direct, rootless })
}

/// Tries out a network namespace on a thread that ends right after.
fn probe() -> io::Result<()> {
    crate::netns::NetNs::create().map(drop)
}

fn enter_user_namespace() -> io::Result<()> {
    // SAFETY: plain system calls without arguments from memory.
    let (user, group) = unsafe { (libc::geteuid(), libc::getegid()) };
    let mut tries = 0;
    // SAFETY: as above; fails cleanly when the process has several threads.
    while unsafe { libc::unshare(libc::CLONE_NEWUSER) } != 0 {
        let error = io::Error::last_os_error();
        // The probe's thread has been joined, but the kernel may not have finished with it.
        if error.raw_os_error() != Some(libc::EINVAL) || tries == MAX_TRIES {
            return Err(error);
        }
        tries += 1;
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("0 {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("0 {group} 1"))
}

const MAX_TRIES: u32 = 200;
