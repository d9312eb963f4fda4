/* Answers the SYNs whose options it is given on its input, for the test that compares the answers.
 * Each line has the port's answers in both forms, whether it takes bonds, and the options, in
 * hexadecimal. */
#include <stdio.h>
#include <string.h>

#include "../../bpf/option.h"

static __u32 bytes_of(const char *text, __u8 *bytes, __u32 room)
{
	__u32 length = 0;
	unsigned byte;

	for (; length < room && sscanf(text + 2 * length, "%2x", &byte) == 1; length++)
		bytes[length] = byte;
	return length;
}

int main(void)
{
	char binary[64], paper[32], options[128];
	int takes_bonds;

	while (scanf("%63s %31s %d %127s", binary, paper, &takes_bonds, options) == 4) {
		struct fronted port = {};
		__u8 header[OPTIONS_ROOM] = {}, answer[ANSWER_ROOM] = {};
		__u32 end, length;

		bytes_of(binary, port.answer, ANSWER_ROOM);
		bytes_of(paper, port.paper, PAPER_LENGTH);
		/* The first character only keeps an empty list from being no word. */
		end = bytes_of(options + 1, header, OPTIONS);
		length = answer_to(header, end, &port, takes_bonds, answer);
		printf("=");
		for (__u32 i = 0; i < length; i++)
			printf("%02x", answer[i]);
		printf("\n");
	}
	return 0;
}
