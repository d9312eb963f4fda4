/* Finds the TCP option of a SYN and answers it, as `hawser_wire::SynOption` would. The test
 * `answer` compiles this header for the host and compares both. */
#ifndef HAWSER_OPTION_H
#define HAWSER_OPTION_H

#include "compilers.h"
#include "discovery.h"

#define OPTION_END 0
#define OPTION_NO_OPERATION 1
#define OPTION_EXPERIMENT 254
#define PAPER_LENGTH 8
#define QUESTION_LENGTH 10
#define ANSWER_LENGTH 18
#define VERSION 0x10 /* in the upper half of its byte */
#define BOND 0x01

/* Keeps the compiler from joining what it knows of a value into one comparison, in which the
 * verifier would not find it again. */
#define KNOWN(value) asm volatile("" : "+r"(value))

static __always_inline int is_digit(__u8 byte)
{
	return byte >= '0' && byte <= '9';
}

/* Tells whether these eight bytes are an option in the paper's form (BATCP §3). */
static __always_inline int is_paper(const __u8 *option)
{
	for (int i = 2; i < PAPER_LENGTH; i++)
		if (!is_digit(option[i]))
			return 0;
	return option[2] != '0' || option[3] != '0';
}

/* Tells whether these ten bytes begin an option in binary form. */
static __always_inline int is_binary(const __u8 *option)
{
	return option[2] == 'H' && option[3] == 'W' && (option[4] & ~BOND) == VERSION &&
	       option[5] != 0;
}

static __always_inline __u32 answer_paper(const __u8 *option, const struct fronted *port,
					  int takes_bonds, __u8 *answer)
{
	if (!takes_bonds)
		return 0;
	__builtin_memcpy(answer, port->paper, PAPER_LENGTH);
	/* An echo must not look like an answer. */
	for (int i = 4; i < PAPER_LENGTH; i++)
		answer[i] = '0' + '9' - option[i];
	return PAPER_LENGTH;
}

static __always_inline __u32 answer_binary(const __u8 *option, const struct fronted *port,
					   int takes_bonds, __u8 *answer)
{
	__builtin_memcpy(answer, port->answer, ANSWER_LENGTH);
	if (takes_bonds)
		answer[4] |= option[4] & BOND;
	for (int i = 6; i < QUESTION_LENGTH; i++)
		answer[i] = option[i];
	return ANSWER_LENGTH;
}

/* Memory of a walk through options. The verifier does not know bytes that were written one by one,
 * other than at the beginning of a word. So it checks one step of the walk once for each turn of
 * the loop, and not once for each place that the turns before may have led to. */
union walk {
	__u64 all;
	volatile __u8 byte[8];
};

#define WALK_AT 3
#define WALK_END 5

/* Writes the answer to the first option that can be read among `options`, of which `end` bytes are
 * the header's, and the rest of OPTIONS_ROOM zeros. Returns its length; 0 if there is nothing to
 * answer. The answer accepts a bond if Hawser takes this connection. */
static __always_inline __u32 answer_to(const __u8 *options, __u32 end, const struct fronted *port,
				       int takes_bonds, __u8 *answer)
{
	union walk walk = {};

	/* The compiler must not take its bytes apart. */
	asm volatile("" : : "r"(&walk) : "memory");
	walk.byte[WALK_END] = end;
	ROLLED for (int i = 0; i < OPTIONS; i++) {
		__u32 at = walk.byte[WALK_AT], length;
		const __u8 *option;

		if (at >= OPTIONS)
			return 0;
		option = options + at;
		if (at >= walk.byte[WALK_END] || option[0] == OPTION_END)
			return 0;
		if (option[0] == OPTION_NO_OPERATION) {
			walk.byte[WALK_AT] = at + 1;
			continue;
		}
		length = option[1];
		if (length < 2 || at + length > walk.byte[WALK_END])
			return 0;
		walk.byte[WALK_AT] = at + length;
		if (option[0] != OPTION_EXPERIMENT)
			continue;
		if (length == PAPER_LENGTH && is_paper(option))
			return answer_paper(option, port, takes_bonds, answer);
		if (length == QUESTION_LENGTH && is_binary(option))
			return answer_binary(option, port, takes_bonds, answer);
		/* An answer asks nothing. */
		if (length == ANSWER_LENGTH && is_binary(option))
			return 0;
	}
	return 0;
}

/* Tells whether an answer of this length accepts a bond. */
static __always_inline int is_bond(const __u8 *answer, __u32 length)
{
	return length == PAPER_LENGTH || (length == ANSWER_LENGTH && (answer[4] & BOND));
}

#endif
