package local

import (
	"maps"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// ReportVolume implements metadata.VolumeReporter. Later assignments use the report. The method
// does not wait for the metadata file.
func (s Session) ReportVolume(volume v1alpha1.BrokerVolume) {
	s.volumes.Lock()
	defer s.volumes.Unlock()
	if s.volumes.full[s.Broker] == volume.Full() {
		return
	}
	full := maps.Clone(s.volumes.full)
	if full == nil {
		full = map[int32]bool{}
	}
	full[s.Broker] = volume.Full()
	s.volumes.full = full
}

// fullBrokers returns the brokers to which no new replicas are assigned. The map is immutable.
func (s *Store) fullBrokers() map[int32]bool {
	s.volumes.Lock()
	defer s.volumes.Unlock()
	return s.volumes.full
}
