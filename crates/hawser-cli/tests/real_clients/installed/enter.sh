# Starts the script $1, with the arguments after it, in new namespaces and in a control group of its
# own: two service managers in one group would take each other's services for their own. The group's
# path goes into the file `cgroup` of the folder $2.
set -e
unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
[ -n "$unified" ] || { echo "no cgroup2 is mounted" >&2; exit 1; }
own=$unified$(sed -n 's/^0:://p' /proc/self/cgroup)/hawser-machine-$$
mkdir "$own"
echo "$own" >"$2/cgroup"
echo $$ >"$own/cgroup.procs"
script=$1
shift
exec unshare --fork --pid --mount --uts --ipc --cgroup --net --kill-child \
    sh -c "$script" boot.sh "$@"
