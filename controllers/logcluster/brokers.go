package logcluster

import "heartwood.dev/heartwood/api/v1alpha1"

// describeBrokers returns the status of each broker, by id.
func describeBrokers(s *scope) []v1alpha1.BrokerStatus {
	state, leaders := s.rolloutState(), s.leaders()
	all := make([]v1alpha1.BrokerStatus, len(state.Brokers))
	for i := range all {
		id := int32(i)
		b := &all[i]
		b.ID, b.Leaders = id, int32(leaders[id])
		b.Ready = state.Brokers[i].Ready && s.up[id]
		if pod := s.pod(id); pod != nil && state.Observed && !state.Brokers[i].Updated {
			b.RestartReason = s.restartReason(pod, id)
		} else if _, replace := s.replaced[id]; replace {
			b.RestartReason = v1alpha1.RestartStorageClassChanged
		}
	}
	for i := range s.leases {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.leases[i].Name)
		if ok && int(id) < len(all) {
			all[id].FormatLevel = v1alpha1.LeaseFormatLevel(s.leases[i].Annotations)
			all[id].Version = s.leases[i].Annotations[v1alpha1.AnnotationVersion]
			all[id].Zone = s.leases[i].Annotations[v1alpha1.AnnotationRack]
			all[id].Volume = v1alpha1.LeaseVolume(s.leases[i].Annotations)
		}
	}
	return all
}
