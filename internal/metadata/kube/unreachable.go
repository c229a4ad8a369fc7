package kube

// ReportUnreachable implements metadata.ReachabilityReporter. If the report has changed, the Lease
// is renewed at once, so that the operator soon elects other leaders. While all peers answer, there
// are no additional writes.
func (s *Store) ReportUnreachable(peers string) {
	if before := s.unreachable.Swap(&peers); before == nil && peers != "" ||
		before != nil && *before != peers {
		notify(s.renew)
	}
}

// reportedUnreachable returns the value of Registration.Unreachable, or "".
func (s *Store) reportedUnreachable() string {
	if text := s.unreachable.Load(); text != nil {
		return *text
	}
	return ""
}
