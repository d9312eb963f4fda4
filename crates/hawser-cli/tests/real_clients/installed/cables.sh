# Two links of 20 Mbit/s from the machine with process 1 $1 to that with $2. Both lead to an address
# of the latter.
set -e
for number in 1 2; do
    ip link add name link$number netns "$1" type veth peer name far$number netns "$2"
    nsenter -n -t "$1" ip addr add 10.9.$number.2/24 dev link$number
    nsenter -n -t "$1" ip link set link$number up
    nsenter -n -t "$2" ip addr add 10.9.$number.1/24 dev far$number
    nsenter -n -t "$2" ip link set far$number up
    nsenter -n -t "$2" tc qdisc add dev far$number root tbf rate 20mbit burst 20kb latency 100ms
    nsenter -n -t "$1" ip route add default via 10.9.$number.1 dev link$number metric 10$number
done
nsenter -n -t "$2" ip addr add 203.0.113.1/32 dev lo
