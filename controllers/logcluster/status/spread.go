package status

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/logcluster/facts"
)

// describeSpread sets condition Spread, or removes it if the brokers in the status are in fewer
// than two known racks.
func describeSpread(s *facts.Facts, status *v1alpha1.LogClusterStatus) {
	racks := map[int32]string{}
	for _, b := range status.Brokers {
		if b.Rack != "" {
			racks[b.ID] = b.Rack
		}
	}
	condition := spreadCondition(racks, s.Assignments())
	if condition == nil {
		meta.RemoveStatusCondition(&status.Conditions, v1alpha1.ConditionSpread)
		return
	}
	condition.ObservedGeneration = s.Cluster.Generation
	meta.SetStatusCondition(&status.Conditions, *condition)
}

// spreadCondition returns condition Spread, or nil if there are fewer than two racks. It ignores
// brokers whose rack is unknown, and partitions with a replica on such a broker.
func spreadCondition(racks map[int32]string,
	assignments iter.Seq2[string, []int32]) *metav1.Condition {
	count := map[string]int{}
	for _, rack := range racks {
		count[rack]++
	}
	if len(count) < 2 {
		return nil
	}
	no := func(reason, message string) *metav1.Condition {
		return &metav1.Condition{Type: v1alpha1.ConditionSpread, Status: metav1.ConditionFalse,
			Reason: reason, Message: message}
	}
	if narrow := notSpread(racks, len(count), assignments); len(narrow) > 0 {
		return no(v1alpha1.ReasonReplicasNotSpread, fmt.Sprintf(
			"%d partitions have replicas in fewer racks than possible: %s. Run: kubectl heartwood "+
				"rebalance", len(narrow), facts.FirstNames(narrow)))
	}
	names := slices.Sorted(maps.Keys(count))
	least := slices.MinFunc(names, func(a, b string) int { return count[a] - count[b] })
	most := slices.MaxFunc(names, func(a, b string) int { return count[a] - count[b] })
	if count[most]-count[least] > 1 {
		return no(v1alpha1.ReasonBrokersNotSpread, fmt.Sprintf(
			"Rack %s has %d brokers, and rack %s only %d. Check that the nodes of rack %s have "+
				"room; rackSpread: Required leaves brokers pending instead.", most, count[most], least,
			count[least], least))
	}
	return &metav1.Condition{Type: v1alpha1.ConditionSpread, Status: metav1.ConditionTrue,
		Reason: v1alpha1.ReasonSpread, Message: fmt.Sprintf(
			"Brokers and replicas are spread across %d racks: %s.", len(names), facts.FirstNames(names))}
}

// notSpread returns the partitions whose replicas are in fewer racks than possible, sorted. inAll
// is the number of all racks.
func notSpread(racks map[int32]string, inAll int,
	assignments iter.Seq2[string, []int32]) (all []string) {
	var used []string
	for partition, replicas := range assignments {
		used = used[:0]
		unknown := false
		for _, id := range replicas {
			rack, known := racks[id]
			unknown = unknown || !known
			if !slices.Contains(used, rack) {
				used = append(used, rack)
			}
		}
		if !unknown && len(used) < min(len(replicas), inAll) {
			all = append(all, partition)
		}
	}
	slices.Sort(all)
	return all
}
