package assignor

// Range gives each subscriber of a topic a range of its partitions, in the order of members; ranges
// differ by one at most. Topics of as many partitions with the same subscribers are cut alike:
// whoever gets partition 3 of one gets that of the others too, so that they can be joined. It looks
// at nothing that was assigned before: who comes or goes shifts the ranges behind it.
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
