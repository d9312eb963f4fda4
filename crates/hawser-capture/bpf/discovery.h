/* Types that the programs of discovery.c share with the daemon. `src/tables.rs` declares the same
 * types; the test `layout` compares them. Addresses, ports and times are as in tables.h. */
#ifndef HAWSER_DISCOVERY_H
#define HAWSER_DISCOVERY_H

#include "tables.h"

/* Option of a SYN, and of its answer, with room for padding. */
#define QUESTION_ROOM 12
#define ANSWER_ROOM 20
/* Options of the longest TCP header; and these with zeros behind, so that an option that begins
 * anywhere can be read to its end. */
#define OPTIONS 40
#define OPTIONS_ROOM (OPTIONS + ANSWER_ROOM)

/* What a SYN says: that bonding is there; that this connection wants it; the same in the paper's
 * form. */
#define OFFER_NONE 0u
#define OFFER_THERE 1u
#define OFFER_BOND 2u
#define OFFER_PAPER 3u
#define OFFERS 4

struct announcing {
	__u64 netns;      /* cookie of the network namespace whose sockets announce and answer */
	__u32 everywhere; /* OFFER_ in SYNs to destinations that no table names */
	__u32 unused;
	__u8 question[OFFERS][QUESTION_ROOM]; /* each with its connection's number left out */
};

/* A destination on a link to which no option is sent. Address 0: any, link 0: no link. */
struct avoided_key {
	__u8 remote[16];
	__u32 link;
};

/* An address of this host. */
struct own {
	__u8 address[16];
};

/* A port whose service can be reached over all links. */
struct fronted {
	__u8 answer[ANSWER_ROOM]; /* binary form; the SYN's connection is put in */
	__u8 paper[8];
	__u32 bonds; /* BONDS_ */
	__u32 on;    /* 0: no longer; its listener's callbacks are still switched on and off */
};

/* What becomes of SYNs that want their connection bonded. */
#define BONDS_NONE 0u     /* they go to the service, as all others do */
#define BONDS_HERE 1u     /* Hawser itself listens on the port */
#define BONDS_DIVERTED 2u /* Hawser's own listener, LISTENERS, gets them */

/* A connection whose SYN carries the option, by its socket's cookie. */
struct attempt {
	__u8 remote[16];
	__u8 question[QUESTION_ROOM];
	__u32 callbacks; /* those that were switched on for it */
	__u32 link;      /* index of the device that it is bound to; 0: none */
	__u32 written;   /* 1: the SYN has left with the option */
	__u32 repeated;  /* 1: nothing came in time, and the SYN went again without it */
	__u32 asked;     /* when that was, in jiffies */
	__u32 rejected;  /* 1: the server knew an older connection; the SYN goes again with it */
	__u16 port;
	__u16 by_socket; /* 1: the socket itself was to say this, so its answer is kept for it */
};

#define LEARNT_ANSWERED 0u /* the SYN-ACK came, with these options */
#define LEARNT_REPEATED 1u /* the SYN is about to be sent again */

struct learnt {
	__u64 cookie;
	__u64 at; /* by the clock that goes on while the machine is suspended */
	__u32 kind;
	__u32 length; /* of the options */
	__u8 options[OPTIONS];
	struct attempt attempt;
};

/* Counters, one array for each processor. */
#define TALLY_LOST_EVENTS 0u /* the ring was full */
#define TALLY_ASKED 1u       /* SYNs that left with the option */
#define TALLY_NO_ROOM 2u     /* SYNs and SYN-ACKs whose other options left no room */
#define TALLY_ANSWERED 3u    /* SYN-ACKs that answered the option */
#define TALLY_UNANSWERED 4u  /* SYN-ACKs of fronted ports that answered none */
#define TALLY_DIVERTED 5u    /* SYNs that were given to Hawser's listener */
#define TALLIES 6

#endif
