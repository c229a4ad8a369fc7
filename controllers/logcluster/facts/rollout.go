package facts

import (
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/rollout"
	"heartwood.dev/heartwood/internal/operator/skew"
	"heartwood.dev/heartwood/internal/version"
)

// RestartReason returns the reason for the restart of a broker's pod.
func (s *Facts) RestartReason(pod *corev1.Pod, id int32, applied Applied) string {
	switch {
	case s.Requested(pod):
		return v1alpha1.RestartRequested
	case applied.Volumes.Restarts[id]:
		return v1alpha1.RestartVolumeResized
	}
	return v1alpha1.RestartTemplateChanged
}

// Requested reports whether an annotation of a pod, or of its LogCluster, requests the pod's
// restart.
func (s *Facts) Requested(pod *corev1.Pod) bool {
	return restartsPod(pod) || pod.Annotations[v1alpha1.AnnotationRestartedFor] !=
		s.Brokers.Spec.Template.Annotations[v1alpha1.AnnotationRestartedFor]
}

// restartsPod reports whether a pod's annotation requests its restart.
func restartsPod(pod *corev1.Pod) bool { return pod.Annotations[v1alpha1.AnnotationRestart] != "" }

// RolloutState returns the state of a rolling update. Missing pods and pods that are being deleted
// count as updated, because they are created from the latest template.
func (s *Facts) RolloutState(applied Applied) rollout.State {
	status := s.Brokers.Status
	running := s.Drain().Brokers
	state := rollout.State{
		Brokers: make([]rollout.Broker, running),
		Observed: s.Brokers.UID != "" && s.Brokers.DeletionTimestamp == nil &&
			status.UpdateRevision != "" &&
			status.ObservedGeneration >= s.Brokers.Generation && applied.isIn(s),
		Partitions: s.walked().stops, Lends: s.Cluster.Spec.Rollout.LendsReplicas(),
	}
	leaders := s.Leaders()
	for id := range state.Brokers {
		state.Brokers[id] = rollout.Broker{Updated: true, Up: s.Up[int32(id)],
			Leaders: leaders[int32(id)]}
	}
	for i := range s.Pods {
		pod := &s.Pods[i]
		_, id, ok := v1alpha1.ParseBrokerLeaseName(pod.Name)
		if !ok || id >= running {
			continue
		}
		b := &state.Brokers[id]
		b.Ready = PodReady(pod)
		b.Updated = pod.DeletionTimestamp != nil || !restartsPod(pod) &&
			!applied.Volumes.Restarts[id] &&
			pod.Labels[appsv1.ControllerRevisionHashLabelKey] == status.UpdateRevision
	}
	return state
}

// VolumesToReplace returns the volumes whose StorageClass differs from the spec's StorageClass.
func (s *Facts) VolumesToReplace(applied Applied) rollout.Volumes {
	v := rollout.Volumes{Replace: map[int32]bool{}, Outside: map[int32]bool{},
		Retained: s.walked().retained}
	class := s.Cluster.Spec.Storage.ClassName
	if class == nil {
		return v // the volumes keep the class that was the default
	}
	for _, claim := range applied.Volumes.Claims {
		if claim.Class != *class {
			v.Replace[claim.Broker] = !claim.Bound
			v.Outside[claim.Broker] = !s.InISR(claim.Broker) && !slices.ContainsFunc(v.Retained,
				func(p rollout.Partition) bool { return slices.Contains(p.Replicas, claim.Broker) })
		}
	}
	return v
}

// Skew returns the LogCluster's format level and the skew of the brokers' versions. The version of
// a broker that is down is its last one, because the broker can return with this version.
func (s *Facts) Skew(now time.Time) skew.Decision {
	in := skew.Input{Now: now, Operator: version.Version(), Level: s.Cluster.Status.FormatLevel,
		Brokers: make([]skew.Broker, s.Drain().Brokers)}
	if raise := s.Cluster.Status.FormatLevelRaiseTime; raise != nil {
		in.RaiseAt = raise.Time
	}
	if level := s.Cluster.Spec.FormatLevel; level != nil {
		in.Spec = *level
	}
	for i := range s.Leases {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.Leases[i].Name)
		if ok && int(id) < len(in.Brokers) {
			registered := v1alpha1.ReadRegistration(&s.Leases[i])
			in.Brokers[id] = skew.Broker{Version: registered.Version,
				Level: registered.SupportedLevel()}
		}
	}
	return skew.Decide(in)
}
