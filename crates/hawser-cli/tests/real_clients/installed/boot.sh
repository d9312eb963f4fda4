# Starts a machine of its own in new namespaces: systemd as process 1 over a copy of the files below
# $2 that is gone with it. $1 is a directory for it. $3 is a script that runs there before the
# machine starts; without one only the basics are started.
set -e
target=basic.target
root=$1/root
mount --make-rprivate /
mkdir "$1/layer" "$root"
mount -t tmpfs tmpfs "$1/layer"
mkdir "$1/layer/upper" "$1/layer/work"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/layer/upper,workdir=$1/layer/work" "$root"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
for folder in run tmp dev; do mount -t tmpfs tmpfs "$root/$folder"; done
mkdir -p "$root/run/lock" "$root/dev/pts" "$root/dev/shm" "$root/dev/net"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mount -t devpts -o newinstance,ptmxmode=666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
touch "$root/dev/console"
rm -rf "$root/var/lib/hawser" "$root/var/lib/private/hawser" "$root/etc/hawser"
ip link set lo up
mkdir -p "$root/old"
cd "$root"
if [ -n "$3" ]; then
    target=multi-user.target
    (eval "$3")
fi
pivot_root . old
umount -l /old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=console --show-status=0 --unit=$target
