package v1alpha1

import (
	"strconv"
	"strings"
)

// What the operator and the brokers agree on beside the fields of the resources: labels,
// annotations and names.
const (
	// LabelCluster is on all that belongs to a LogCluster, and holds its name: Pods, Services,
	// broker Leases, Partitions.
	LabelCluster = "heartwood.dev/cluster"

	// AnnotationDirectory, on a broker's Lease, names the broker's disk. A broker whose disk is new
	// has lost its records, and is not elected as if it had them.
	AnnotationDirectory = "heartwood.dev/directory-id"
	// AnnotationEndpoint, on a broker's Lease, is host:port of its Kafka listener, as clients are
	// told.
	AnnotationEndpoint = "heartwood.dev/endpoint"
	// AnnotationPeer, on a broker's Lease, is host:port at which other brokers reach it: its pod's
	// address, so that replication does not depend on DNS. Absent: as clients do.
	AnnotationPeer = "heartwood.dev/peer"
	// AnnotationRack, on a broker's Lease, is the broker's rack: the label spec.rackKey of its
	// pod's node. The operator writes it.
	AnnotationRack = "heartwood.dev/rack"

	// AnnotationCleanEpoch, on a broker's Lease, is the incarnation whose orderly stop left the
	// broker's disk as it is; absent when there was none. What that incarnation had, this one has.
	AnnotationCleanEpoch = "heartwood.dev/clean-epoch"
	// AnnotationProducerIDs, on a broker's Lease, bounds the producer ids that the broker has given
	// out, on this disk or one before. A new disk begins above.
	AnnotationProducerIDs = "heartwood.dev/producer-ids"
	// AnnotationLeaving, on a broker's Lease, says that the broker shuts down in order and must
	// lead nothing more. Its value is the incarnation that says so: it is no word about the next
	// one.
	AnnotationLeaving = "heartwood.dev/leaving"
	// AnnotationPod, on a broker's Lease, is the uid of the pod that the incarnation runs in: with
	// the pod it ends.
	AnnotationPod = "heartwood.dev/pod-uid"

	// AnnotationAcceptDataLoss, on a Partition, lets the operator elect a leader that may lack
	// acknowledged records. Its value is the directory id of that leader's disk: alone, when it
	// took the place of a disk that is lost, else followed by @ and status.leaderEpoch. So a
	// consent counts once.
	AnnotationAcceptDataLoss = "heartwood.dev/accept-data-loss"

	// AnnotationElectPreferred, on a Partition, asks for its first replica to lead. Its value is
	// status.leaderEpoch at that time, so that it counts once: the election makes another.
	AnnotationElectPreferred = "heartwood.dev/elect-preferred"

	// AnnotationCleanNow, on a compacted Topic, has each of its partitions cleaned once for each
	// value that it gets, whatever the dirty ratio: see Topic.CleanNow.
	AnnotationCleanNow = "heartwood.dev/clean-now"

	// AnnotationRemembered, on a Partition that was deleted and made again, is the status that it
	// had: who is in sync, and the leader epoch. It counts until the first election.
	AnnotationRemembered = "heartwood.dev/remembered-status"

	// AnnotationAllowDelete, on a Partition, lets it be deleted while its Topic lives; see
	// config/admission.
	AnnotationAllowDelete = "heartwood.dev/allow-delete"
)

// BrokerLeaseName is the coordination Lease by which a broker says that it lives, in the
// LogCluster's namespace. Its holderIdentity is empty after an orderly stop, its leaseTransitions
// are the broker's epoch (incarnation).
func BrokerLeaseName(cluster string, broker int32) string {
	return cluster + "-broker-" + strconv.Itoa(int(broker))
}

// ParseBrokerLeaseName is the way back from BrokerLeaseName. A cluster's name may hold the infix
// itself, so the last one counts.
func ParseBrokerLeaseName(name string) (cluster string, broker int32, ok bool) {
	const infix = "-broker-"
	at := strings.LastIndex(name, infix)
	if at < 0 {
		return "", 0, false
	}
	id, err := strconv.ParseUint(name[at+len(infix):], 10, 31)
	if err != nil || BrokerLeaseName(name[:at], int32(id)) != name {
		return "", 0, false // "01" is a number, and no broker's
	}
	return name[:at], int32(id), true
}

// LeaseCleanEpoch reads AnnotationCleanEpoch; -1: there was none, or nobody says.
func LeaseCleanEpoch(annotations map[string]string) int64 {
	epoch, err := strconv.ParseInt(annotations[AnnotationCleanEpoch], 10, 64)
	if err != nil || epoch < 0 {
		return -1
	}
	return epoch
}

// LeaseLeaves tells whether the incarnation that holds a broker's Lease has said that it leaves.
func LeaseLeaves(annotations map[string]string, epoch int64) bool {
	return annotations[AnnotationLeaving] == strconv.FormatInt(epoch, 10)
}

// PartitionName is the Partition resource of a Topic resource.
func PartitionName(topic string, index int32) string {
	return topic + "-" + strconv.Itoa(int(index))
}
