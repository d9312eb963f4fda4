//! Compiles the shim, which is embedded in the program.

use std::env;
use std::path::Path;

fn main() {
    println!("cargo::rerun-if-changed=shim");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let object = Path::new(&out).join("shim.so");
    // cc finds the compiler of the target; it only builds archives, so the library is linked here.
    let compiler = cc::Build::new().cargo_metadata(false).get_compiler();
    let status = compiler
        .to_command()
        .args(["-std=gnu11", "-shared", "-fPIC", "-O2", "-g0"])
        .args(["-Wall", "-Wextra"])
        // Its only library is the C library, which the program has loaded already.
        .args(["-nostdlib", "-fno-stack-protector", "-fvisibility=hidden"])
        .args(["-Wl,-z,relro,-z,now,-z,noexecstack", "-o"])
        .arg(&object)
        .args(["shim/shim.c", "shim/names.c"])
        .status();
    let status = status.expect("the C compiler cannot be started");
    assert!(status.success(), "the C compiler ended with {status}");
}
