package metadata

// ProducerIDsAhead is how many producer ids a broker may give out from one registration to the
// next: a million a second for three days.
const ProducerIDsAhead = 1 << 38

// NextProducerIDs returns what a store remembers when a broker registers, of what it remembered (0:
// nothing) and the disk that the broker had then. With another disk, or one whose record of issued
// ids is damaged, the bound is raised by as much as the broker may give out. Such a disk knows of
// no issued id, and issues those from ProducerIDsAhead below the raised bound on.
func NextProducerIDs(bound int64, directory string, self Broker) int64 {
	if (directory != self.Directory || self.ProducerIDsLost) && bound > 0 {
		bound += ProducerIDsAhead
	}
	return max(bound, self.ProducerIDs)
}
