# What the package does, and a gateway with a web server behind two links of 20 Mbit/s.
set -e
chmod 755 /usr/bin/hawser
systemd-sysusers /usr/lib/sysusers.d/hawser.conf
install -d -m 750 -o hawser -g hawser /etc/hawser
systemctl daemon-reload
ip netns add far
cat >/tmp/links.sh <<'END'
set -e
for number in 1 2; do
    ip link add link$number type veth peer name far$number netns far
    ip addr add 10.9.$number.2/24 dev link$number
    ip link set link$number up
    ip -n far addr add 10.9.$number.1/24 dev far$number
    ip -n far link set far$number up
    ip netns exec far tc qdisc add dev far$number root tbf rate 20mbit burst 20kb latency 100ms
    ip route add default via 10.9.$number.1 dev link$number metric 10$number
done
END
sh /tmp/links.sh
ip -n far link set lo up
ip -n far addr add 203.0.113.1/32 dev lo
mkdir -p /tmp/www /tmp/gateway
head -c 10000000 /dev/urandom >/tmp/www/file
cat >/tmp/nginx.conf <<'END'
user root;
pid /tmp/nginx.pid;
error_log /tmp/nginx.log;
events {}
http { access_log off; server { listen 203.0.113.1:80; root /tmp/www; } }
END
ip netns exec far nginx -c /tmp/nginx.conf -e /tmp/nginx.log
ip netns exec far hawser serve --state /tmp/gateway --listen 203.0.113.1:7443 \
    --allow-destination 203.0.113.0/24 --invite-file /tmp/invite >/tmp/gateway.log 2>&1 &
for try in $(seq 600); do
    [ -s /tmp/invite ] && exit 0
    sleep 0.1
done
cat /tmp/gateway.log >&2
exit 1
