package status

import (
	"cmp"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/logcluster/outcome"
)

// describeBrokers returns the status of each broker, by id. storage comes from the last outcome.
func describeBrokers(s *facts.Facts, storage outcome.Storage) []v1alpha1.BrokerStatus {
	applied := facts.Applied{}
	applied.Volumes.Restarts = storage.Restarts
	state, leaders := s.RolloutState(applied), s.Leaders()
	all := make([]v1alpha1.BrokerStatus, len(state.Brokers))
	for i := range all {
		id := int32(i)
		b := &all[i]
		b.ID, b.Leaders = id, int32(leaders[id])
		b.Ready = state.Brokers[i].Ready && s.Up[id]
		if pod := s.Pod(id); pod != nil && state.Observed && !state.Brokers[i].Updated {
			b.RestartReason = s.RestartReason(pod, id, applied)
		} else if _, replace := storage.Replaced[id]; replace {
			b.RestartReason = v1alpha1.RestartStorageClassChanged
		}
	}
	for i := range s.Leases {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.Leases[i].Name)
		if ok && int(id) < len(all) {
			registered := v1alpha1.ReadRegistration(&s.Leases[i])
			all[id].FormatLevel = registered.SupportedLevel()
			all[id].Version = registered.Version
			all[id].Rack = s.Leases[i].Annotations[v1alpha1.AnnotationRack]
			all[id].Volume = registered.MeasuredVolume()
			all[id].Scrub = cmp.Or(registered.ReadScrub(), lastScrub(s.Cluster, id))
		}
	}
	return all
}

// lastScrub returns the scrub in a broker's last status, or nil. The last scrub stays in the status
// until the restarted broker reports again. Otherwise the scrub's findings would then count as new.
func lastScrub(cluster *v1alpha1.LogCluster, broker int32) *v1alpha1.BrokerScrub {
	for i := range cluster.Status.Brokers {
		if cluster.Status.Brokers[i].ID == broker {
			return cluster.Status.Brokers[i].Scrub
		}
	}
	return nil
}
