// Package factstest provides Facts for tests.
package factstest

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
	"heartwood.dev/heartwood/controllers/sets"
)

// Outdated returns the Facts of a LogCluster whose pods are ready and have an earlier template.
func Outdated() *facts.Facts {
	s := &facts.Facts{Cluster: &v1alpha1.LogCluster{}, Brokers: &appsv1.StatefulSet{},
		Sets: &sets.Cluster{}, Up: map[int32]bool{}}
	s.Cluster.Spec.Brokers = 3
	s.Brokers.UID, s.Brokers.Generation = "brokers", 2
	s.Brokers.Status = appsv1.StatefulSetStatus{ObservedGeneration: 2, UpdateRevision: "second"}
	for id := range int32(3) {
		pod := corev1.Pod{}
		pod.Name, pod.UID = v1alpha1.BrokerLeaseName("main", id), types.UID('a'+id)
		pod.Labels = map[string]string{appsv1.ControllerRevisionHashLabelKey: "first"}
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady,
			Status: corev1.ConditionTrue}}
		s.Pods, s.Up[id] = append(s.Pods, pod), true
	}
	return s
}
