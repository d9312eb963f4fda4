/* Tells servers in the SYN that this host can bond, answers such SYNs, and gives Hawser those that
 * want their connection bonded. `cargo xtask bpf` compiles it to discovery.o.
 *
 * After any error here, the connection proceeds without the option. */
#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/socket.h>

#include "maps.h"
#include "option.h"

SINGLE(ANNOUNCING, struct announcing);
/* What the SYN of a socket says; it counts once. New entries replace the oldest, here and below. */
TABLE(SOCKETS, BPF_MAP_TYPE_LRU_HASH, 8, 4, 16384, 0);
/* Until when there is no option to a destination. */
TABLE(AVOIDED, BPF_MAP_TYPE_LRU_HASH, sizeof(struct avoided_key), 8, 8192, 0);
TABLE(ATTEMPTS, BPF_MAP_TYPE_LRU_HASH, 8, sizeof(struct attempt), 16384, 0);
/* What came of the option of a socket that was to say it. */
TABLE(ANSWERS, BPF_MAP_TYPE_LRU_HASH, 8, sizeof(struct learnt), 4096, 0);
HASH(FRONTED, __u32, struct fronted, 1024);
/* Addresses of this host. */
HASH(OWN, struct own, __u32, 4096);
/* Hawser's listener for diverted SYNs of IPv4, and the one of IPv6. The kernel takes a socket out
 * that is closed. No other socket can be in its place, whatever port it listens on. */
TABLE(LISTENERS, BPF_MAP_TYPE_SOCKMAP, 4, 4, 2, 0);
/* The same by cookie, before they listen. */
TABLE(LISTENING, BPF_MAP_TYPE_LRU_HASH, 8, 4, 64, 0);
/* SYNs that were diverted, by the first eight bytes of TCP's header: ports and sequence number. */
TABLE(DIVERTED, BPF_MAP_TYPE_LRU_HASH, 8, 4, 16384, 0);
TABLE(TALLY, BPF_MAP_TYPE_PERCPU_ARRAY, 4, 8, TALLIES, 0);
TABLE(LEARNT, BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 18, 0);

#define AF_INET 2
#define TCP_SYN 0x02
#define TCP_ACK 0x10
#define TCP_HEADER 20
#define IPV4_HEADER 20
#define IPV6_HEADER 40
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define PACKET_HOST 0
/* The next program of the interface, if any, has its say too. */
#define NEXT (-1)
#define CALLBACKS (BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_RTO_CB_FLAG)

static __always_inline void tally(__u32 what)
{
	__u64 *counter = bpf_map_lookup_elem(&TALLY, &what);
	if (counter)
		*counter += 1;
}

/* Returns the settings if the socket is in the daemon's network namespace. */
static __always_inline const struct announcing *announcing(struct bpf_sock_ops *ctx)
{
	const struct announcing *settings = single(&ANNOUNCING);
	return settings && settings->netns == bpf_get_netns_cookie(ctx) ? settings : 0;
}

/* Switches callbacks off, but not those that another program has switched on. */
static __always_inline void leave_alone(struct bpf_sock_ops *ctx, __u32 callbacks)
{
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags & ~callbacks);
}

static __always_inline int is_loopback(const __u32 *remote)
{
	if (remote[0] || remote[1])
		return 0;
	return remote[2] == MAPPED ? (remote[3] & bpf_htonl(0xff000000)) == bpf_htonl(0x7f000000)
				   : !remote[2] && remote[3] == bpf_htonl(1);
}

static __always_inline void remote_of(struct bpf_sock_ops *ctx, __u32 *remote)
{
	if (ctx->family == AF_INET) {
		__u32 address = ctx->remote_ip4;

		/* Otherwise the compiler might read from the context at an offset that varies. */
		KNOWN(address);
		remote[2] = MAPPED;
		remote[3] = address;
	} else {
		remote[0] = ctx->remote_ip6[0];
		remote[1] = ctx->remote_ip6[1];
		remote[2] = ctx->remote_ip6[2];
		remote[3] = ctx->remote_ip6[3];
	}
}

/* Returns what the SYN of this attempt has to say. */
static __always_inline __u32 offer_of(__u64 cookie, struct attempt *attempt,
				      const struct announcing *settings)
{
	const __u32 *offer = bpf_map_lookup_elem(&SOCKETS, &cookie);
	__u32 found;

	if (offer) {
		found = *offer;
		bpf_map_delete_elem(&SOCKETS, &cookie);
		attempt->by_socket = 1;
		return found;
	}
	return is_loopback((const __u32 *)attempt->remote) ? OFFER_NONE : settings->everywhere;
}

static __always_inline int is_avoided(const struct attempt *attempt)
{
	struct avoided_key key = { .link = attempt->link };
	__u64 now = bpf_ktime_get_ns();
	const __u64 *until;

	/* The whole link, then this destination on it. */
	until = bpf_map_lookup_elem(&AVOIDED, &key);
	if (until && *until > now)
		return 1;
	__builtin_memcpy(key.remote, attempt->remote, sizeof(key.remote));
	until = bpf_map_lookup_elem(&AVOIDED, &key);
	return until && *until > now;
}

static __always_inline void ask(const struct announcing *settings, __u32 offer,
				struct attempt *attempt)
{
	__u32 number = bpf_get_prandom_u32();
	__u8 *question = attempt->question;

	if (offer == OFFER_PAPER) {
		__builtin_memcpy(question, settings->question[OFFER_PAPER], QUESTION_ROOM);
		for (int i = PAPER_LENGTH - 1; i >= 4; i--, number /= 10)
			question[i] = '0' + number % 10;
		return;
	}
	if (offer == OFFER_BOND)
		__builtin_memcpy(question, settings->question[OFFER_BOND], QUESTION_ROOM);
	else
		__builtin_memcpy(question, settings->question[OFFER_THERE], QUESTION_ROOM);
	question[6] = number;
	question[7] = number >> 8;
	question[8] = number >> 16;
	question[9] = number >> 24;
}

static __always_inline void on_connect(struct bpf_sock_ops *ctx)
{
	const struct announcing *settings = announcing(ctx);
	struct attempt attempt = {};
	struct bpf_sock *sk = ctx->sk;
	__u32 offer, before = ctx->bpf_sock_ops_cb_flags;
	__u64 cookie;

	if (!settings || !sk)
		return;
	cookie = bpf_get_socket_cookie(ctx);
	remote_of(ctx, (__u32 *)attempt.remote);
	attempt.port = bpf_ntohl(ctx->remote_port);
	attempt.link = sk->bound_dev_if;
	offer = offer_of(cookie, &attempt, settings);
	if (offer == OFFER_NONE || offer >= OFFERS || is_avoided(&attempt))
		return;
	ask(settings, offer, &attempt);
	attempt.callbacks = CALLBACKS & ~before;
	if (!bpf_map_update_elem(&ATTEMPTS, &cookie, &attempt, BPF_ANY))
		bpf_sock_ops_cb_flags_set(ctx, before | CALLBACKS);
}

static __always_inline struct attempt *attempt_of(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	return bpf_map_lookup_elem(&ATTEMPTS, &cookie);
}

static __always_inline void forget(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	bpf_map_delete_elem(&ATTEMPTS, &cookie);
}

/* Tells the daemon what came of an option; and the socket's owner, if it asked. */
static __always_inline void report(struct bpf_sock_ops *ctx, const struct attempt *attempt,
				   __u32 kind)
{
	struct learnt learnt = {
		.cookie = bpf_get_socket_cookie(ctx),
		.at = bpf_ktime_get_boot_ns(),
		.kind = kind,
		.attempt = *attempt,
	};
	const __u8 *data, *end;

	if (kind == LEARNT_ANSWERED) {
		data = (const __u8 *)(unsigned long)ctx->skb_data;
		end = (const __u8 *)(unsigned long)ctx->skb_data_end;
		for (int i = 0; i < OPTIONS; i += 4) {
			if (data + TCP_HEADER + i + 4 > end)
				break;
			*(__u32 *)(learnt.options + i) = *(const __u32 *)(data + TCP_HEADER + i);
			learnt.length = i + 4;
		}
		if (attempt->by_socket)
			bpf_map_update_elem(&ANSWERS, &learnt.cookie, &learnt, BPF_ANY);
	}
	if (bpf_ringbuf_output(&LEARNT, &learnt, sizeof(learnt), 0))
		tally(TALLY_LOST_EVENTS);
}

/* Only the first SYN has the option: what comes again may come for its sake. */
static __always_inline int is_first_syn(struct bpf_sock_ops *ctx, const struct attempt *attempt)
{
	return (ctx->skb_tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN && !attempt->written &&
	       !attempt->repeated;
}

/* Tells whether Hawser takes the connection with this SYN. A request has no address to go by here:
 * a listener for both families does not say which one it is of. */
static __always_inline int takes_bonds(struct bpf_sock_ops *ctx, const __u8 *syn,
				       const struct fronted *row)
{
	__u64 head;

	if (row->bonds != BONDS_DIVERTED)
		return row->bonds == BONDS_HERE;
	/* With a SYN cookie, the listener at the port gets the connection. */
	if (ctx->args[0] == BPF_WRITE_HDR_TCP_SYNACK_COOKIE)
		return 0;
	__builtin_memcpy(&head, syn, sizeof(head));
	return bpf_map_lookup_elem(&DIVERTED, &head) != 0;
}

/* Writes the answer to a fronted port's request, and returns its length; 0 if there is none. */
static __always_inline __u32 answer_of(struct bpf_sock_ops *ctx, __u8 *answer)
{
	__u8 syn[TCP_HEADER + OPTIONS_ROOM];
	__u32 port = ctx->local_port;
	const struct fronted *row;
	__u32 found = 0;
	long length;

	if (!announcing(ctx))
		return 0;
	row = bpf_map_lookup_elem(&FRONTED, &port);
	if (!row || !row->on)
		return 0;
	/* Of a SYN-ACK that is sent again the kernel has no SYN, so that one goes without. */
	length = bpf_getsockopt(ctx, IPPROTO_TCP, TCP_BPF_SYN, syn, sizeof(syn));
	if (length > TCP_HEADER && length <= TCP_HEADER + OPTIONS)
		found = answer_to(syn + TCP_HEADER, length - TCP_HEADER, row,
				  takes_bonds(ctx, syn, row), answer);
	if (!found)
		tally(TALLY_UNANSWERED);
	return found;
}

static __always_inline void on_length(struct bpf_sock_ops *ctx)
{
	__u8 answer[ANSWER_ROOM] = {};
	struct attempt *attempt;
	__u32 length;

	if (!ctx->is_fullsock) {
		length = answer_of(ctx, answer);
		if (length && bpf_reserve_hdr_opt(ctx, length, 0))
			tally(TALLY_NO_ROOM);
		return;
	}
	attempt = attempt_of(ctx);
	if (!attempt || !is_first_syn(ctx, attempt))
		return;
	if (bpf_reserve_hdr_opt(ctx, attempt->question[1], 0)) {
		tally(TALLY_NO_ROOM);
		leave_alone(ctx, attempt->callbacks);
		forget(ctx);
	}
}

static __always_inline void on_write(struct bpf_sock_ops *ctx)
{
	__u8 answer[ANSWER_ROOM] = {};
	struct attempt *attempt;

	if (!ctx->is_fullsock) {
		if (answer_of(ctx, answer) && !bpf_store_hdr_opt(ctx, answer, ANSWER_ROOM, 0))
			tally(TALLY_ANSWERED);
		return;
	}
	attempt = attempt_of(ctx);
	if (!attempt || !is_first_syn(ctx, attempt) ||
	    bpf_store_hdr_opt(ctx, attempt->question, QUESTION_ROOM, 0))
		return;
	attempt->written = 1;
	attempt->asked = bpf_jiffies64();
	tally(TALLY_ASKED);
	/* No later packet is asked about. */
	leave_alone(ctx, attempt->callbacks & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* Tells whether the timer has run shorter than it was set to. The kernel shortens it where the
 * answer to a SYN acknowledges something else: the server still knows an older connection with the
 * same ports (RFC 9293 §3.5.1, half-open connections), which our reset has ended by now. */
static __always_inline int is_hastened(struct bpf_sock_ops *ctx, const struct attempt *attempt)
{
	__u32 waited = (__u32)bpf_jiffies64() - attempt->asked;

	/* What is written and when its timer is set may fall into two ticks. */
	return waited + 2 < ctx->args[1];
}

static __always_inline void on_timeout(struct bpf_sock_ops *ctx)
{
	struct attempt *attempt;

	if (ctx->state != BPF_TCP_SYN_SENT)
		return;
	attempt = attempt_of(ctx);
	if (!attempt || attempt->repeated)
		return;
	if (attempt->written && !attempt->rejected && is_hastened(ctx, attempt)) {
		/* Something has come, so the option has not kept it away. */
		attempt->rejected = 1;
		attempt->written = 0;
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
						       (attempt->callbacks &
							BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG));
		return;
	}
	attempt->repeated = 1;
	if (attempt->written)
		report(ctx, attempt, LEARNT_REPEATED);
	leave_alone(ctx, attempt->callbacks);
}

static __always_inline void on_established(struct bpf_sock_ops *ctx)
{
	struct attempt *attempt = attempt_of(ctx);

	if (!attempt)
		return;
	if (attempt->written)
		report(ctx, attempt, LEARNT_ANSWERED);
	leave_alone(ctx, attempt->callbacks);
	forget(ctx);
}

static __always_inline void on_listen(struct bpf_sock_ops *ctx)
{
	__u64 cookie = bpf_get_socket_cookie(ctx);
	__u32 port = ctx->local_port;

	if (announcing(ctx) && (bpf_map_lookup_elem(&FRONTED, &port) ||
				bpf_map_lookup_elem(&LISTENING, &cookie)))
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags |
						       BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

/* An accepted socket has the listener's callbacks. */
static __always_inline void on_accepted(struct bpf_sock_ops *ctx)
{
	__u32 port = ctx->local_port;

	if ((ctx->bpf_sock_ops_cb_flags & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG) &&
	    announcing(ctx) && bpf_map_lookup_elem(&FRONTED, &port))
		leave_alone(ctx, BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG);
}

SEC("sockops")
int handshake(struct bpf_sock_ops *ctx)
{
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		on_connect(ctx);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		on_length(ctx);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		on_write(ctx);
		break;
	case BPF_SOCK_OPS_RTO_CB:
		on_timeout(ctx);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
		on_established(ctx);
		break;
	case BPF_SOCK_OPS_TCP_LISTEN_CB:
		on_listen(ctx);
		break;
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		on_accepted(ctx);
		break;
	}
	return 1;
}

/* A SYN, as far as it matters here. */
struct syn {
	struct bpf_sock_tuple names; /* addresses as in the packet */
	__u64 head;                  /* the first bytes of `tcp` */
	__u8 tcp[TCP_HEADER];
	__u8 options[OPTIONS_ROOM];
	__u32 ipv6;
	__u32 end; /* of the options */
};

/* Reads the IP header; returns its length, 0 if the packet is no whole segment of TCP. Extension
 * headers of IPv6 are not looked behind. */
static __always_inline __u32 read_ip(struct __sk_buff *packet, struct syn *syn)
{
	__u8 ip[IPV6_HEADER];

	if (packet->protocol == bpf_htons(ETH_P_IP)) {
		if (bpf_skb_load_bytes_relative(packet, 0, ip, IPV4_HEADER, BPF_HDR_START_NET) ||
		    ip[9] != IPPROTO_TCP || (ip[6] & 0x3f) || ip[7])
			return 0;
		__builtin_memcpy(&syn->names.ipv4.saddr, ip + 12, 4);
		__builtin_memcpy(&syn->names.ipv4.daddr, ip + 16, 4);
		return (ip[0] & 15) * 4;
	}
	if (packet->protocol != bpf_htons(ETH_P_IPV6) ||
	    bpf_skb_load_bytes_relative(packet, 0, ip, IPV6_HEADER, BPF_HDR_START_NET) ||
	    ip[6] != IPPROTO_TCP)
		return 0;
	__builtin_memcpy(syn->names.ipv6.saddr, ip + 8, 16);
	__builtin_memcpy(syn->names.ipv6.daddr, ip + 24, 16);
	syn->ipv6 = 1;
	return IPV6_HEADER;
}

/* Reads a packet; returns 1 if it is a SYN with options. */
static __always_inline int read_syn(struct __sk_buff *packet, struct syn *syn)
{
	__u32 header = read_ip(packet, syn), end;

	if (!header ||
	    bpf_skb_load_bytes_relative(packet, header, syn->tcp, TCP_HEADER, BPF_HDR_START_NET) ||
	    (syn->tcp[13] & (TCP_SYN | TCP_ACK)) != TCP_SYN)
		return 0;
	__builtin_memcpy(&syn->head, syn->tcp, sizeof(syn->head));
	end = (syn->tcp[12] >> 4) * 4;
	if (end <= TCP_HEADER)
		return 0;
	end -= TCP_HEADER;
	KNOWN(end);
	if (end < 1)
		return 0;
	KNOWN(end);
	if (end > OPTIONS)
		return 0;
	syn->end = end;
	return !bpf_skb_load_bytes_relative(packet, header + TCP_HEADER, syn->options, end,
					    BPF_HDR_START_NET);
}

/* Tells whether the packet is for this host, and not for one behind it. Neither the kind of frame
 * nor the kernel's routes tell: hosts behind a bridge, and those that share a link's address of
 * Ethernet, have frames of the same kind; and routes are only told where the kernel forwards.
 *
 * A packet with the tag of a VLAN comes again at the device of that VLAN, which may be another
 * namespace's. */
static __always_inline int is_ours(struct __sk_buff *packet, const struct syn *syn)
{
	struct own own = {};

	if (packet->pkt_type != PACKET_HOST || packet->vlan_present)
		return 0;
	if (syn->ipv6) {
		__builtin_memcpy(own.address, syn->names.ipv6.daddr, 16);
	} else {
		own.address[10] = 0xff;
		own.address[11] = 0xff;
		__builtin_memcpy(own.address + 12, &syn->names.ipv4.daddr, 4);
	}
	return bpf_map_lookup_elem(&OWN, &own) != 0;
}

/* Tells whether the connection is there already, so that this SYN is one that was sent again. */
static __always_inline int is_repeated(struct __sk_buff *packet, struct syn *syn)
{
	struct bpf_sock *sk;
	__u32 state;

	if (syn->ipv6) {
		__builtin_memcpy(&syn->names.ipv6.sport, syn->tcp, 4);
		sk = bpf_skc_lookup_tcp(packet, &syn->names, sizeof(syn->names.ipv6),
					BPF_F_CURRENT_NETNS, 0);
	} else {
		__builtin_memcpy(&syn->names.ipv4.sport, syn->tcp, 4);
		sk = bpf_skc_lookup_tcp(packet, &syn->names, sizeof(syn->names.ipv4),
					BPF_F_CURRENT_NETNS, 0);
	}
	if (!sk)
		return 0;
	state = sk->state;
	bpf_sk_release(sk);
	return state != BPF_TCP_LISTEN;
}

/* Gives SYNs that want their connection bonded to Hawser's listener. Later packets find the
 * connection by themselves. Its name tells what a daemon that was killed has left. */
SEC("classifier")
int hawser_divert(struct __sk_buff *packet)
{
	__u8 answer[ANSWER_ROOM] = {};
	const struct fronted *row;
	struct bpf_sock *listener;
	struct syn syn = {};
	__u32 port, length, one = 1;

	if (!read_syn(packet, &syn))
		return NEXT;
	port = syn.tcp[2] << 8 | syn.tcp[3];
	row = bpf_map_lookup_elem(&FRONTED, &port);
	if (!row || !row->on || row->bonds != BONDS_DIVERTED || !is_ours(packet, &syn))
		return NEXT;
	length = answer_to(syn.options, syn.end, row, 1, answer);
	if (!is_bond(answer, length) || is_repeated(packet, &syn))
		return NEXT;
	listener = bpf_map_lookup_elem(&LISTENERS, &syn.ipv6);
	if (!listener)
		return NEXT;
	if (!bpf_map_update_elem(&DIVERTED, &syn.head, &one, BPF_ANY)) {
		if (bpf_sk_assign(packet, listener, 0))
			bpf_map_delete_elem(&DIVERTED, &syn.head);
		else
			tally(TALLY_DIVERTED);
	}
	bpf_sk_release(listener);
	return NEXT;
}

char LICENSE[] SEC("license") = "Apache-2.0 OR MIT";
