package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Transactions configures transactional producers. Changes take effect at once, except for
// stateTopic.
type Transactions struct {
	// MaxTimeout is the maximum transaction.timeout.ms of a producer (transaction.max.timeout.ms), 1s
	// to 168h. A transaction that stays open for longer than its timeout is aborted. Until a
	// transaction ends, consumers with read_committed do not read past its first record, and the
	// cleaner does not compact its partitions from that record on. Flink's sink requests 1h. Default
	// 15m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1s') && duration(self) <= duration('168h')",message="write a duration of 1s to 168h, such as 15m"
	MaxTimeout *metav1.Duration `json:"maxTimeout,omitempty"`
	// IDExpiration is the time for which an unused transactional id is kept
	// (transactional.id.expiration.ms), 1m to 596h. A producer that uses its id after this time gets
	// INVALID_PRODUCER_ID_MAPPING and must be restarted. Default 168h.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.size() > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?([0-9]{1,12}([.][0-9]{1,9})?ms)?$') && duration(self) >= duration('1m') && duration(self) <= duration('596h')",message="write a duration of 1m to 596h, such as 168h"
	IDExpiration *metav1.Duration `json:"idExpiration,omitempty"`
	// StateTopic configures the creation of __transaction_state when the first producer uses a
	// transactional id. It has no effect on an existing topic. The Topic resource contains all
	// other settings of this topic.
	// +optional
	StateTopic *StateTopic `json:"stateTopic,omitempty"`
}

// StateTopic configures the topic that stores transactional ids.
type StateTopic struct {
	// Partitions is the number of partitions (transaction.state.log.num.partitions). It can never
	// change, because the hash of a transactional id selects the partition. Default 50.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Partitions *int32 `json:"partitions,omitempty"`
	// Replicas is the number of replicas of each partition
	// (transaction.state.log.replication.factor). Default 3, or the number of brokers if that is
	// less.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Replicas *int32 `json:"replicas,omitempty"`
}
