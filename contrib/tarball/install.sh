#!/bin/sh
# Installs Hawser from this folder, or removes it. Keys and settings stay where they are.
set -eu

usage() {
    echo "usage: ./install.sh [--prefix DIR] [--uninstall]"
    echo "DIR is /usr/local unless named. Units for systemd are installed by root only."
}

prefix=/usr/local
uninstall=
while [ $# -gt 0 ]; do
    case "$1" in
        --prefix)
            [ $# -ge 2 ] || { usage >&2; exit 2; }
            prefix=$2
            shift
            ;;
        --prefix=*) prefix=${1#--prefix=} ;;
        --uninstall) uninstall=yes ;;
        -h | --help) usage; exit 0 ;;
        *) echo "install.sh: unknown argument: $1" >&2; usage >&2; exit 2 ;;
    esac
    shift
done
case "$prefix" in
    /*) ;;
    *) echo "install.sh: --prefix is $prefix; allowed: a path that begins with /" >&2; exit 2 ;;
esac

cd "$(dirname "$0")"
units=
if [ "$(id -u)" = 0 ] && [ -d /run/systemd/system ]; then
    units=yes
fi

if [ -n "$uninstall" ]; then
    (cd tree && find . -type f) | while read -r file; do
        rm -f "$prefix/$file"
    done
    [ -z "$units" ] || systemctl daemon-reload
    echo "Hawser is removed from $prefix. Keys are still in /var/lib/hawser or ~/.local/state/hawser."
    exit 0
fi

(cd tree && find . -type f) | while read -r file; do
    case "$file" in
        ./lib/systemd/*)
            [ -n "$units" ] || continue
            mkdir -p "$prefix/$(dirname "$file")"
            sed "s|/usr/bin/hawser|$prefix/bin/hawser|" "tree/$file" >"$prefix/$file"
            ;;
        *)
            mode=644
            [ "$file" != ./bin/hawser ] || mode=755
            mkdir -p "$prefix/$(dirname "$file")"
            # In place of the old file, not into it: it may be running.
            cp "tree/$file" "$prefix/$file.new"
            chmod "$mode" "$prefix/$file.new"
            mv "$prefix/$file.new" "$prefix/$file"
            ;;
    esac
done
[ -z "$units" ] || systemctl daemon-reload
"$prefix/bin/hawser" --version
echo "installed into $prefix; begin with: hawser up"
