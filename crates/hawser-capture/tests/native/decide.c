/* Decides what it is asked on its input, for the test that compares the answers. */
#include <stdio.h>

#include "../../bpf/decide.h"

int main(void)
{
	unsigned long long fresh, policy, class, up, down, count;
	struct turns turns = {};
	struct costs costs;

	while (scanf("%llu %llu %llu %llu %llu %llu", &fresh, &policy, &class, &up, &down,
		     &count) == 6) {
		struct demand demand = { up, down };
		struct links links = {};
		struct loads loads = {};
		__u32 among = 0;

		if (fresh)
			turns = (struct turns){};
		for (; count; count--) {
			unsigned long long place, index, up, down, latency;
			unsigned long long load_up, load_down, open, may;

			if (scanf("%llu %llu %llu %llu %llu %llu %llu %llu %llu", &place, &index,
				  &up, &down, &latency, &load_up, &load_down, &open, &may) != 9)
				return 1;
			links.at[place] = (struct link){
				.up = up, .down = down, .latency = latency, .index = index
			};
			loads.at[place] = (struct load){
				.up = load_up, .down = load_down, .connections = open
			};
			among |= may << place;
		}
		struct choice choice =
			choose(policy, class, &demand, &links, &loads, &turns, &costs, among);
		printf("%d %u\n", choice.place == NOBODY ? 0 : links.at[choice.place].index,
		       choice.reason);
	}
	for (int port = 0; port < 65536; port++)
		printf("%u\n", port_class(port));
	return 0;
}
