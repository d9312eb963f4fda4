/* Binds sockets to links when they connect. `cargo xtask bpf` compiles it to capture.o.
 *
 * After any error here, the connection proceeds as without Hawser. It is refused only if the user's
 * rules leave it no link. */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/socket.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "decide.h"
#include "maps.h"

SINGLE(SETTINGS, struct settings);
SINGLE(LINKS, struct links);
SINGLE(LOADS, struct loads);
SINGLE(TURNS, struct turns);
SINGLE(RULES, struct rules);
TRIE(LOCAL, struct address_key, 16384);
TRIE(RULE_ADDRESSES, struct address_key, 4096);
TRIE(RULE_PORTS, struct port_key, 4096);
TRIE(RULE_PROGRAMS, struct program_key, 4096);
HASH(RULE_USERS, __u32, __u64, 1024);
HASH(RULE_CGROUPS, __u64, __u64, 1024);
HASH(APPLICATIONS, struct application_key, struct application, 4096);
/* A new entry replaces the least recently used. */
TABLE(DEMANDS, BPF_MAP_TYPE_LRU_HASH, sizeof(struct demand_key), sizeof(struct demand), 8192, 0);
/* Twice what is used of it: a new set comes before the old one goes. */
HASH(PEERS, struct peer_key, __u32, 8192);
HASH(FLOWS, __u64, struct flow, 65536);
HASH(REMAINING, __u64, struct remaining, 65536);
HASH(ORIGINS, struct origin_key, struct origin, 65536);
HASH(NAME_SERVERS, struct name_server, __u32, 256);
HASH(NAME_PORTS, struct name_port, struct name_server, 256);
TABLE(COUNTS, BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, COUNTERS, 0);
TABLE(COSTS, BPF_MAP_TYPE_PERCPU_ARRAY, 4, sizeof(struct costs), 1, 0);
TABLE(EVENTS, BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 20, 0);

#define SOL_SOCKET 1
#define SO_BINDTODEVICE 25
#define SO_MARK 36
#define IP_TOS 1
#define IPV6_TCLASS 67
#define SOL_IP 0
#define SOL_IPV6 41
#define DNS_PORT 53
#define LOOPBACK bpf_htonl(0x7f000001)
#define IPV6_HEADER 40
#define UDP_HEADER 8
#define MAX_DEPTH 12 /* of control groups that rules look at */
#define ALLOW 1
#define REFUSE 0

static __always_inline void count(__u32 what)
{
	__u64 *counter = bpf_map_lookup_elem(&COUNTS, &what);
	if (counter)
		*counter += 1;
}

/* Subtracts, but not below zero: the daemon may have corrected the load meanwhile. */
static __always_inline void take_from(__u64 *from, __u64 amount)
{
	__u64 before = *(volatile __u64 *)from;
	__sync_fetch_and_add(from, -(amount < before ? amount : before));
}

static __always_inline void charge(struct load *load, const struct flow *flow)
{
	__sync_fetch_and_add(&load->up, flow->demand.up);
	__sync_fetch_and_add(&load->down, flow->demand.down);
	__sync_fetch_and_add(&load->connections, 1);
	if (flow->class == CLASS_REAL_TIME)
		__sync_fetch_and_add(&load->real_time, 1);
}

static __always_inline void give_back(__u64 cookie, const struct flow *flow)
{
	struct links *links = single(&LINKS);
	struct loads *loads = single(&LOADS);
	const struct remaining *left = bpf_map_lookup_elem(&REMAINING, &cookie);
	__u32 place = flow->place & (MAX_LINKS - 1);
	__u64 connections = left ? left->connections : 1;
	struct load *load;

	/* The place may belong to another link now. */
	if (!links || !loads || !flow->link || links->at[place].index != flow->link)
		return;
	load = &loads->at[place];
	take_from(&load->up, left ? left->up : flow->demand.up);
	take_from(&load->down, left ? left->down : flow->demand.down);
	take_from(&load->connections, connections);
	if (flow->class == CLASS_REAL_TIME)
		take_from(&load->real_time, connections);
	if (left)
		bpf_map_delete_elem(&REMAINING, &cookie);
}

static __always_inline void report(__u32 kind, __u64 cookie, const struct flow *flow, __u64 up,
				   __u64 down, __u32 latency)
{
	struct event *event = bpf_ringbuf_reserve(&EVENTS, sizeof(*event), 0);
	if (!event) {
		count(COUNT_LOST_EVENTS);
		return;
	}
	event->cookie = cookie;
	event->at = bpf_ktime_get_ns();
	event->up = up;
	event->down = down;
	event->kind = kind;
	event->latency = latency;
	event->flow = *flow;
	bpf_ringbuf_submit(event, 0);
}

static __always_inline void forget_origin(const struct flow *flow)
{
	/* Mapped IPv4 addresses are redirected to an IPv4 address. */
	const __u32 *words = (const __u32 *)flow->remote;
	struct origin_key key = { flow->local_port,
				  !(!words[0] && !words[1] && words[2] == bpf_htonl(0xffff)) };
	if (flow->redirected && flow->local_port)
		bpf_map_delete_elem(&ORIGINS, &key);
}

/* Ends a connection. Only the first call for a connection has an effect, and returns 1. */
static __always_inline int end(__u64 cookie, struct flow *flow, __u64 up, __u64 down,
			       __u32 latency)
{
	if (__sync_fetch_and_or(&flow->state, FLOW_ENDED) & FLOW_ENDED)
		return 0;
	give_back(cookie, flow);
	forget_origin(flow);
	if (flow->protocol == IPPROTO_UDP) {
		up = flow->sent;
		down = flow->received;
	}
	report(EVENT_ENDED, cookie, flow, up, down, latency);
	return 1;
}

/* Returns the position of the lowest bit; 64 if none is set. It counts the bits below it, in groups
 * of two, four, eight and 64. BPF has no instruction for it, and with branches the verifier would
 * follow the rest of the program once for each position. */
static __always_inline __u32 lowest(__u64 mask)
{
	__u64 below = ~mask & (mask - 1);
	below -= below >> 1 & 0x5555555555555555ull;
	below = (below & 0x3333333333333333ull) + (below >> 2 & 0x3333333333333333ull);
	below = (below + (below >> 4)) & 0x0f0f0f0f0f0f0f0full;
	return below * 0x0101010101010101ull >> 56;
}

struct connection {
	struct flow flow;
	__u64 cookie;
	__u32 ipv4; /* its packets are IPv4 */
	__u32 stub; /* the daemon's port on loopback for the name server that it is for; 0: none */
	__u32 peer; /* PEER_ */
	__u32 stays; /* 1: a datagram socket that is bound to a link already, and keeps it */
};

static __always_inline __u64 found(const __u64 *mask, __u64 otherwise)
{
	return mask ? *mask : otherwise;
}

static __always_inline __u64 fitting_cgroups(const struct rules *rules)
{
	__u64 fitting = rules->cgroup_free;
	if (fitting == ~0ull)
		return fitting;
	ROLLED for (int level = 0; level < MAX_DEPTH; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);
		if (!id)
			break;
		fitting |= found(bpf_map_lookup_elem(&RULE_CGROUPS, &id), 0);
	}
	return fitting;
}

/* Returns the rules that fit a connection, without regard to its class. */
static __always_inline __u64 fitting_rules(const struct rules *rules, const struct connection *c)
{
	const struct flow *flow = &c->flow;
	struct application_key who = { .user = flow->user };
	struct application *application;
	struct address_key to = {};
	struct program_key program = {};
	struct port_key port = {};
	__u64 fitting = rules->protocol[flow->protocol == IPPROTO_UDP];

	to.bits = 128;
	program.bits = 8 * COMM_LENGTH;
	port.bits = 16;
	fitting &= rules->dscp[flow->dscp & 63];
	__builtin_memcpy(who.program, flow->program, COMM_LENGTH);
	application = bpf_map_lookup_elem(&APPLICATIONS, &who);
	fitting &= rules->executable_free | (application ? application->executable : 0);
	__builtin_memcpy(program.program, flow->program, COMM_LENGTH);
	fitting &= found(bpf_map_lookup_elem(&RULE_PROGRAMS, &program), rules->program_free) |
		   (application ? application->program : 0);
	fitting &= found(bpf_map_lookup_elem(&RULE_USERS, &flow->user), rules->user_free);
	port.port[0] = flow->port >> 8;
	port.port[1] = flow->port;
	fitting &= found(bpf_map_lookup_elem(&RULE_PORTS, &port), rules->port_free);
	__builtin_memcpy(to.address, flow->remote, 16);
	fitting &= found(bpf_map_lookup_elem(&RULE_ADDRESSES, &to), rules->address_free);
	return fitting & fitting_cgroups(rules);
}

struct verdict {
	__u32 class;
	__u32 mode;
	__u32 avoid;
	__u32 links;
	const __u8 *order; /* null: any of `links` */
	__u32 sets_links;
};

static __always_inline void judge(const struct rules *rules, const struct connection *c,
				  struct verdict *verdict)
{
	__u64 fitting = fitting_rules(rules, c), one;

	verdict->class = CLASS_UNKNOWN;
	verdict->mode = MODE_AUTO;
	verdict->avoid = 0;
	verdict->links = ~0u;
	verdict->order = 0;
	verdict->sets_links = 0;
	one = fitting & rules->class_free & rules->sets_class;
	if (one)
		verdict->class = rules->at[lowest(one) & 63].class & (CLASSES - 1);
	fitting &= rules->class[verdict->class];
	one = fitting & rules->sets_mode;
	if (one)
		verdict->mode = rules->at[lowest(one) & 63].mode;
	one = fitting & rules->sets_avoid;
	if (one)
		verdict->avoid = rules->at[lowest(one) & 63].avoid;
	one = fitting & rules->sets_links;
	if (one) {
		const struct action *action = &rules->at[lowest(one) & 63];
		verdict->links = action->links;
		verdict->order = action->order;
		verdict->sets_links = action->links != ~0u;
	}
}

/* Returns the links that carry calls. Without branches, since the verifier would follow every
 * combination of links. */
static __always_inline __u32 with_calls(const struct loads *loads)
{
	__u32 mask = 0;
	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		__u64 calls = loads->at[i].real_time, minus = -calls;
		asm volatile("" : "+r"(minus));
		mask |= (__u32)((calls | minus) >> 63) << i;
	}
	return mask;
}

static __always_inline __u32 avoided(const struct links *links, const struct loads *loads,
				     __u32 avoid)
{
	__u32 mask = avoid & AVOID_METERED ? links->metered : 0;
	return avoid & AVOID_CALLS ? mask | with_calls(loads) : mask;
}

/* Returns the links of `mask` that the verdict allows; without those of `avoid` if any remain. */
static __always_inline __u32 allowed(const struct verdict *verdict, __u32 mask, __u32 avoid)
{
	__u32 left;
	mask &= verdict->links;
	left = mask & ~avoid;
	if (left)
		mask = left;
	if (!verdict->order)
		return mask;
	ROLLED for (int i = 0; i < RULE_ORDER; i++) {
		__u32 place = verdict->order[i];
		if (place < MAX_LINKS && (mask >> place & 1))
			return 1u << place;
	}
	return mask;
}

static __always_inline void set_mark(struct bpf_sock_addr *ctx, __u32 mark)
{
	bpf_setsockopt(ctx, SOL_SOCKET, SO_MARK, &mark, sizeof(mark));
}

static __always_inline void unbind(struct bpf_sock_addr *ctx)
{
	char nothing[16] = {};
	bpf_setsockopt(ctx, SOL_SOCKET, SO_BINDTODEVICE, nothing, sizeof(nothing));
}

/* Binds by name, since that fails for a device that is gone. The index then shows whether another
 * device has taken the name. */
static __always_inline int bind_to(struct bpf_sock_addr *ctx, const struct link *link)
{
	char name[16];
	struct bpf_sock *sk = ctx->sk;

	__builtin_memcpy(name, link->name, sizeof(name));
	if (bpf_setsockopt(ctx, SOL_SOCKET, SO_BINDTODEVICE, name, sizeof(name)))
		return 0;
	if (sk && *(volatile __u32 *)&sk->bound_dev_if == link->index)
		return 1;
	unbind(ctx);
	return 0;
}

static __always_inline __u32 peer_at(const __u32 *remote, __u32 port)
{
	struct peer_key peer = { .port = port };
	const __u32 *found;

	__builtin_memcpy(peer.remote, remote, 16);
	found = bpf_map_lookup_elem(&PEERS, &peer);
	if (!found) {
		peer.port = 0;
		found = bpf_map_lookup_elem(&PEERS, &peer);
	}
	return found ? *found : PEER_NONE;
}

static __always_inline int can_redirect(const struct settings *settings,
					const struct connection *c)
{
	return c->flow.protocol == IPPROTO_TCP &&
	       (c->ipv4 ? settings->redirect4_port : settings->redirect6_port);
}

static __always_inline int is_bonded(const struct settings *settings, const struct connection *c,
				     __u32 mode)
{
	if (!can_redirect(settings, c))
		return 0;
	if (mode == MODE_AUTO)
		mode = settings->auto_mode;
	if (mode != MODE_AUTO)
		return mode != MODE_DIRECT;
	return c->peer != PEER_NONE;
}

static __always_inline int is_for_gateway(const struct settings *settings, __u32 mode)
{
	mode = mode == MODE_AUTO ? settings->auto_mode : mode;
	return mode == MODE_BONDED || mode == MODE_PACKET;
}

/* Tells whether the machine's routes lead packets of this family to the daemon's tunnel. */
static __always_inline int has_tunnel(const struct settings *settings, const struct connection *c)
{
	return !!(settings->packets & (c->ipv4 ? PACKETS_IPV4 : PACKETS_IPV6));
}

/* Tells whether a socket that is not redirected stays as it is, since it is for the gateway: the
 * machine's routes lead its packets to the daemon's tunnel, or a kill switch is on, which only what
 * is direct may pass. */
static __always_inline int is_kept(const struct settings *settings, const struct connection *c,
				   __u32 mode)
{
	int is_tunnelled = c->flow.protocol == IPPROTO_UDP && has_tunnel(settings, c);

	return (is_tunnelled || settings->mark) && is_for_gateway(settings, mode);
}

static __always_inline void expect(const struct settings *settings, struct connection *c)
{
	struct flow *flow = &c->flow;
	struct demand_key key = { .port_class = port_class(flow->port) };
	const struct demand *known;

	__builtin_memcpy(key.program, flow->program, COMM_LENGTH);
	known = bpf_map_lookup_elem(&DEMANDS, &key);
	flow->demand = known ? *known : settings->demand[flow->class & (CLASSES - 1)];
}

enum way { AS_IT_IS, BOUND, REDIRECTED, REFUSED, TO_STUB };

static __always_inline enum way redirect(struct connection *c)
{
	c->flow.redirected = 1;
	if (bpf_map_update_elem(&FLOWS, &c->cookie, &c->flow, BPF_ANY)) {
		count(COUNT_FULL);
		return AS_IT_IS;
	}
	count(COUNT_PLACED);
	report(EVENT_CONNECTED, c->cookie, &c->flow, 0, 0, 0);
	return REDIRECTED;
}

static __always_inline enum way refuse(struct connection *c)
{
	count(COUNT_REFUSED);
	report(EVENT_REFUSED, c->cookie, &c->flow, 0, 0, 0);
	return REFUSED;
}

static __always_inline enum way bind_by(struct bpf_sock_addr *ctx, struct connection *c,
					const struct settings *settings, struct links *links,
					struct loads *loads, __u32 among)
{
	struct turns *turns = single(&TURNS);
	struct costs *costs = single(&COSTS);
	struct choice choice;
	struct link *link;
	__u32 place;

	if (!turns || !costs)
		return AS_IT_IS;
	expect(settings, c);
	choice = choose(settings->policy, c->flow.class, &c->flow.demand, links, loads, turns,
			costs, among);
	if (choice.place < 0)
		return AS_IT_IS;
	/* Another program on this processor may have overwritten the place. Its place is taken only
	 * if it is allowed. */
	place = forgotten(&costs->place, choice.place);
	if (place >= MAX_LINKS || !(among >> place & 1))
		return AS_IT_IS;
	link = &links->at[place];
	c->flow.link = link->index;
	c->flow.place = place;
	c->flow.reason = choice.reason;
	if (bpf_map_update_elem(&FLOWS, &c->cookie, &c->flow, BPF_ANY)) {
		count(COUNT_FULL);
		return AS_IT_IS;
	}
	if (!bind_to(ctx, link)) {
		count(COUNT_UNBOUND);
		bpf_map_delete_elem(&FLOWS, &c->cookie);
		return AS_IT_IS;
	}
	if (settings->mark)
		set_mark(ctx, settings->mark);
	charge(&loads->at[place], &c->flow);
	count(COUNT_PLACED);
	report(EVENT_CONNECTED, c->cookie, &c->flow, 0, 0, 0);
	return BOUND;
}

static __always_inline enum way place(struct bpf_sock_addr *ctx, struct connection *c,
				      const struct settings *settings)
{
	const struct rules *rules = single(&RULES);
	struct links *links = single(&LINKS);
	struct loads *loads = single(&LOADS);
	struct verdict verdict;
	__u32 there, avoid, among, held, linked;

	if (!rules || !links || !loads)
		return AS_IT_IS;
	judge(rules, c, &verdict);
	c->flow.class = verdict.class;
	c->flow.links = verdict.links;
	c->flow.any_link = verdict.links >> 31;
	there = c->ipv4 ? links->ipv4 : links->ipv6;
	avoid = avoided(links, loads, verdict.avoid);
	if (c->stub && !verdict.sets_links)
		return TO_STUB;
	/* The daemon judges it again, by all that rules can ask for. Datagrams would go past it. */
	held = c->peer == PEER_HELD && !verdict.sets_links && verdict.mode != MODE_DIRECT;
	if (held)
		return !c->stays && can_redirect(settings, c) && redirect(c) == REDIRECTED
			       ? REDIRECTED
			       : refuse(c);
	if (c->stays)
		return AS_IT_IS;
	/* A session uses every link. So a connection whose rules select or avoid links is bound to
	 * one link here. If no link is usable, it is redirected, and the daemon handles it. */
	linked = there && (verdict.sets_links || avoid);
	if (!linked && verdict.mode == MODE_PACKET && has_tunnel(settings, c))
		return AS_IT_IS;
	if (!linked && is_bonded(settings, c, verdict.mode))
		return redirect(c);
	if (!linked && is_kept(settings, c, verdict.mode))
		return AS_IT_IS;
	/* Resolvers of a provider often answer over that provider's link only. */
	if (c->flow.port == DNS_PORT && !verdict.sets_links)
		return AS_IT_IS;
	among = allowed(&verdict, there, avoid);
	if (among)
		return bind_by(ctx, c, settings, links, loads, among);
	return verdict.sets_links && there ? refuse(c) : AS_IT_IS;
}

/* Returns 1 if the socket must not be bound. */
static __always_inline int is_taken(struct bpf_sock_addr *ctx, struct connection *c,
				    const struct settings *settings, int has_address)
{
	struct bpf_sock *sk = ctx->sk;
	struct flow *earlier;
	__u32 link;

	if (!sk)
		return 1;
	earlier = bpf_map_lookup_elem(&FLOWS, &c->cookie);
	if (!earlier)
		return sk->bound_dev_if || has_address;
	/* It has connected before. A datagram socket that still has the address of its link stays
	 * on that link, and stays charged. */
	if (has_address && !earlier->redirected) {
		c->stays = 1;
		return c->peer != PEER_HELD;
	}
	link = earlier->link;
	end(c->cookie, earlier, 0, 0, 0);
	bpf_map_delete_elem(&FLOWS, &c->cookie);
	if (sk->bound_dev_if && sk->bound_dev_if != link)
		return 1;
	/* Whatever it connects to now need not be for a link. */
	if (settings->mark && sk->mark == settings->mark)
		set_mark(ctx, 0);
	/* The kernel refuses to unbind if the process lacks CAP_NET_RAW. Then binding fails too,
	 * and the socket stays on its link. */
	if (sk->bound_dev_if)
		unbind(ctx);
	return 0;
}

static __always_inline __u32 dscp_of(struct bpf_sock_addr *ctx)
{
	__u32 tos = 0;
	if (ctx->family == 2)
		bpf_getsockopt(ctx, SOL_IP, IP_TOS, &tos, sizeof(tos));
	else
		bpf_getsockopt(ctx, SOL_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
	return tos >> 2 & 63;
}

/* systemd-resolved asks each link's servers over that link, by an option (IP_UNICAST_IF) that does
 * not show here. What it asks is left alone. */
static __always_inline int is_resolved(void)
{
	static const char name[COMM_LENGTH] = "systemd-resolve";
	char program[COMM_LENGTH] = {};

	bpf_get_current_comm(program, COMM_LENGTH);
	ROLLED for (int i = 0; i < COMM_LENGTH; i++)
		if (program[i] != name[i])
			return 0;
	return 1;
}

/* Returns the daemon's port that answers for a name server of this machine; 0 if there is none. */
static __always_inline __u32 stub_for(const __u32 *remote, __u32 port)
{
	struct name_server server;
	const __u32 *stub;

	if (port != DNS_PORT)
		return 0;
	__builtin_memcpy(server.address, remote, 16);
	stub = bpf_map_lookup_elem(&NAME_SERVERS, &server);
	return stub && !is_resolved() ? *stub : 0;
}

static __always_inline enum way capture(struct bpf_sock_addr *ctx, struct connection *c,
					int has_address)
{
	struct settings *settings = single(&SETTINGS);
	struct address_key to = {};
	__u64 ids = bpf_get_current_pid_tgid(), near;

	if (!settings || bpf_get_netns_cookie(ctx) != settings->netns)
		return AS_IT_IS;
	c->cookie = bpf_get_socket_cookie(ctx);
	c->flow.process = ids >> 32;
	if (settings->introduction && settings->introduction == c->cookie)
		settings->process = c->flow.process;
	if (settings->process == c->flow.process)
		return AS_IT_IS;
	if (ctx->protocol != IPPROTO_TCP && ctx->protocol != IPPROTO_UDP)
		return AS_IT_IS;
	c->flow.protocol = ctx->protocol;
	c->flow.port = bpf_ntohs(ctx->user_port);
	to.bits = 128;
	__builtin_memcpy(to.address, c->flow.remote, 16);
	near = found(bpf_map_lookup_elem(&LOCAL, &to), 0);
	if (near != LOCAL_ALWAYS)
		c->peer = peer_at((const __u32 *)c->flow.remote, c->flow.port);
	if (is_taken(ctx, c, settings, has_address))
		return AS_IT_IS;
	if (!(ctx->sk && ctx->sk->mark))
		c->stub = stub_for((const __u32 *)c->flow.remote, c->flow.port);
	if (c->peer != PEER_HELD && near)
		return c->stub ? TO_STUB : AS_IT_IS;
	c->flow.user = bpf_get_current_uid_gid();
	c->flow.cgroup = bpf_get_current_cgroup_id();
	c->flow.began = bpf_ktime_get_ns();
	bpf_get_current_comm(c->flow.program, COMM_LENGTH);
	c->flow.dscp = dscp_of(ctx);
	return place(ctx, c, settings);
}

/* Tells whether the application has given its socket an address. A socket that has asked the stub
 * for names has the loopback address, and may ask again. */
static __always_inline int is_own4(__u32 address, __u32 port)
{
	return address && !(address == LOOPBACK && port == bpf_htons(DNS_PORT));
}

static __always_inline int is_own6(const struct bpf_sock *sk, __u32 port)
{
	__u32 first = sk->src_ip6[0] | sk->src_ip6[1], third = sk->src_ip6[2];
	__u32 last = sk->src_ip6[3];

	/* A socket bound to the mapped unspecified address is bound to no address. */
	if (!first && !last && (!third || third == MAPPED))
		return 0;
	if (first || port != bpf_htons(DNS_PORT))
		return 1;
	return !(third == MAPPED && last == LOOPBACK) && !(!third && last == bpf_htonl(1));
}

SEC("cgroup/connect4")
int connect4(struct bpf_sock_addr *ctx)
{
	struct connection c = { .ipv4 = 1 };
	__u32 *remote = (__u32 *)c.flow.remote;
	struct settings *settings;
	enum way way;

	remote[2] = bpf_htonl(0xffff);
	remote[3] = ctx->user_ip4;
	way = capture(ctx, &c, ctx->sk && is_own4(ctx->sk->src_ip4, ctx->user_port));
	settings = single(&SETTINGS);
	if (way == TO_STUB) {
		ctx->user_ip4 = LOOPBACK;
		ctx->user_port = bpf_htons(c.stub);
	}
	if (way == REDIRECTED && settings) {
		ctx->user_ip4 = settings->redirect4;
		ctx->user_port = bpf_htons(settings->redirect4_port);
	}
	return way == REFUSED ? REFUSE : ALLOW;
}

SEC("cgroup/connect6")
int connect6(struct bpf_sock_addr *ctx)
{
	struct connection c = {};
	__u32 *remote = (__u32 *)c.flow.remote;
	struct bpf_sock *sk = ctx->sk;
	struct settings *settings;
	enum way way;

	remote[0] = ctx->user_ip6[0];
	remote[1] = ctx->user_ip6[1];
	remote[2] = ctx->user_ip6[2];
	remote[3] = ctx->user_ip6[3];
	c.ipv4 = !remote[0] && !remote[1] && remote[2] == MAPPED;
	way = capture(ctx, &c, sk && is_own6(sk, ctx->user_port));
	settings = single(&SETTINGS);
	if (way == TO_STUB) {
		ctx->user_ip6[3] = c.ipv4 ? LOOPBACK : bpf_htonl(1);
		if (!c.ipv4)
			ctx->user_ip6[0] = ctx->user_ip6[1] = ctx->user_ip6[2] = 0;
		ctx->user_port = bpf_htons(c.stub);
	}
	if (way == REDIRECTED && settings) {
		if (c.ipv4) {
			ctx->user_ip6[3] = settings->redirect4;
			ctx->user_port = bpf_htons(settings->redirect4_port);
		} else {
			ctx->user_ip6[0] = settings->redirect6[0];
			ctx->user_ip6[1] = settings->redirect6[1];
			ctx->user_ip6[2] = settings->redirect6[2];
			ctx->user_ip6[3] = settings->redirect6[3];
			ctx->user_port = bpf_htons(settings->redirect6_port);
		}
	}
	return way == REFUSED ? REFUSE : ALLOW;
}

static __always_inline struct flow *redirected(struct bpf_sock_addr *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct flow *flow = bpf_map_lookup_elem(&FLOWS, &cookie);
	return flow && flow->redirected ? flow : 0;
}

/* Returns the name server that the daemon's port on loopback answers for, if it is such a port. */
static __always_inline const struct name_server *server_at(struct bpf_sock_addr *ctx, __u32 ipv6)
{
	struct name_port key = { .port = bpf_ntohs(ctx->user_port), .ipv6 = ipv6 };
	struct settings *settings = single(&SETTINGS);

	if (!settings || bpf_get_netns_cookie(ctx) != settings->netns)
		return 0;
	return bpf_map_lookup_elem(&NAME_PORTS, &key);
}

/* Puts that server in place of the port. */
static __always_inline void show_server4(struct bpf_sock_addr *ctx)
{
	const struct name_server *server;

	if (ctx->user_ip4 != LOOPBACK)
		return;
	server = server_at(ctx, 0);
	if (server) {
		ctx->user_ip4 = ((const __u32 *)server->address)[3];
		ctx->user_port = bpf_htons(DNS_PORT);
	}
}

static __always_inline void show_server6(struct bpf_sock_addr *ctx)
{
	__u32 third = ctx->user_ip6[2], last = ctx->user_ip6[3];
	const struct name_server *server;
	const __u32 *address;

	if (ctx->user_ip6[0] || ctx->user_ip6[1])
		return;
	if (third == MAPPED && last == LOOPBACK)
		server = server_at(ctx, 0);
	else if (!third && last == bpf_htonl(1))
		server = server_at(ctx, 1);
	else
		return;
	if (!server)
		return;
	address = (const __u32 *)server->address;
	ctx->user_ip6[0] = address[0];
	ctx->user_ip6[1] = address[1];
	ctx->user_ip6[2] = address[2];
	ctx->user_ip6[3] = address[3];
	ctx->user_port = bpf_htons(DNS_PORT);
}

SEC("cgroup/getpeername4")
int getpeername4(struct bpf_sock_addr *ctx)
{
	struct flow *flow = redirected(ctx);
	if (flow) {
		ctx->user_ip4 = ((__u32 *)flow->remote)[3];
		ctx->user_port = bpf_htons(flow->port);
	} else {
		show_server4(ctx);
	}
	return ALLOW;
}

SEC("cgroup/getpeername6")
int getpeername6(struct bpf_sock_addr *ctx)
{
	struct flow *flow = redirected(ctx);
	if (flow) {
		__u32 *remote = (__u32 *)flow->remote;
		ctx->user_ip6[0] = remote[0];
		ctx->user_ip6[1] = remote[1];
		ctx->user_ip6[2] = remote[2];
		ctx->user_ip6[3] = remote[3];
		ctx->user_port = bpf_htons(flow->port);
	} else {
		show_server6(ctx);
	}
	return ALLOW;
}

/* Tells whether this is held. What is always near is not, whatever the table says. */
static __always_inline int is_held(const __u32 *remote, __u32 port)
{
	struct address_key to = {};

	to.bits = 128;
	__builtin_memcpy(to.address, remote, 16);
	return found(bpf_map_lookup_elem(&LOCAL, &to), 0) != LOCAL_ALWAYS &&
	       peer_at(remote, port) == PEER_HELD;
}

/* Tells whether the application has bound its socket, or marked it: one that has connected, and
 * that Hawser has bound to a link for that, is not. */
static __always_inline int is_own(struct bpf_sock_addr *ctx, const struct bpf_sock *sk,
				  int has_address)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	const struct settings *settings = single(&SETTINGS);
	const struct flow *flow = bpf_map_lookup_elem(&FLOWS, &cookie);
	__u32 link = sk->bound_dev_if, mark = sk->mark;

	if (!flow || !settings)
		return link || mark || has_address;
	return (link && link != flow->link) || (mark && mark != settings->mark);
}

/* What becomes of datagrams of sockets that are not connected, or not to where these go: they go to
 * the daemon's port for a name server, which is returned; or nowhere, where the destination is
 * held. Others are not captured. */
static __always_inline enum way send_to(struct bpf_sock_addr *ctx, const __u32 *remote,
					int has_address, __u32 *stub)
{
	struct settings *settings = single(&SETTINGS);
	__u32 port = bpf_ntohs(ctx->user_port);
	const struct bpf_sock *sk = ctx->sk;

	if (!sk || !settings || (port != DNS_PORT && !settings->held) ||
	    bpf_get_netns_cookie(ctx) != settings->netns ||
	    settings->process == bpf_get_current_pid_tgid() >> 32)
		return AS_IT_IS;
	if (is_own(ctx, sk, has_address))
		return AS_IT_IS;
	if (!sk->bound_dev_if && !sk->mark && !has_address)
		*stub = stub_for(remote, port);
	if (*stub)
		return TO_STUB;
	if (!settings->held || !is_held(remote, port))
		return AS_IT_IS;
	count(COUNT_REFUSED);
	return REFUSED;
}

SEC("cgroup/sendmsg4")
int sendmsg4(struct bpf_sock_addr *ctx)
{
	__u32 remote[4] = { 0, 0, MAPPED, ctx->user_ip4 }, stub = 0;
	struct bpf_sock *sk = ctx->sk;
	enum way way;

	way = send_to(ctx, remote, sk && is_own4(sk->src_ip4, ctx->user_port), &stub);
	if (way == TO_STUB) {
		ctx->user_ip4 = LOOPBACK;
		ctx->user_port = bpf_htons(stub);
	}
	return way == REFUSED ? REFUSE : ALLOW;
}

SEC("cgroup/sendmsg6")
int sendmsg6(struct bpf_sock_addr *ctx)
{
	__u32 remote[4], stub = 0;
	struct bpf_sock *sk = ctx->sk;
	enum way way;

	remote[0] = ctx->user_ip6[0];
	remote[1] = ctx->user_ip6[1];
	remote[2] = ctx->user_ip6[2];
	remote[3] = ctx->user_ip6[3];
	way = send_to(ctx, remote, sk && is_own6(sk, ctx->user_port), &stub);
	if (way == TO_STUB) {
		ctx->user_ip6[0] = ctx->user_ip6[1] = ctx->user_ip6[2] = 0;
		ctx->user_ip6[3] = bpf_htonl(1);
		ctx->user_port = bpf_htons(stub);
	}
	return way == REFUSED ? REFUSE : ALLOW;
}

/* The program hears an answer of the stub from the server that it has asked. */
SEC("cgroup/recvmsg4")
int recvmsg4(struct bpf_sock_addr *ctx)
{
	show_server4(ctx);
	return ALLOW;
}

SEC("cgroup/recvmsg6")
int recvmsg6(struct bpf_sock_addr *ctx)
{
	show_server6(ctx);
	return ALLOW;
}

static __always_inline void on_syn(struct bpf_sock_ops *ctx, __u64 cookie, struct flow *flow)
{
	const __u32 *words = (const __u32 *)flow->remote;
	struct origin_key key = { ctx->local_port,
				  !(!words[0] && !words[1] && words[2] == bpf_htonl(0xffff)) };
	struct origin origin = { .cookie = cookie,
				 .process = flow->process,
				 .user = flow->user,
				 .port = flow->port,
				 .dscp = flow->dscp };

	__sync_fetch_and_or(&flow->state, FLOW_STARTED);
	flow->local_port = key.port;
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG);
	if (!flow->redirected)
		return;
	__builtin_memcpy(origin.remote, flow->remote, 16);
	__builtin_memcpy(origin.program, flow->program, COMM_LENGTH);
	bpf_map_update_elem(&ORIGINS, &key, &origin, BPF_ANY);
}

static __always_inline void on_state(struct bpf_sock_ops *ctx, __u64 cookie, struct flow *flow)
{
	__u32 state = ctx->args[1];

	if (state == BPF_TCP_ESTABLISHED) {
		flow->established = bpf_ktime_get_ns();
	} else if (state == BPF_TCP_CLOSE) {
		end(cookie, flow, ctx->bytes_acked, ctx->bytes_received, ctx->srtt_us >> 3);
		if (*(volatile __u32 *)&flow->state & FLOW_RELEASED)
			bpf_map_delete_elem(&FLOWS, &cookie);
	}
}

SEC("sockops")
int socket_event(struct bpf_sock_ops *ctx)
{
	struct flow *flow;
	__u64 cookie;

	if (ctx->op != BPF_SOCK_OPS_TCP_CONNECT_CB && ctx->op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	cookie = bpf_get_socket_cookie(ctx);
	flow = bpf_map_lookup_elem(&FLOWS, &cookie);
	if (!flow)
		return 1;
	if (ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB)
		on_syn(ctx, cookie, flow);
	else
		on_state(ctx, cookie, flow);
	return 1;
}

/* Counts the payload of a datagram for the captured socket that sends or receives it. The packet
 * begins with its IP header. A packet that will be segmented later (GSO) has the headers once. */
static __always_inline int meter(struct __sk_buff *packet, int is_sent)
{
	struct bpf_sock *sk = packet->sk;
	struct flow *flow;
	__u64 cookie;
	__u32 headers;
	__u8 first;

	if (!sk)
		return ALLOW;
	sk = bpf_sk_fullsock(sk);
	if (!sk || sk->protocol != IPPROTO_UDP)
		return ALLOW;
	cookie = bpf_get_socket_cookie(packet);
	flow = bpf_map_lookup_elem(&FLOWS, &cookie);
	if (!flow || bpf_skb_load_bytes(packet, 0, &first, 1))
		return ALLOW;
	headers = UDP_HEADER + (first >> 4 == 4 ? (first & 15) * 4 : IPV6_HEADER);
	if (packet->len > headers)
		__sync_fetch_and_add(is_sent ? &flow->sent : &flow->received,
				     packet->len - headers);
	return ALLOW;
}

SEC("cgroup_skb/egress")
int datagram_sent(struct __sk_buff *packet)
{
	return meter(packet, 1);
}

SEC("cgroup_skb/ingress")
int datagram_received(struct __sk_buff *packet)
{
	return meter(packet, 0);
}

/* Called when the application has closed the socket. TCP may still have data to send. Then the
 * later of this call and the connection's end removes the flow from the table. */
SEC("cgroup/sock_release")
int socket_release(struct bpf_sock *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	struct flow *flow = bpf_map_lookup_elem(&FLOWS, &cookie);
	__u32 before;

	if (!flow)
		return ALLOW;
	before = __sync_fetch_and_or(&flow->state, FLOW_RELEASED);
	if ((before & FLOW_STARTED) && !(before & FLOW_ENDED))
		return ALLOW;
	end(cookie, flow, 0, 0, 0);
	bpf_map_delete_elem(&FLOWS, &cookie);
	return ALLOW;
}

char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
