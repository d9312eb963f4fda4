#!/usr/bin/env bash
# README's two commands on a Debian with nothing but Rust, git and a C compiler: how long they take,
# and whether they succeed. As root: bench/tools/two-commands.sh [first|second|both]
#
# The Debian is of this machine's release and is removed at the end, with all that was built in it.
# It has this machine's Rust, network and certificates. What is built is the last commit.
set -euo pipefail
which=${1:-both}
case $which in first | second | both) ;; *)
    echo "error: got $which, allowed are first, second and both" >&2
    exit 2
    ;;
esac
source=$(cd "$(dirname "$0")/../.." && pwd)
rust=$(rustc --print sysroot)
place=$(mktemp -d /var/tmp/fresh-machine-XXXXXX)
trap 'rm -rf --one-file-system "$place"' EXIT
root=$place/root
. /etc/os-release
mmdebstrap --quiet --variant=minbase --include=ca-certificates,git,gcc,libc6-dev \
    "$VERSION_CODENAME" "$root"
mkdir -p "$root/usr/local/rust"
cp -aL "$rust/." "$root/usr/local/rust/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
git clone --quiet "$source" "$root/root/hawser"
git -C "$root/root/hawser" log -1 --format='commit %h of %ci'

cat >"$root/root/inside.sh" <<'END'
set -uo pipefail
export HOME=/root PATH=/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export DEBIAN_FRONTEND=noninteractive
unset CARGO_HOME CARGO_TARGET_DIR RUSTUP_HOME RUSTUP_TOOLCHAIN
cd /root/hawser
cargo --version
took() { echo "$1: $(($(date +%s) - began)) s"; }
case $1 in first | both)
    # Downloads are no part of it: they are as quick as the network.
    cargo fetch --locked --quiet
    began=$(date +%s)
    : >/tmp/up.log
    cargo run --release -- up >>/tmp/up.log 2>&1 &
    until grep -q '127\.0\.0\.1:1080' /tmp/up.log; do
        if ! kill -0 $! 2>/dev/null; then
            tail -n 20 /tmp/up.log
            echo "the first command failed"
            exit 1
        fi
        sleep 0.2
    done
    took "first command, until the proxy port is there"
    tail -n 6 /tmp/up.log
    # Cargo has become the program.
    kill -TERM $!
    wait $!
    echo "exit status $?"
    ;;
esac
case $1 in second | both)
    began=$(date +%s)
    cargo xtask test
    status=$?
    took "second command, exit status $status"
    exit $status
    ;;
esac
END
# Mounts of its own. Not processes: programs in the kernel know these by their first numbers.
unshare --mount sh -ec '
    root=$1
    mount --make-rprivate /
    mount --bind "$root" "$root"
    for tree in dev sys proc; do mount --rbind "/$tree" "$root/$tree"; done
    mount -t tmpfs tmpfs "$root/run"
    mkdir "$root/before"
    cd "$root"
    pivot_root . before
    umount -l /before
    exec bash /root/inside.sh "$2"
' sh "$root" "$which"
