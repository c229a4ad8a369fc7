package v1alpha1

import (
	"strconv"
	"strings"
)

// Labels, annotations and names that operator and brokers share, besides the fields of the
// resources.
const (
	// LabelCluster is on everything that belongs to a LogCluster (Pods, Services, broker Leases,
	// Partitions). Its value is the LogCluster's name.
	LabelCluster = "heartwood.dev/cluster"

	// AnnotationDirectory, on a broker's Lease, is the directory id of the broker's disk. A broker
	// with a new disk has lost its records and must not be elected as if it had them.
	AnnotationDirectory = "heartwood.dev/directory-id"
	// AnnotationEndpoint, on a broker's Lease, is host:port of its Kafka listener as advertised to
	// clients.
	AnnotationEndpoint = "heartwood.dev/endpoint"
	// AnnotationPeer, on a broker's Lease, is host:port for connections of other brokers: its pod
	// IP, so that replication does not depend on DNS. If it is absent, they use AnnotationEndpoint.
	AnnotationPeer = "heartwood.dev/peer"
	// AnnotationRack, on a broker's Lease, is the broker's rack: the label spec.rackKey of its
	// pod's node. The operator writes it.
	AnnotationRack = "heartwood.dev/rack"

	// AnnotationCleanEpoch, on a broker's Lease, is the broker epoch whose graceful stop left the
	// broker's disk in its present state. The present epoch has every record of that one. It is
	// absent after an unclean stop.
	AnnotationCleanEpoch = "heartwood.dev/clean-epoch"
	// AnnotationProducerIDs, on a broker's Lease, is an upper bound of the producer ids that the
	// broker has assigned, with this disk or an earlier one. A new disk starts above it.
	AnnotationProducerIDs = "heartwood.dev/producer-ids"
	// AnnotationLeaving, on a broker's Lease, announces the controlled shutdown of the broker,
	// which must not become a leader. Its value is the broker epoch that it applies to.
	AnnotationLeaving = "heartwood.dev/leaving"
	// AnnotationPod, on a broker's Lease, is the uid of the pod that the broker epoch runs in. The
	// epoch ends with the pod at the latest.
	AnnotationPod = "heartwood.dev/pod-uid"

	// AnnotationAcceptDataLoss, on a Partition, allows the operator to elect a leader that may lack
	// acknowledged records. Its value is the directory id of that leader's disk: alone if the disk
	// replaces a lost one, otherwise followed by @ and status.leaderEpoch. So a consent counts
	// once.
	AnnotationAcceptDataLoss = "heartwood.dev/accept-data-loss"

	// AnnotationElectPreferred, on a Partition, requests the election of the preferred leader. Its
	// value is the status.leaderEpoch of the request, so it counts once: the election starts
	// another leader epoch.
	AnnotationElectPreferred = "heartwood.dev/elect-preferred"

	// AnnotationCleanNow, on a compacted Topic, requests one clean of each replica per value,
	// whatever the dirty ratio; see Topic.CleanNow.
	AnnotationCleanNow = "heartwood.dev/clean-now"

	// AnnotationRemembered, on a Partition that was deleted and created again, is its last status
	// with the ISR and the leader epoch. It applies until the first election.
	AnnotationRemembered = "heartwood.dev/remembered-status"

	// AnnotationAllowDelete, on a Partition, allows its deletion while its Topic exists; see
	// config/admission.
	AnnotationAllowDelete = "heartwood.dev/allow-delete"
)

// BrokerLeaseName returns the name of a broker's coordination Lease, in the LogCluster's namespace.
// The Lease's holderIdentity is empty after a graceful stop; its leaseTransitions are the broker
// epoch.
func BrokerLeaseName(cluster string, broker int32) string {
	return cluster + "-broker-" + strconv.Itoa(int(broker))
}

// ParseBrokerLeaseName is the inverse of BrokerLeaseName. A cluster's name may contain the infix
// itself, so the last one counts.
func ParseBrokerLeaseName(name string) (cluster string, broker int32, ok bool) {
	const infix = "-broker-"
	at := strings.LastIndex(name, infix)
	if at < 0 {
		return "", 0, false
	}
	id, err := strconv.ParseUint(name[at+len(infix):], 10, 31)
	if err != nil || BrokerLeaseName(name[:at], int32(id)) != name {
		return "", 0, false // such as "01"
	}
	return name[:at], int32(id), true
}

// LeaseCleanEpoch returns the value of AnnotationCleanEpoch, -1 if it is absent or invalid.
func LeaseCleanEpoch(annotations map[string]string) int64 {
	epoch, err := strconv.ParseInt(annotations[AnnotationCleanEpoch], 10, 64)
	if err != nil || epoch < 0 {
		return -1
	}
	return epoch
}

// LeaseLeaves reports whether a broker epoch has announced its controlled shutdown.
func LeaseLeaves(annotations map[string]string, epoch int64) bool {
	return annotations[AnnotationLeaving] == strconv.FormatInt(epoch, 10)
}

// PartitionName returns the name of a Partition resource of a Topic resource.
func PartitionName(topic string, index int32) string {
	return topic + "-" + strconv.Itoa(int(index))
}
