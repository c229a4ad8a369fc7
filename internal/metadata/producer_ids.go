package metadata

// ProducerIDsAhead is how many producer ids a broker may allocate between two registrations: a
// million a second for three days.
const ProducerIDsAhead = 1 << 38

// NextProducerIDs returns the bound that a store records when a broker registers, given the
// recorded bound (0: none) and the directory of the disk for which it was recorded. For another
// disk, or one whose record of allocated ids is damaged, the bound grows by ProducerIDsAhead: a
// broker with such a disk knows of no allocated id, and may allocate the ProducerIDsAhead ids below
// the new bound.
func NextProducerIDs(bound int64, directory string, self Broker) int64 {
	if (directory != self.Directory || self.ProducerIDsLost) && bound > 0 {
		bound += ProducerIDsAhead
	}
	return max(bound, self.ProducerIDs)
}
