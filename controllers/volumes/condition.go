package volumes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/operator/volumes"
)

// report passes condition VolumeLost and the lost volumes to the writer of the status. It creates
// an event for each lost volume that is new or whose case has changed.
func (r *Reconciler) report(ctx context.Context, in *input, decision volumes.Decision) error {
	key := client.ObjectKeyFromObject(in.cluster)
	var lost []v1alpha1.LostVolume
	var messages []string
	for i := range decision.Lost {
		lost = append(lost, decision.Lost[i].LostVolume)
		messages = append(messages, describe(in.cluster, &lost[i]))
	}
	last, _ := r.reported.Get(key)
	reported := strings.Join(messages, "\n")
	if last != reported {
		r.reported.Set(key, reported)
		for i, message := range messages {
			if !slices.Contains(strings.Split(last, "\n"), message) && !lost[i].Replacing {
				r.Events.Warning(in.cluster, v1alpha1.ConditionVolumeLost, "Reconcile", "%s", message)
			}
		}
	}
	if err := r.Status.SetLostVolumes(ctx, in.cluster, lost); err != nil {
		return err
	}
	return r.Status.Set(ctx, in.cluster, condition(in.cluster, lost, messages, decision.Unreadable))
}

// condition returns condition VolumeLost.
func condition(cluster *v1alpha1.LogCluster, lost []v1alpha1.LostVolume, messages []string,
	unreadable []int32) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionVolumeLost}
	is := func(which func(v1alpha1.LostVolume) bool) bool { return slices.ContainsFunc(lost, which) }
	switch {
	case is(func(v v1alpha1.LostVolume) bool { return len(v.LastInSync)+len(v.Retained) > 0 }):
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonLastInSyncReplica
	case is(func(v v1alpha1.LostVolume) bool { return !v.Replacing }):
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonWaitingForConsent
	case len(lost) > 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonReplacingVolume
	case len(unreadable) > 0:
		c.Status, c.Reason = metav1.ConditionUnknown, v1alpha1.ReasonVolumesNotReadable
		messages = append(messages, describeUnreadable(cluster, unreadable))
	default:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonVolumesPresent
		messages = append(messages, "No volume of a broker is lost.")
	}
	c.Message = strings.Join(messages, " ")
	return c
}

// causes describes the causes of lost volumes. Each text is a format whose argument is the claim's
// name.
var causes = map[v1alpha1.VolumeLossCause]string{
	v1alpha1.LostNewVolume: "the volume of claim %s is not the one that the broker used before, and " +
		"lacks its records",
	v1alpha1.LostVolumeDeleted: "the PersistentVolume of claim %s does not exist any more",
	v1alpha1.LostNodeDeleted: "the PersistentVolume of claim %s is on a node that does not exist any " +
		"more",
}

// describe returns sentences about a lost volume: they describe the state, and what to do.
func describe(cluster *v1alpha1.LogCluster, v *v1alpha1.LostVolume) string {
	text := fmt.Sprintf("Broker %d has lost its volume: "+causes[v.Cause]+".", v.Broker, v.Claim)
	switch {
	case v.Replacing && v.Cause == v1alpha1.LostNewVolume:
		return text + " It starts with this volume and copies its replicas from other brokers."
	case v.Replacing:
		return text + " The claim and the pod are being replaced."
	case len(v.LastInSync) > 0:
		return fmt.Sprintf("%s It has the only in-sync replica of partitions %s, so it is not "+
			"replaced. If the volume cannot be restored, accept the loss of their records: kubectl "+
			"heartwood accept-loss -n %s %s", text, strings.Join(v.LastInSync, " "),
			cluster.Namespace, v.LastInSync[0])
	case len(v.Retained) > 0:
		return fmt.Sprintf("%s It has the only in-sync replica of partitions %s of deleted topics, "+
			"whose records are retained, so it is not replaced. If the volume cannot be restored, "+
			"give up these records: %s", text, strings.Join(v.Retained, " "),
			v1alpha1.RemoveRetainedCommand(cluster, topicOf(v.Retained[0])))
	}
	return fmt.Sprintf("%s It does not serve until the volume is restored, or until you let it "+
		"continue with an empty volume and copy its replicas from other brokers: %s", text,
		v1alpha1.ReplaceVolumeCommand(cluster, v.ClaimUID))
}

// topicOf returns the topic in the name of a partition.
func topicOf(partition string) string { return partition[:strings.LastIndexByte(partition, '/')] }

// describeUnreadable describes brokers whose volumes may be lost.
func describeUnreadable(cluster *v1alpha1.LogCluster, brokers []int32) string {
	claim := v1alpha1.VolumeClaimName(cluster.Name, brokers[0])
	pod := v1alpha1.BrokerLeaseName(cluster.Name, brokers[0])
	return fmt.Sprintf("The pods of brokers %v cannot be scheduled, and the operator may not read "+
		"PersistentVolumes and nodes. If the node of a volume was deleted and does not return, "+
		"replace the claim; the broker then asks for consent before it continues with an empty "+
		"volume: kubectl delete pvc -n %s --wait=false %s && kubectl delete pod -n %s %s", brokers,
		cluster.Namespace, claim, cluster.Namespace, pod)
}
