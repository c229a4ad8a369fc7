package v1alpha1

// Rollout configures when the operator restarts brokers whose pods have an earlier template: after
// a change of the image, resources or ports, or after an upgrade of the operator. Changes take
// effect at once.
//
// A broker's pod is replaced at any time if the broker is down, or if the annotation
// heartwood.dev/restart requests the restart.
type Rollout struct {
	// Policy is Automatic or OnApproval. With OnApproval, brokers keep running with an earlier
	// template until the LogCluster's annotation heartwood.dev/approve-rollout has the value of
	// status.updateRevision. Default Automatic.
	// +optional
	// +kubebuilder:default=Automatic
	Policy RolloutPolicy `json:"policy,omitempty"`
	// Window is the time of day in which brokers are restarted. If a broker's restart has begun, it is
	// completed after the window. Default: at any time.
	// +optional
	Window *Window `json:"window,omitempty"`
	// SingleReplica is Accept or Move. With Accept, a partition with one replica is unavailable while
	// its broker is restarted. With Move, another broker copies the partition before the restart and
	// leads it during the restart. Afterwards, the partition again has only its own replica. Default
	// Accept.
	// +optional
	// +kubebuilder:default=Accept
	SingleReplica SingleReplicaPolicy `json:"singleReplica,omitempty"`
}

// SingleReplicaPolicy determines what happens to partitions with one replica when their broker is
// restarted.
// +kubebuilder:validation:Enum=Accept;Move
type SingleReplicaPolicy string

const (
	// SingleReplicaAccept accepts that the partition is unavailable.
	SingleReplicaAccept SingleReplicaPolicy = "Accept"
	// SingleReplicaMove temporarily adds a second replica on another broker.
	SingleReplicaMove SingleReplicaPolicy = "Move"
)

// LendsReplicas reports whether partitions with one replica get a second replica while their broker
// is restarted.
func (r *Rollout) LendsReplicas() bool { return r != nil && r.SingleReplica == SingleReplicaMove }

// RolloutPolicy determines whether rolling updates need an approval.
// +kubebuilder:validation:Enum=Automatic;OnApproval
type RolloutPolicy string

const (
	// RolloutAutomatic begins a rolling update as soon as the pod template has changed.
	RolloutAutomatic RolloutPolicy = "Automatic"
	// RolloutOnApproval begins a rolling update once its revision is approved.
	RolloutOnApproval RolloutPolicy = "OnApproval"
)

// NeedsApproval reports whether rolling updates need an approval.
func (r *Rollout) NeedsApproval() bool { return r != nil && r.Policy == RolloutOnApproval }

// RolloutApproved reports whether brokers may be restarted with a revision of the pod template.
func (c *LogCluster) RolloutApproved(revision string) bool {
	return !c.Spec.Rollout.NeedsApproval() ||
		revision != "" && c.Annotations[AnnotationApproveRollout] == revision
}
