package kube

import "heartwood.dev/heartwood/api/v1alpha1"

// ReportVolume implements metadata.VolumeReporter. The Lease's next renewal contains the report, so
// a report causes no extra write.
func (s *Store) ReportVolume(volume v1alpha1.BrokerVolume) {
	s.volume.Store(&volume)
}

// reportedVolume returns the last report, or the zero value.
func (s *Store) reportedVolume() v1alpha1.BrokerVolume {
	if volume := s.volume.Load(); volume != nil {
		return *volume
	}
	return v1alpha1.BrokerVolume{}
}
