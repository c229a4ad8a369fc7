package v1alpha1

// Rollout configures when the operator restarts brokers whose pods have an earlier template: after
// a change of the image, resources or ports, or after an upgrade of the operator. Changes take
// effect at once.
//
// A broker that is down is replaced at any time. So is a broker whose restart was requested by the
// annotation heartwood.dev/restart.
type Rollout struct {
	// Policy is Automatic or OnApproval. With OnApproval, brokers keep running with an earlier
	// template until the annotation heartwood.dev/approve-rollout of the LogCluster has the value of
	// status.updateRevision. Default Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Policy RolloutPolicy `json:"policy,omitempty"`
	// Window is the time of the day in which brokers are restarted. The restart of a broker that has
	// begun is completed after it. Default: at any time.
	// +optional
	Window *Window `json:"window,omitempty"`
	// SingleReplica is Accept or Move. With Accept, a partition with one replica is unavailable while
	// its broker is restarted. With Move, another broker copies the partition before the restart and
	// leads it meanwhile; afterwards the partition has its own replica only. Default Accept.
	// +optional
	// +kubebuilder:default=Accept
	SingleReplica SingleReplicaPolicy `json:"singleReplica,omitempty"`
}

// SingleReplicaPolicy is what happens to partitions with one replica when their broker is
// restarted.
// +kubebuilder:validation:Enum=Accept;Move
type SingleReplicaPolicy string

const (
	// SingleReplicaAccept accepts that the partition is unavailable.
	SingleReplicaAccept SingleReplicaPolicy = "Accept"
	// SingleReplicaMove lends the partition a second replica.
	SingleReplicaMove SingleReplicaPolicy = "Move"
)

// LendsReplicas reports whether partitions with one replica get a second one while their broker is
// restarted.
func (r *Rollout) LendsReplicas() bool { return r != nil && r.SingleReplica == SingleReplicaMove }

// RolloutPolicy is whether rolling updates need an approval.
// +kubebuilder:validation:Enum=Automatic;OnApproval
type RolloutPolicy string

const (
	// RolloutAutomatic begins a rolling update when the pod template has changed.
	RolloutAutomatic RolloutPolicy = "Automatic"
	// RolloutOnApproval begins a rolling update when its revision was approved.
	RolloutOnApproval RolloutPolicy = "OnApproval"
)

// NeedsApproval reports whether rolling updates need an approval.
func (r *Rollout) NeedsApproval() bool { return r != nil && r.Policy == RolloutOnApproval }

// RolloutApproved reports whether brokers may be restarted for a revision of the pod template.
func (c *LogCluster) RolloutApproved(revision string) bool {
	return !c.Spec.Rollout.NeedsApproval() ||
		revision != "" && c.Annotations[AnnotationApproveRollout] == revision
}
