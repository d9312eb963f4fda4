/* What the program in the kernel and the user's side share. `src/tables.rs` has the same again; the
 * test `layout` compares them.
 *
 * Addresses are 16 bytes in network order, IPv4 mapped into IPv6 (RFC 4291 §2.5.5.2). Ports are in
 * host order. Times are nanoseconds of the monotonic clock, rates bytes a second. */
#ifndef HAWSER_TABLES_H
#define HAWSER_TABLES_H

#include <linux/types.h>

#define MAX_LINKS 16
#define MAX_RULES 64
#define COMM_LENGTH 16
#define CLASSES 4
#define PORT_CLASSES 7

/* One link; a place in the table that has no link is all zeros. A link keeps its place. */
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

/* What is on a link. Charged and given back as connections come and go, corrected by the user's side. */
struct load {
	__u64 up;
	__u64 down;
	__u64 connections;
	__u64 real_time;
};

struct loads {
	struct load at[MAX_LINKS];
};

/* Whose turn it is. Races between processors only make turns uneven. */
struct turns {
	__s64 credit[MAX_LINKS];
	__u32 owner[MAX_LINKS]; /* the link that the credit is of */
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

struct settings {
	__u64 netns;        /* cookie of the network namespace that this is for */
	__u64 introduction; /* cookie of the socket by which the daemon shows its number; 0: none */
	struct demand demand[CLASSES]; /* where nothing is known of the program */
	__u32 redirect4;    /* where bonded connections go, network order; port 0: nowhere */
	__u32 redirect6[4];
	__u16 redirect4_port;
	__u16 redirect6_port;
	__u32 policy;
	__u32 auto_mode;    /* what MODE_AUTO means for destinations that are no peers */
	__u32 process;      /* the daemon's number, written by the program */
	__u32 unused;
};

#define RULE_ORDER 8

/* What a rule says; of what it says nothing the masks of `struct rules` tell. */
struct action {
	__u32 class;
	__u32 mode;
	__u32 avoid;  /* AVOID_ */
	__u32 links;  /* one bit for each place in the table of links; all 32: any link */
	__u8 order[RULE_ORDER]; /* places, the first that lives is taken; 0xff: no more */
};

#define AVOID_METERED 1u
#define AVOID_CALLS 2u
#define NO_PLACE 0xffu

/* Each mask has one bit for each rule, the lowest is asked first. For every field of a rule's condition
 * there is a mask of the rules that do not ask for it, and a way to find those that it fits. */
struct rules {
	__u64 protocol[2]; /* 0: TCP, 1: UDP; those that fit and those that do not ask */
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

/* Keys of tries: the longest prefix wins, so each value holds those of all shorter ones, too. */
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

/* What the user's side has found out of an application. */
struct application_key {
	char program[COMM_LENGTH];
	__u32 user;
};

struct application {
	__u64 program;    /* rules whose patterns for the name fit, those the trie can't hold */
	__u64 executable; /* rules that fit its file */
};

/* What is known of one socket, by its cookie. */
struct flow {
	struct demand demand; /* what its link was charged with */
	__u64 cgroup;
	__u64 began;
	__u64 established; /* 0: never */
	__u8 remote[16];   /* where the application wants to go */
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
	__u16 links;   /* one bit for each place: those that rules leave it, usable or not */
	__u8 dscp;
	__u8 any_link; /* 1: no rule names links */
	__u64 sent;     /* payload of datagrams; TCP counts its own */
	__u64 received;
};

/* What is left of a flow's demand, where the user's side has looked: its link is charged with that. */
struct remaining {
	__u64 up;
	__u64 down;
	__u64 connections; /* 0: idle */
};

#define FLOW_STARTED 1u  /* its SYN was about to be sent */
#define FLOW_ENDED 2u    /* given back and reported */
#define FLOW_RELEASED 4u /* the application has closed it */

struct origin_key {
	__u16 port; /* the redirected socket's own */
	__u16 ipv6;
};

/* Where a redirected connection was to go. */
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
#define COUNT_FULL 1u        /* no room for another flow; left alone */
#define COUNT_UNBOUND 2u     /* binding failed; connected as without Hawser */
#define COUNT_REFUSED 3u     /* the rules left no link */
#define COUNT_PLACED 4u      /* bound to a link, or redirected */
#define COUNTERS 5

#endif
