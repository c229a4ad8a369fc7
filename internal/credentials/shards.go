package credentials

import (
	"maps"
	"slices"
)

// ShardUsers is the maximum number of users in a shard. A user has up to four verifiers, which take
// about 1.1 KB; a Secret can hold 1 MiB.
const ShardUsers = 750

// Shards assigns each user to a shard. A user stays in its current shard, so changing one user
// changes only one Secret. A new user is assigned to the first shard with space. Shards without
// users remain, so that the numbers have no gaps.
func Shards(present map[string]int, users []string) map[string]int {
	assigned, sizes := map[string]int{}, map[int]int{}
	for _, user := range slices.Sorted(slices.Values(users)) {
		if shard, ok := present[user]; ok && sizes[shard] < ShardUsers {
			assigned[user] = shard
			sizes[shard]++
		}
	}
	first := 0
	for _, user := range slices.Sorted(slices.Values(users)) {
		if _, ok := assigned[user]; ok {
			continue
		}
		for sizes[first] >= ShardUsers {
			first++
		}
		assigned[user] = first
		sizes[first]++
	}
	return assigned
}

// ShardCount returns the number of shards in an assignment, at least 1.
func ShardCount(assigned map[string]int) int {
	last := 0
	for shard := range maps.Values(assigned) {
		last = max(last, shard)
	}
	return last + 1
}
