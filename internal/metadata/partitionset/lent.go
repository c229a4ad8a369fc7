package partitionset

import "slices"

// Lend temporarily assigns a second replica, on another broker, to a partition with one replica. If
// the partition does not have exactly one assigned replica, or has it on that broker, Lend does
// nothing. TakeBack, KeepLent and every other assignment end the loan.
//
// The loans are in a separate map and not part of the assignment, because brokers of earlier
// versions could not read such an entry. When such a broker writes an assignment, it removes the
// loans. The operator then removes the second replicas as surplus, and lends again if needed.
func (s *Set) Lend(key Key, broker int32) {
	a := s.assignments[key]
	if a == nil || len(a.value.Replicas) != 1 || a.value.Replicas[0] == broker {
		return
	}
	next := a.value
	next.Replicas = append(slices.Clone(next.Replicas), broker)
	s.Assign(key, next)
	if s.lent == nil {
		s.lent = map[Key]int32{}
	}
	s.lent[key] = broker
}

// TakeBack ends a loan and assigns the partition only its first replica.
func (s *Set) TakeBack(key Key) {
	if a := s.assignments[key]; a != nil && s.isLent(key, a) {
		next := a.value
		next.Replicas = next.Replicas[:1]
		s.Assign(key, next)
		delete(s.lent, key)
	}
}

// KeepLent ends a loan without changing the assignment: the partition keeps the second replica.
func (s *Set) KeepLent(key Key) {
	if a := s.assignments[key]; a != nil && s.isLent(key, a) {
		delete(s.lent, key)
		s.specChanged = true
	}
}

// isLent reports whether the second replica in an assignment is lent.
func (s *Set) isLent(key Key, a *text[Assignment]) bool {
	broker, ok := s.lent[key]
	return ok && len(a.value.Replicas) == 2 && a.value.Replicas[1] == broker
}

// decodeLent decodes loans. It ignores keys that cannot be parsed, because no partition has them.
func decodeLent(from map[string]int32) map[Key]int32 {
	if len(from) == 0 {
		return nil
	}
	to := make(map[Key]int32, len(from))
	for name, broker := range from {
		if key, err := ParseKey(name); err == nil {
			to[key] = broker
		}
	}
	return to
}

// encodeLent returns the current loans.
func (s *Set) encodeLent() (to map[string]int32) {
	for key, broker := range s.lent {
		if a := s.assignments[key]; a != nil && s.isLent(key, a) {
			if to == nil {
				to = map[string]int32{}
			}
			to[key.String()] = broker
		}
	}
	return to
}
