package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rebalance configures how the operator moves replicas between brokers. Changes take effect at
// once.
type Rebalance struct {
	// Policy determines when replicas are moved. Manual: when the annotation heartwood.dev/rebalance
	// gets a new value. OnScale: also when spec.brokers was raised and the new brokers are up.
	// Continuous: also when a broker has 10 % more or less than the mean. Replicas leave the brokers
	// in spec.drain with every policy. Default OnScale.
	// +optional
	// +kubebuilder:default=OnScale
	Policy RebalancePolicy `json:"policy,omitempty"`
	// ConcurrentPerBroker is the maximum number of replicas that one broker receives at the same time,
	// and that one broker sends at the same time, 1 to 100. Default 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	ConcurrentPerBroker int32 `json:"concurrentPerBroker,omitempty"`
	// Rate limits the rate at which each broker sends records to replicas that are being moved, in
	// bytes per second, at least 1Ki. It is separate from replication.catchUpRate, because replicas on
	// restarted brokers must not wait for moves. Default: replication.catchUpRate.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="isQuantity(string(self)) && quantity(string(self)).compareTo(quantity('1Ki')) >= 0",message="write at least 1Ki bytes a second, such as 20Mi; leave it out for the rate of replication.catchUpRate"
	Rate *resource.Quantity `json:"rate,omitempty"`
	// Window is the time of day in which moves begin. Moves that have begun continue after the window.
	// Default: at any time.
	// +optional
	Window *Window `json:"window,omitempty"`
}

// RebalancePolicy determines when replicas are moved.
// +kubebuilder:validation:Enum=Manual;OnScale;Continuous
type RebalancePolicy string

const (
	// RebalanceManual moves replicas only when a user requests it.
	RebalanceManual RebalancePolicy = "Manual"
	// RebalanceOnScale also moves replicas to new brokers.
	RebalanceOnScale RebalancePolicy = "OnScale"
	// RebalanceContinuous moves replicas whenever brokers are not balanced.
	RebalanceContinuous RebalancePolicy = "Continuous"
)

// MayReceive reports whether a broker can receive replicas: it is neither cordoned nor drained.
func (s *LogClusterSpec) MayReceive(broker int32) bool {
	return !slices.Contains(s.Cordoned, broker) && !slices.Contains(s.Drain, broker)
}

// RebalanceStatus is the state of the current run that moves replicas, or of the last run if none
// is in progress.
type RebalanceStatus struct {
	// Phase is Idle, Moving, Waiting, Cancelling, Cancelled, Blocked or Done. It is Idle until the
	// first run.
	Phase RebalancePhase `json:"phase"`
	// Message describes what the run does or waits for.
	// +optional
	Message string `json:"message,omitempty"`
	// Trigger is the reason why the run began: Manual, OnScale, Continuous or Drain.
	// +optional
	Trigger RebalanceTrigger `json:"trigger,omitempty"`
	// Request is the last value of the annotation heartwood.dev/rebalance that has started a run. The
	// same value starts no further run.
	// +optional
	Request string `json:"request,omitempty"`
	// Brokers is the number of brokers between which replicas are balanced. A higher value of
	// spec.brokers starts a run, unless the policy is Manual.
	// +optional
	Brokers int32 `json:"brokers,omitempty"`
	// Moves is the run's number of moves, including completed and planned ones. Most moves copy a
	// replica; some only change the preferred leader.
	// +optional
	Moves int32 `json:"moves,omitempty"`
	// MovesDone is the number of completed moves.
	// +optional
	MovesDone int32 `json:"movesDone,omitempty"`
	// BytesDone is the number of bytes that the run has copied.
	// +optional
	BytesDone int64 `json:"bytesDone,omitempty"`
	// BytesTotal is the number of bytes that the run will have copied when it ends. It changes while
	// producers append and the cleaner removes records.
	// +optional
	BytesTotal int64 `json:"bytesTotal,omitempty"`
	// Moving contains the partitions that are being moved.
	// +optional
	// +listType=set
	Moving []string `json:"moving,omitempty"`
	// StartTime is the time at which the run began.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// EstimatedCompletionTime is the time at which the run will end at its current speed.
	// +optional
	EstimatedCompletionTime *metav1.Time `json:"estimatedCompletionTime,omitempty"`
	// CompletionTime is the time at which the run ended.
	// +optional
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
}

// RebalancePhase is the phase of a run.
type RebalancePhase string

const (
	// RebalanceIdle means that there has been no run.
	RebalanceIdle RebalancePhase = "Idle"
	// RebalanceMoving means that moves are in progress.
	RebalanceMoving RebalancePhase = "Moving"
	// RebalanceWaiting means that no move is in progress and more moves are planned; the message gives
	// the reason.
	RebalanceWaiting RebalancePhase = "Waiting"
	// RebalanceCancelling means that the run was cancelled, but waits for moves that are more than
	// half done.
	RebalanceCancelling RebalancePhase = "Cancelling"
	// RebalanceCancelled means that the run was cancelled.
	RebalanceCancelled RebalancePhase = "Cancelled"
	// RebalanceBlocked means that brokers cannot be drained; condition Drained gives the reason.
	RebalanceBlocked RebalancePhase = "Blocked"
	// RebalanceDone means that the run is completed.
	RebalanceDone RebalancePhase = "Done"
)

// Active reports whether the run has not ended.
func (p RebalancePhase) Active() bool {
	return p == RebalanceMoving || p == RebalanceWaiting || p == RebalanceCancelling
}

// RebalanceTrigger is the reason why a run began.
type RebalanceTrigger string

const (
	// TriggerManual means that the annotation heartwood.dev/rebalance had a new value.
	TriggerManual RebalanceTrigger = "Manual"
	// TriggerOnScale means that spec.brokers was raised.
	TriggerOnScale RebalanceTrigger = "OnScale"
	// TriggerContinuous means that the brokers were not balanced.
	TriggerContinuous RebalanceTrigger = "Continuous"
	// TriggerDrain means that brokers in spec.drain had replicas.
	TriggerDrain RebalanceTrigger = "Drain"
)

// RebalanceCancel is the value of AnnotationRebalance that cancels any run.
const RebalanceCancel = "cancel"
