# A web server on the internet, which is a network behind this machine. Nothing is forwarded there.
set -e
ip netns add site
ip link add name site type veth peer name eth0 netns site
ip addr add 9.9.9.1/24 dev site
ip link set site up
ip -n site addr add 9.9.9.9/24 dev eth0
ip -n site link set eth0 up
mkdir -p /tmp/www
head -c 10000000 /dev/urandom >/tmp/www/file
cat >/tmp/nginx.conf <<'END'
user root;
pid /tmp/nginx.pid;
error_log /tmp/nginx.log;
events {}
http { access_log off; server { listen 9.9.9.9:80; root /tmp/www; } }
END
ip netns exec site nginx -c /tmp/nginx.conf -e /tmp/nginx.log
