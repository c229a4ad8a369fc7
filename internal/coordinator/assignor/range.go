package assignor

// Range assigns each subscriber of a topic a contiguous range of the topic's partitions, in the
// order of the function ordered. The sizes of the ranges differ by at most one.
//
// Topics with the same subscribers and number of partitions get the same ranges, so that a member
// can join the records of these topics. Range ignores the previous assignment: if a member joins or
// leaves, the ranges of all members behind it move.
func Range(members []Member, topics map[TopicID]int) map[string]Assignment {
	members = ordered(members)
	assigned := make(map[string]Assignment, len(members))
	for i := range members {
		assigned[members[i].ID] = Assignment{}
	}
	for topic, of := range subscribers(members, topics) {
		next := 0
		for i, at := range of {
			size := topics[topic] / len(of)
			if i < topics[topic]%len(of) {
				size++
			}
			for ; size > 0; size-- {
				id := members[at].ID
				assigned[id][topic] = append(assigned[id][topic], int32(next))
				next++
			}
		}
	}
	return assigned
}
