package assignor

// Range assigns each subscriber of a topic a contiguous range of the topic's partitions. The
// subscribers are in the order that ordered returns. The sizes of the ranges differ by at most one.
//
// Topics with the same subscribers and the same number of partitions are divided into the same
// ranges, so that a member can join the records of these topics. Range ignores the previous
// assignment: if a member joins or leaves, the ranges of all members after it move.
func Range(members []Member, topics map[TopicID]int) map[string]Assignment {
	members = ordered(members)
	assigned := make(map[string]Assignment, len(members))
	for i := range members {
		assigned[members[i].ID] = Assignment{}
	}
	for topic, subscribed := range subscribers(members, topics) {
		next := 0
		for i, index := range subscribed {
			size := topics[topic] / len(subscribed)
			if i < topics[topic]%len(subscribed) {
				size++
			}
			for ; size > 0; size-- {
				id := members[index].ID
				assigned[id][topic] = append(assigned[id][topic], int32(next))
				next++
			}
		}
	}
	return assigned
}
