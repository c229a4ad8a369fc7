package kube

import "heartwood.dev/heartwood/api/v1alpha1"

// ReportVolume implements metadata.VolumeReporter. The next renewal of the Lease contains the
// report, so a report causes no write.
func (s *Store) ReportVolume(volume v1alpha1.BrokerVolume) {
	s.volume.Store(new(volume.Annotation()))
}

// reportedVolume returns the value of AnnotationVolume, or "".
func (s *Store) reportedVolume() string {
	if text := s.volume.Load(); text != nil {
		return *text
	}
	return ""
}
