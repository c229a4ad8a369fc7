package kube

import "heartwood.dev/heartwood/api/v1alpha1"

// ReportScrub implements metadata.ScrubReporter. The Lease's next renewal contains the report, so a
// report causes no extra write.
func (s *Store) ReportScrub(scrub v1alpha1.BrokerScrub) {
	s.scrub.Store(new(scrub.Text()))
}

// reportedScrub returns the last report, or "".
func (s *Store) reportedScrub() string {
	if text := s.scrub.Load(); text != nil {
		return *text
	}
	return ""
}
