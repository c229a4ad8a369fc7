package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// Pod returns a broker's pod, or nil.
func (s *Facts) Pod(id int32) *corev1.Pod {
	for i := range s.Pods {
		if _, broker, ok := v1alpha1.ParseBrokerLeaseName(s.Pods[i].Name); ok && broker == id {
			return &s.Pods[i]
		}
	}
	return nil
}

// WithoutPod returns the Facts without a deleted pod that the cache may still contain.
func (s *Facts) WithoutPod(uid types.UID) *Facts {
	without := *s
	without.Pods = slices.DeleteFunc(slices.Clone(s.Pods),
		func(pod corev1.Pod) bool { return pod.UID == uid })
	return &without
}

// RunningBrokers returns spec.replicas of the StatefulSet, or the number of pods while the
// StatefulSet is being replaced.
func (s *Facts) RunningBrokers() int32 {
	if replicas := s.Brokers.Spec.Replicas; replicas != nil {
		return *replicas
	}
	running := int32(0)
	for i := range s.Pods {
		if _, _, ok := v1alpha1.ParseBrokerLeaseName(s.Pods[i].Name); ok {
			running++
		}
	}
	return running
}

// UpBrokers returns the ids of the brokers that are up, sorted.
func (s *Facts) UpBrokers() []int32 {
	var ids []int32
	for id, up := range s.Up {
		if up {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// ReadyAt returns the time at which a pod became ready, according to its node's clock. ready is
// false if the pod is not ready.
func ReadyAt(pod *corev1.Pod) (since time.Time, ready bool) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			return condition.LastTransitionTime.Time, true
		}
	}
	return time.Time{}, false
}

// PodReady reports whether a pod is ready and not being deleted.
func PodReady(pod *corev1.Pod) bool {
	_, ready := ReadyAt(pod)
	return ready && pod.DeletionTimestamp == nil
}

// ReadyBrokers returns the number of brokers that are up and have a ready pod. notLeased contains
// the ids of the brokers with a ready pod that are not up, sorted.
func (s *Facts) ReadyBrokers() (ready int32, notLeased []int32) {
	for i := range s.Pods {
		_, id, ok := v1alpha1.ParseBrokerLeaseName(s.Pods[i].Name)
		switch {
		case !ok || !PodReady(&s.Pods[i]):
		case s.Up[id]:
			ready++
		default:
			notLeased = append(notLeased, id)
		}
	}
	slices.Sort(notLeased)
	return ready, notLeased
}
