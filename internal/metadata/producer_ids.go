package metadata

// ProducerIDsAhead is how many producer ids a broker may give out from one registration to the
// next: a million a second for three days.
const ProducerIDsAhead = 1 << 38

// NextProducerIDs returns what a store remembers when a broker registers, of what it remembered (0:
// nothing) and the disk that the broker had then. With another disk the bound is raised by as much
// as the broker may give out, so that a disk that knows of no ids has some of its own: those from
// ProducerIDsAhead below the bound on.
func NextProducerIDs(bound int64, directory string, self Broker) int64 {
	if directory != self.Directory && bound > 0 {
		bound += ProducerIDsAhead
	}
	return max(bound, self.ProducerIDs)
}
