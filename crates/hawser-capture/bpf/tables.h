/* Types that the programs in the kernel share with the daemon. `src/tables.rs` declares the same
 * types; the test `layout` compares them.
 *
 * Addresses are 16 bytes in network order, IPv4 mapped into IPv6 (RFC 4291 §2.5.5.2). Ports are in
 * host order. Times are nanoseconds of the monotonic clock; rates are bytes per second. */
#ifndef HAWSER_TABLES_H
#define HAWSER_TABLES_H

#include <linux/types.h>

#define MAX_LINKS 16
#define MAX_RULES 64
#define COMM_LENGTH 16
#define CLASSES 4
#define PORT_CLASSES 7

/* One link. Places of the table without a link are all zeros. A link keeps its place. */
struct link {
	__u64 up;
	__u64 down;
	__u64 latency;
	char name[16];
	__u32 index;
	__u32 unused;
};

/* The masks have one bit for each place. */
struct links {
	struct link at[MAX_LINKS];
	__u32 ipv4; /* those that new connections may take, to IPv4 addresses */
	__u32 ipv6;
	__u32 metered;
	__u32 unused;
};

/* Load of a link. Connections are charged when they begin and given back when they end; the daemon
 * corrects the sum. */
struct load {
	__u64 up;
	__u64 down;
	__u64 connections;
	__u64 real_time;
};

struct loads {
	struct load at[MAX_LINKS];
};

/* State of policies that take turns. Races between processors only make turns uneven. */
struct turns {
	__s64 credit[MAX_LINKS];
	__u32 owner[MAX_LINKS]; /* the link that has the credit */
	__u32 last;             /* the link that had the last turn */
	__u32 unused;
};

struct demand {
	__u64 up;
	__u64 down;
};

struct demand_key {
	char program[COMM_LENGTH];
	__u32 port_class;
};

#define POLICY_ONLY_ONE 0u
#define POLICY_ROUND_ROBIN 1u
#define POLICY_WEIGHTED 2u
#define POLICY_MAX_THROUGHPUT 3u
#define POLICY_AUTO 4u

#define CLASS_REAL_TIME 0u
#define CLASS_INTERACTIVE 1u
#define CLASS_BULK 2u
#define CLASS_UNKNOWN 3u

#define REASON_FASTEST 0u
#define REASON_TURN 1u
#define REASON_FINISHES_FIRST 2u
#define REASON_ANSWERS_FIRST 3u

#define MODE_AUTO 0u
#define MODE_DIRECT 1u
#define MODE_BONDED 2u
#define MODE_PACKET 3u

/* Families in `settings.packets`. */
#define PACKETS_IPV4 1u
#define PACKETS_IPV6 2u

struct settings {
	__u64 netns;        /* cookie of the network namespace with captured sockets */
	__u64 introduction; /* cookie of the socket that identifies the daemon; 0: none */
	struct demand demand[CLASSES]; /* of programs with unknown demand, by class */
	__u32 redirect4;    /* address for bonded connections, network order; port 0: none */
	__u32 redirect6[4];
	__u16 redirect4_port;
	__u16 redirect6_port;
	__u32 policy;
	__u32 auto_mode;    /* meaning of MODE_AUTO for destinations that are no peers */
	__u32 process;      /* the daemon's process number, written by the program */
	__u32 packets;      /* PACKETS_: families that the machine's routes lead to a tunnel */
	__u32 mark;         /* of sockets that are bound to links; 0: none */
	__u32 held;         /* 1: some destinations are held */
};

#define RULE_ORDER 8

/* Action of a rule. The masks `sets_…` of `struct rules` tell which fields the rule sets. */
struct action {
	__u32 class;
	__u32 mode;
	__u32 avoid;  /* AVOID_ */
	__u32 links;  /* one bit for each place in the table of links; all 32: any link */
	__u8 order[RULE_ORDER]; /* places; the first usable one is taken; 0xff: no more */
};

#define AVOID_METERED 1u
#define AVOID_CALLS 2u
#define NO_PLACE 0xffu

/* Each mask has one bit for each rule; the lowest bit is the first rule. For every field of a
 * condition there is a mask of the rules without that condition, and a table of the rules that each
 * value fits. */
struct rules {
	__u64 protocol[2]; /* 0: TCP, 1: UDP; rules that fit, and rules without the condition */
	__u64 dscp[64];    /* likewise */
	__u64 class[CLASSES];
	__u64 class_free;
	__u64 program_free;
	__u64 executable_free;
	__u64 user_free;
	__u64 cgroup_free;
	__u64 address_free;
	__u64 port_free;
	__u64 sets_class;
	__u64 sets_links;
	__u64 sets_avoid;
	__u64 sets_mode;
	struct action at[MAX_RULES];
};

/* Keys of tries. A lookup finds only the longest prefix, so its value includes those of all shorter
 * prefixes. */
struct address_key {
	__u32 bits;
	__u8 address[16];
};

struct port_key {
	__u32 bits;
	__u8 port[4]; /* network order, then zeros */
};

struct program_key {
	__u32 bits;
	char program[COMM_LENGTH];
};

/* Rules that fit an application, as the daemon has found out. */
struct application_key {
	char program[COMM_LENGTH];
	__u32 user;
};

struct application {
	__u64 program;    /* by name, for patterns that the trie cannot hold */
	__u64 executable; /* by executable */
};

/* State of one socket, by its cookie. */
struct flow {
	struct demand demand; /* charged to its link */
	__u64 cgroup;
	__u64 began;
	__u64 established; /* 0: never */
	__u8 remote[16];   /* destination that the application asked for */
	char program[COMM_LENGTH];
	__u32 process;
	__u32 user;
	__u32 link;  /* its index; 0: redirected */
	__u32 place; /* in the table of links */
	__u32 state; /* FLOW_ */
	__u16 port;
	__u16 local_port;
	__u8 class;
	__u8 reason;
	__u8 protocol; /* IPPROTO_ */
	__u8 redirected;
	__u16 links;   /* one bit for each place that the rules allow, usable or not */
	__u8 dscp;
	__u8 any_link; /* 1: no rule names links */
	__u64 sent;     /* payload of datagrams; TCP counts its own */
	__u64 received;
};

/* The rest of a flow's demand, which is charged to its link once the daemon has updated it. */
struct remaining {
	__u64 up;
	__u64 down;
	__u64 connections; /* 0: idle */
};

#define FLOW_STARTED 1u  /* its SYN was about to be sent */
#define FLOW_ENDED 2u    /* its load was given back, and its end reported */
#define FLOW_RELEASED 4u /* the application has closed it */

struct origin_key {
	__u16 port; /* the redirected socket's own */
	__u16 ipv6;
};

/* Original destination of a redirected connection. */
struct origin {
	__u8 remote[16];
	__u64 cookie;
	__u32 process;
	__u32 user;
	char program[COMM_LENGTH];
	__u16 port;
	__u8 dscp;
	__u8 unused[5];
};

struct peer_key {
	__u8 remote[16];
	__u32 port; /* 0: any */
};

/* What there is at a destination. */
#define PEER_NONE 0u
#define PEER_BONDED 1u /* connections may go over a session */
#define PEER_HELD 2u   /* they go by the daemon or nowhere, but for the user's own rules */

/* Values in the table of destinations that the machine's routes lead to. */
#define LOCAL_NOW 1u    /* held ones are not among them */
#define LOCAL_ALWAYS 2u /* this host, link-local and multicast */

/* A name server of this machine, for which a port of the daemon's on loopback answers. */
struct name_server {
	__u8 address[16];
};

struct name_port {
	__u16 port;
	__u16 ipv6;
};

#define EVENT_CONNECTED 0u
#define EVENT_ENDED 1u
#define EVENT_REFUSED 2u

struct event {
	__u64 cookie;
	__u64 at;
	__u64 up;   /* acknowledged; of datagrams, sent */
	__u64 down; /* received */
	__u32 kind;
	__u32 latency; /* smoothed round-trip time in microseconds; 0: none */
	struct flow flow;
};

/* Counters, one array for each processor. */
#define COUNT_LOST_EVENTS 0u /* the ring was full */
#define COUNT_FULL 1u        /* no room for another flow, which was not captured */
#define COUNT_UNBOUND 2u     /* binding failed; connected as without Hawser */
#define COUNT_REFUSED 3u     /* the rules left no link, or it is held */
#define COUNT_PLACED 4u      /* bound to a link, or redirected */
#define COUNTERS 5

#endif
