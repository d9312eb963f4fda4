/* How the programs declare their tables, for all objects. */
#ifndef HAWSER_MAPS_H
#define HAWSER_MAPS_H

#include <linux/bpf.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

/* Tables have no type information (BTF), so that every kernel and loader accepts them. */
struct bpf_map_def {
	__u32 type;
	__u32 key_size;
	__u32 value_size;
	__u32 max_entries;
	__u32 map_flags;
};

#define TABLE(name, kind, key, value, entries, flags)                                             \
	struct bpf_map_def SEC("maps") name = { kind, key, value, entries, flags }
#define SINGLE(name, value) TABLE(name, BPF_MAP_TYPE_ARRAY, 4, sizeof(value), 1, 0)
#define HASH(name, key, value, entries)                                                           \
	TABLE(name, BPF_MAP_TYPE_HASH, sizeof(key), sizeof(value), entries, BPF_F_NO_PREALLOC)
#define TRIE(name, key, entries)                                                                  \
	TABLE(name, BPF_MAP_TYPE_LPM_TRIE, sizeof(key), 8, entries, BPF_F_NO_PREALLOC)

/* Third word of an IPv4 address that is mapped into IPv6. */
#define MAPPED bpf_htonl(0xffff)

static __always_inline void *single(void *table)
{
	__u32 zero = 0;
	return bpf_map_lookup_elem(table, &zero);
}

#endif
