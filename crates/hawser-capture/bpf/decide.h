/* Which link a connection takes: the policies of hawser-sched/src/connection in whole numbers. The
 * test `decide` compiles this header for the machine it runs on and compares the two.
 *
 * Source: DBAS §II.D. */
#ifndef HAWSER_DECIDE_H
#define HAWSER_DECIDE_H

#include "tables.h"

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif

#ifdef __clang__
#define ROLLED _Pragma("nounroll")
#else
#define ROLLED
#endif

#define FALLBACK_RATE 1250000ull /* bytes a second */
#define MAX_LOAD 8000000000ull
#define MAX_SHARING 10000ull
#define MAX_WEIGHT 1000000000ull
#define SHORT 65536ull
#define NOBODY (-1)

/* Room to compare in: the kernel's stack is small. */
struct costs {
	__u64 at[MAX_LINKS];
};

struct choice {
	__s32 place; /* in the table of links, or NOBODY */
	__u32 reason;
};

static __always_inline __u64 saturating_add(__u64 a, __u64 b)
{
	__u64 sum = a + b;
	return sum < a ? ~0ull : sum;
}

/* At most MAX_LOAD, more makes no difference; without it the product has 128 bits, which the
 * kernel lacks. */
static __always_inline __u64 shared(__u64 bytes, __u64 share)
{
	return (bytes > MAX_LOAD ? MAX_LOAD : bytes) * share;
}

static __always_inline __u64 larger(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

static __always_inline __u64 time_for(__u64 bytes, __u64 rate)
{
	if (bytes > MAX_LOAD)
		bytes = MAX_LOAD;
	if (!rate)
		rate = FALLBACK_RATE;
	return bytes * 1000000000ull / rate;
}

static __always_inline __u64 time_to_finish(const struct demand *demand, const struct link *link,
					    const struct load *load)
{
	__u64 up = time_for(saturating_add(load->up, demand->up), link->up);
	__u64 down = time_for(saturating_add(load->down, demand->down), link->down);
	return larger(up, down);
}

static __always_inline __u64 time_to_answer(const struct demand *demand, const struct link *link,
					    const struct load *load)
{
	__u64 connections = load->connections;
	__u64 share = (connections > MAX_SHARING ? MAX_SHARING : connections) + 1;
	__u64 up = time_for(shared(demand->up, share), link->up);
	__u64 down = time_for(shared(demand->down, share), link->down);
	return saturating_add(saturating_add(link->latency, link->latency), larger(up, down));
}

static __always_inline int is_short(__u32 class, const struct demand *demand)
{
	if (class == CLASS_REAL_TIME)
		return 1;
	return class == CLASS_INTERACTIVE && larger(demand->up, demand->down) <= SHORT;
}

/* The links in `among` that answer about as soon as the first of them: within an eighth. */
static __always_inline __u32 answer_soon(const struct demand *demand, const struct links *links,
					 const struct loads *loads, struct costs *costs,
					 __u32 among)
{
	__u64 soonest = ~0ull;
	__u32 soon = 0;

	ROLLED for (int i = 0; i < MAX_LINKS; i++)
		costs->at[i] = time_to_answer(demand, &links->at[i], &loads->at[i]);
	ROLLED for (int i = 0; i < MAX_LINKS; i++)
		if ((among >> i & 1) && costs->at[i] < soonest)
			soonest = costs->at[i];
	soonest = saturating_add(soonest, soonest >> 3);
	ROLLED for (int i = 0; i < MAX_LINKS; i++)
		if (costs->at[i] <= soonest)
			soon |= 1u << i;
	return soon & among;
}

/* The one that finishes first, then the smallest latency, then the lowest index.
 *
 * First all costs, then the comparison: the verifier follows every way through a loop, and each loop
 * has few ways only if the other does the other half. */
static __always_inline struct choice finishes_first(const struct demand *demand,
						    const struct links *links,
						    const struct loads *loads,
						    struct costs *costs, __u32 among)
{
	struct choice best = { NOBODY, REASON_FINISHES_FIRST };
	__u64 best_cost = 0, best_latency = 0;
	__u32 best_index = 0;

	ROLLED for (int i = 0; i < MAX_LINKS; i++)
		costs->at[i] = time_to_finish(demand, &links->at[i], &loads->at[i]);
	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		const struct link *link = &links->at[i];
		if (!(among >> i & 1))
			continue;
		int better = best.place == NOBODY || costs->at[i] < best_cost;
		if (!better && costs->at[i] == best_cost)
			better = link->latency < best_latency ||
				 (link->latency == best_latency && link->index < best_index);
		if (better) {
			best.place = i;
			best_cost = costs->at[i];
			best_latency = link->latency;
			best_index = link->index;
		}
	}
	return best;
}

static __always_inline struct choice fastest(const struct links *links, __u32 among)
{
	struct choice best = { NOBODY, REASON_FASTEST };
	__u64 best_rate = 0;
	__u32 best_index = 0;

	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		const struct link *link = &links->at[i];
		if (!(among >> i & 1))
			continue;
		__u64 rate = saturating_add(link->down, link->up);
		if (best.place == NOBODY || rate > best_rate ||
		    (rate == best_rate && link->index < best_index)) {
			best.place = i;
			best_rate = rate;
			best_index = link->index;
		}
	}
	return best;
}

/* The lowest index above the last one's, or the lowest of all. */
static __always_inline struct choice next_in_turn(const struct links *links, struct turns *turns,
						  __u32 among)
{
	struct choice best = { NOBODY, REASON_TURN };
	__u32 best_index = 0;
	int best_is_after = 0;

	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		__u32 index = links->at[i].index;
		int is_after = index > turns->last;
		if (!(among >> i & 1))
			continue;
		if (best.place == NOBODY || is_after > best_is_after ||
		    (is_after == best_is_after && index < best_index)) {
			best.place = i;
			best_index = index;
			best_is_after = is_after;
		}
	}
	if (best.place != NOBODY)
		turns->last = best_index;
	return best;
}

static __always_inline __s64 weight_of(const struct demand *demand, const struct link *link)
{
	__u64 rate = demand->up > demand->down ? link->up : link->down;
	if (!rate)
		rate = FALLBACK_RATE;
	rate /= 125;
	if (rate < 1)
		rate = 1;
	return rate > MAX_WEIGHT ? MAX_WEIGHT : rate;
}

static __always_inline struct choice weighted_turn(const struct demand *demand,
						   const struct links *links, struct turns *turns,
						   __u32 among)
{
	struct choice best = { NOBODY, REASON_TURN };
	__s64 best_credit = 0, total = 0;
	__u32 best_index = 0;

	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		const struct link *link = &links->at[i];
		__s64 weight = among >> i & 1 ? weight_of(demand, link) : 0;
		__s64 credit = weight && turns->owner[i] == link->index ? turns->credit[i] : 0;
		turns->owner[i] = link->index;
		turns->credit[i] = credit + weight;
		total += weight;
	}
	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		__s64 credit = turns->credit[i];
		__u32 index = links->at[i].index;
		if (!(among >> i & 1))
			continue;
		if (best.place == NOBODY || credit > best_credit ||
		    (credit == best_credit && index < best_index)) {
			best.place = i;
			best_credit = credit;
			best_index = index;
		}
	}
	if (best.place != NOBODY)
		turns->credit[best.place] -= total;
	return best;
}

/* Which of the links in the mask `among` the connection takes. */
static __always_inline struct choice choose(__u32 policy, __u32 class, const struct demand *demand,
					    const struct links *links, const struct loads *loads,
					    struct turns *turns, struct costs *costs, __u32 among)
{
	if (policy == POLICY_ONLY_ONE)
		return fastest(links, among);
	if (policy == POLICY_ROUND_ROBIN)
		return next_in_turn(links, turns, among);
	if (policy == POLICY_WEIGHTED)
		return weighted_turn(demand, links, turns, among);
	int answers = policy == POLICY_AUTO && is_short(class, demand);
	if (answers)
		among = answer_soon(demand, links, loads, costs, among);
	struct choice best = finishes_first(demand, links, loads, costs, among);
	if (answers)
		best.reason = REASON_ANSWERS_FIRST;
	return best;
}

/* Ports that are used alike, as hawser-path/src/demand.rs has them. */
static __always_inline __u32 port_class(__u32 port)
{
	if (port == 80 || port == 443 || port == 8000 || port == 8008 || port == 8080 ||
	    port == 8443 || port == 8888)
		return 0;
	if (port == 25 || port == 110 || port == 143 || port == 465 || port == 587 || port == 993 ||
	    port == 995)
		return 1;
	if (port == 22 || port == 23 || port == 3389 || (port >= 5900 && port <= 5909))
		return 2;
	if (port == 53 || port == 853)
		return 3;
	if (port < 1024)
		return 4;
	return port < 49152 ? 5 : 6;
}

#endif
