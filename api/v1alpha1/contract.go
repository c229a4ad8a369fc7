package v1alpha1

import (
	"strconv"
	"strings"
)

// These labels, annotations and names are shared by operator and brokers, in addition to the fields
// of the resources.
const (
	// LabelCluster marks every object that belongs to a LogCluster (Pods, Services, broker Leases,
	// PartitionSets). Its value is the LogCluster's name.
	LabelCluster = "heartwood.dev/cluster"

	// LabelRemovedBroker marks the volume claims of removed brokers until the brokers are added again.
	// Its value is the broker id.
	LabelRemovedBroker = "heartwood.dev/removed-broker"

	// AnnotationEndpointPrefix, followed by the name of a listener, is an annotation on a broker's
	// Lease. Its value is the host:port of this listener on this broker, as advertised to clients. The
	// operator writes it. A listener without this annotation has no endpoint on the broker.
	AnnotationEndpointPrefix = "heartwood.dev/endpoint."
	// AnnotationRack, on a broker's Lease, is the broker's rack: the value of the label spec.rackKey
	// of the pod's node. The operator writes it.
	AnnotationRack = "heartwood.dev/rack"

	// AnnotationIsolated, on a broker's Lease, is the broker epoch in which the broker is cut off from
	// a majority of the other brokers. In this epoch, the broker must neither be elected leader nor be
	// in sync. The operator writes the annotation.
	AnnotationIsolated = "heartwood.dev/isolated"

	// AnnotationAcceptDataLoss, on a Topic, allows the operator to elect leaders that may lack
	// acknowledged records; see Topic.AcceptedDataLoss.
	AnnotationAcceptDataLoss = "heartwood.dev/accept-data-loss"

	// AnnotationReassign, on a Topic, requests other replicas for partitions, such as "0=1,2,3
	// 4=2,3,0"; see Topic.Reassignments. The operator removes the annotation when it has written the
	// assignments.
	AnnotationReassign = "heartwood.dev/reassign"

	// AnnotationCleanNow, on a compacted Topic, requests one clean of each replica for each new
	// value, regardless of the dirty ratio; see Topic.CleanNow.
	AnnotationCleanNow = "heartwood.dev/clean-now"

	// AnnotationReplaceCA, on a LogCluster, requests new CAs for each new value. An old CA remains
	// valid until the last certificate that it issued has expired.
	AnnotationReplaceCA = "heartwood.dev/replace-ca"

	// AnnotationReplaceCAOverlap, on a LogCluster, is the duration for which a new CA is published
	// before it issues certificates, such as 10m. Clients must have the new bundle before this
	// duration ends. Default and maximum: 24h.
	AnnotationReplaceCAOverlap = "heartwood.dev/replace-ca-overlap"

	// AnnotationRequestedSize, on a broker's volume claim, is the size that the operator requested
	// last. If a user lowers the request, the operator does not raise it to this size again.
	AnnotationRequestedSize = "heartwood.dev/requested-size"

	// AnnotationRestart, on a LogCluster, requests a rolling restart of all brokers for each new
	// value. On a broker's pod, it requests a restart of this broker; the new pod does not have the
	// annotation.
	AnnotationRestart = "heartwood.dev/restart"
	// AnnotationRestartedFor, on a broker's pod, is the value that AnnotationRestart of the LogCluster
	// had when the pod was created.
	AnnotationRestartedFor = "heartwood.dev/restarted-for"
	// AnnotationApproveRollout, on a LogCluster with rollout policy OnApproval, approves the rolling
	// update to one revision of the pod template. Its value is this revision, as shown in
	// status.updateRevision.
	AnnotationApproveRollout = "heartwood.dev/approve-rollout"
	// AnnotationPaused, with value true on a LogCluster, pauses rolling updates and changes of the
	// LogCluster's objects. Elections, assignments and certificates continue.
	AnnotationPaused = "heartwood.dev/paused"

	// AnnotationReplaceVolume, on a LogCluster, consents to the replacement of brokers' lost volumes;
	// see LogCluster.ReplaceVolumes. The operator removes used consents, and consents that match no
	// lost volume.
	AnnotationReplaceVolume = "heartwood.dev/replace-volume"
	// AnnotationVolumeConsent, on a broker's Lease, permits the broker to continue with another
	// volume; see VolumeConsent. The operator writes it.
	AnnotationVolumeConsent = "heartwood.dev/volume-consent"

	// AnnotationRemoveRetained, on a LogCluster, consents to the removal of deleted topics' retained
	// records; see LogCluster.GivenUp. The operator removes a word of the annotation once the removal
	// has begun, or if the word matches no retained records.
	AnnotationRemoveRetained = "heartwood.dev/remove-retained"

	// AnnotationScrubNow, on a LogCluster, requests that all brokers check everything at rest, or the
	// files of a topic, once for each new value; see LogCluster.ScrubNow.
	AnnotationScrubNow = "heartwood.dev/scrub-now"

	// AnnotationRebalance, on a LogCluster, requests one run that balances the brokers for each new
	// value. The value RebalanceCancel cancels the current run, and prevents new runs while it is set.
	// Removing the annotation cancels the run that it has started.
	AnnotationRebalance = "heartwood.dev/rebalance"
	// AnnotationDrainAnyway, with value true on a LogCluster, affects only replicas that could
	// otherwise not leave the brokers in spec.drain. It permits these replicas to share racks and to
	// fill disks further.
	AnnotationDrainAnyway = "heartwood.dev/drain-anyway"

	// AnnotationRotate, on a LogUser, requests new credentials for each new value. The previous
	// password remains valid for PreviousPasswordLifetime.
	AnnotationRotate = "heartwood.dev/rotate"

	// AnnotationRemembered, on a PartitionSet that was deleted and created again, is the last status
	// of the deleted PartitionSet. The operator restores the status with its first status write, and
	// then removes the annotation.
	AnnotationRemembered = "heartwood.dev/remembered-status"

	// AnnotationAllowDelete, on a PartitionSet, allows its deletion while Topics have partitions in
	// it; see config/admission.
	AnnotationAllowDelete = "heartwood.dev/allow-delete"
)

// BrokerLeaseName returns the name of a broker's coordination Lease, in the LogCluster's namespace.
// The Lease's holderIdentity is empty after a graceful stop. Its leaseTransitions is the broker
// epoch.
func BrokerLeaseName(cluster string, broker int32) string {
	return cluster + "-broker-" + strconv.Itoa(int(broker))
}

// ParseBrokerLeaseName is the inverse of BrokerLeaseName. It splits the name at the last infix,
// because the cluster's name can also contain the infix.
func ParseBrokerLeaseName(name string) (cluster string, broker int32, ok bool) {
	const infix = "-broker-"
	end := strings.LastIndex(name, infix)
	if end < 0 {
		return "", 0, false
	}
	id, err := strconv.ParseUint(name[end+len(infix):], 10, 31)
	if err != nil || BrokerLeaseName(name[:end], int32(id)) != name {
		return "", 0, false // id not in canonical form, such as "01"
	}
	return name[:end], int32(id), true
}

// VolumeClaimName returns the name of a broker's PersistentVolumeClaim.
func VolumeClaimName(cluster string, broker int32) string {
	return volumeClaimPrefix + BrokerLeaseName(cluster, broker)
}

// ParseVolumeClaimName is the inverse of VolumeClaimName.
func ParseVolumeClaimName(name string) (cluster string, broker int32, ok bool) {
	pod, ok := strings.CutPrefix(name, volumeClaimPrefix)
	if !ok {
		return "", 0, false
	}
	return ParseBrokerLeaseName(pod)
}

// volumeClaimPrefix is the name of the StatefulSet's claim template, followed by a dash.
const volumeClaimPrefix = "data-"

// LeaseIsolated reports whether the operator has marked the broker as cut off from other brokers in
// the given broker epoch.
func LeaseIsolated(annotations map[string]string, epoch int64) bool {
	return annotations[AnnotationIsolated] == strconv.FormatInt(epoch, 10)
}
