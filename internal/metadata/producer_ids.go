package metadata

// ProducerIDsAhead is the number of producer ids that a broker may allocate between two
// registrations: a million a second for three days.
const ProducerIDsAhead = 1 << 38

// NextProducerIDs returns the bound (Broker.ProducerIDs) that a store keeps after the registration
// of self. bound is the bound that the store has kept so far (0: none), and directory identifies
// the disk for which it was kept. If self has another disk, or its file of allocated ids is
// damaged, the broker does not know which ids it has allocated. The bound then grows by
// ProducerIDsAhead, and the broker may allocate the ProducerIDsAhead ids below the new bound.
func NextProducerIDs(bound int64, directory string, self Broker) int64 {
	if (directory != self.Directory || self.ProducerIDsLost) && bound > 0 {
		bound += ProducerIDsAhead
	}
	return max(bound, self.ProducerIDs)
}
