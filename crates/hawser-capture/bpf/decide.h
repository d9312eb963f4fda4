/* Choice of the link of a connection: the policies of hawser-sched/src/connection in whole numbers.
 * The test `decide` compiles this header for the host and compares both.
 *
 * Source: DBAS §II.D. */
#ifndef HAWSER_DECIDE_H
#define HAWSER_DECIDE_H

#include "compilers.h"
#include "tables.h"

#define FALLBACK_RATE 1250000ull /* bytes per second */
#define MAX_LOAD 8000000000ull
#define MAX_SHARING 10000ull
#define MAX_WEIGHT 1000000000ull
#define SHORT 65536ull
#define NOBODY (-1)

struct choice {
	__s32 place; /* in the table of links, or NOBODY */
	__u32 reason;
};

/* Memory for comparisons: the kernel's stack is small. */
struct costs {
	__u64 at[MAX_LINKS];
	__s64 price;
	__u32 policy;
	__u32 place;
	__u32 reason;
	__u32 unused;
};

/* Returns the value by way of memory, so that the verifier does not know it. It then checks the
 * code that follows once, and not once for each value. */
static __always_inline __u32 forgotten(volatile __u32 *memory, __u32 value)
{
	*memory = value;
	return *memory;
}

static __always_inline __u64 saturating_add(__u64 a, __u64 b)
{
	__u64 sum = a + b;
	return sum < a ? ~0ull : sum;
}

/* Multiplies at most MAX_LOAD bytes, so that the product fits 64 bits: the kernel has no 128-bit
 * numbers. */
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

/* Returns the links in `among` whose answers take at most an eighth longer than the fastest. */
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
	/* Without branches, since the verifier would follow every combination of links. The highest
	 * bit of a time is never set; that of the difference is set if it is negative. */
	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		__u64 spare = soonest - costs->at[i];
		asm volatile("" : "+r"(spare));
		soon |= (__u32)(~spare >> 63) << i;
	}
	return soon & among;
}

/* Sets the cost of each link by its rate; the smallest cost is best. */
static __always_inline void rate_costs(const struct links *links, struct costs *costs)
{
	ROLLED for (int i = 0; i < MAX_LINKS; i++)
		costs->at[i] = ~saturating_add(links->at[i].down, links->at[i].up);
}

/* Sets costs by turns: indices above that of the link with the last turn come first, then all
 * others. */
static __always_inline void turn_costs(const struct links *links, const struct turns *turns,
				       struct costs *costs)
{
	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		__u64 index = links->at[i].index;
		__u64 is_after = (turns->last - index) >> 63;
		costs->at[i] = index | (1 - is_after) << 32;
	}
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

/* Sets costs by weighted turns. Returns the credit that the chosen link has to pay. */
static __always_inline __s64 weighted_costs(const struct demand *demand, const struct links *links,
					    struct turns *turns, struct costs *costs, __u32 among)
{
	__s64 total = 0;
	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		const struct link *link = &links->at[i];
		__s64 weight = among >> i & 1 ? weight_of(demand, link) : 0;
		__s64 credit = weight && turns->owner[i] == link->index ? turns->credit[i] : 0;
		turns->owner[i] = link->index;
		turns->credit[i] = credit + weight;
		costs->at[i] = ~((__u64)(credit + weight) + (1ull << 63));
		total += weight;
	}
	return total;
}

static __always_inline void finish_costs(const struct demand *demand, const struct links *links,
					 const struct loads *loads, struct costs *costs)
{
	ROLLED for (int i = 0; i < MAX_LINKS; i++)
		costs->at[i] = time_to_finish(demand, &links->at[i], &loads->at[i]);
}

/* Returns the place with the smallest cost; of equal ones that with the smallest latency, if that
 * counts, and then with the lowest index.
 *
 * All costs are calculated before, in a loop of their own: the verifier follows every path through
 * a loop, and two simple loops have fewer paths than one. */
static __always_inline __s32 cheapest(const struct links *links, const struct costs *costs,
				      __u32 among, int by_latency)
{
	__u64 best_cost = 0, best_latency = 0;
	__u32 best_index = 0;
	__s32 best = NOBODY;

	ROLLED for (int i = 0; i < MAX_LINKS; i++) {
		__u64 cost = costs->at[i], latency = by_latency ? links->at[i].latency : 0;
		__u32 index = links->at[i].index;
		if (!(among >> i & 1))
			continue;
		if (best != NOBODY && (cost > best_cost || (cost == best_cost &&
		    (latency > best_latency || (latency == best_latency && index > best_index)))))
			continue;
		best = i;
		best_cost = cost;
		best_latency = latency;
		best_index = index;
	}
	return best;
}

/* Chooses one of the links in the mask `among` for the connection. */
static __always_inline struct choice choose(__u32 policy, __u32 class, const struct demand *demand,
					    const struct links *links, const struct loads *loads,
					    struct turns *turns, struct costs *costs, __u32 among)
{
	struct choice choice = { NOBODY, REASON_FINISHES_FIRST };
	volatile __s64 *price = &costs->price;

	if (policy == POLICY_ONLY_ONE) {
		rate_costs(links, costs);
		choice.reason = REASON_FASTEST;
	} else if (policy == POLICY_ROUND_ROBIN) {
		turn_costs(links, turns, costs);
		choice.reason = REASON_TURN;
	} else if (policy == POLICY_WEIGHTED) {
		*price = weighted_costs(demand, links, turns, costs, among);
		choice.reason = REASON_TURN;
	} else {
		if (policy == POLICY_AUTO && is_short(class, demand)) {
			among = answer_soon(demand, links, loads, costs, among);
			choice.reason = REASON_ANSWERS_FIRST;
		}
		finish_costs(demand, links, loads, costs);
	}
	choice.reason = forgotten(&costs->reason, choice.reason);
	policy = forgotten(&costs->policy, policy);
	choice.place = cheapest(links, costs, among, policy >= POLICY_MAX_THROUGHPUT);
	if (choice.place < 0)
		return choice;
	if (policy == POLICY_ROUND_ROBIN)
		turns->last = links->at[choice.place].index;
	if (policy == POLICY_WEIGHTED)
		turns->credit[choice.place] -= *price;
	return choice;
}

/* Returns the class of a port, as hawser-sched/src/demand.rs defines it. */
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
