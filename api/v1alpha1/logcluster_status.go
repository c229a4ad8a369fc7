package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LogClusterStatus is the observed state of a LogCluster. The operator writes it.
type LogClusterStatus struct {
	// ObservedGeneration is the metadata.generation on which this status is based.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyBrokers is the number of available brokers: their pods are ready, and they renew their
	// Leases.
	// +kubebuilder:default=0
	ReadyBrokers int32 `json:"readyBrokers"`
	// Bootstrap is the bootstrap address for clients inside the Kubernetes cluster, host:port.
	// +optional
	Bootstrap string `json:"bootstrap,omitempty"`
	// Listeners contains the listeners with their bootstrap addresses.
	// +optional
	// +listType=map
	// +listMapKey=name
	Listeners []ListenerStatus `json:"listeners,omitempty"`
	// Bootstrapped is true once clients have been able to connect, which means that the bootstrap
	// Service has had a ready endpoint. It then stays true. Before that, Topics are not Ready.
	// +optional
	Bootstrapped bool `json:"bootstrapped,omitempty"`
	// Topics is the cluster's number of Topics.
	// +kubebuilder:default=0
	Topics int32 `json:"topics"`
	// Partitions is the number of partitions of these Topics.
	// +kubebuilder:default=0
	Partitions int32 `json:"partitions"`
	// UnderReplicatedPartitions is the number of partitions that have no leader or have a replica that
	// is not in sync.
	// +kubebuilder:default=0
	UnderReplicatedPartitions int32 `json:"underReplicatedPartitions"`
	// LeaderlessPartitions is the number of partitions without a leader. These partitions serve
	// neither reads nor writes.
	// +optional
	LeaderlessPartitions int32 `json:"leaderlessPartitions,omitempty"`
	// DrainingReplicas is the number of replicas on brokers that are to be removed.
	// +optional
	DrainingReplicas int32 `json:"drainingReplicas,omitempty"`
	// LentReplicas is the number of partitions with one replica that have a second replica while their
	// broker is restarted (spec.rollout.singleReplica).
	// +optional
	LentReplicas int32 `json:"lentReplicas,omitempty"`
	// Brokers contains the brokers, sorted by id.
	// +optional
	// +listType=map
	// +listMapKey=id
	Brokers []BrokerStatus `json:"brokers,omitempty"`
	// UpdateRevision is the revision of the brokers' latest pod template. With rollout policy
	// OnApproval, the user approves the rolling update with this value.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// FormatLevel is the LogCluster's format level. Brokers can use formats of files, and of requests
	// to each other, up to this level. A version can run the brokers only if it supports this level.
	// The level is never lowered.
	// +optional
	FormatLevel int32 `json:"formatLevel,omitempty"`
	// FormatLevelRaiseTime is the time at which formatLevel rises by one. It is absent with
	// spec.formatLevel, or if some brokers do not support a higher level.
	// +optional
	FormatLevelRaiseTime *metav1.Time `json:"formatLevelRaiseTime,omitempty"`
	// Rebalance is the state of replica moves between brokers.
	// +optional
	Rebalance *RebalanceStatus `json:"rebalance,omitempty"`
	// RetainedPartitions is the number of partitions of deleted topics whose records are retained or
	// being removed.
	// +optional
	RetainedPartitions int32 `json:"retainedPartitions,omitempty"`
	// RetainedTopics contains at most 20 of these deleted topics, sorted by name.
	// +optional
	// +listType=atomic
	RetainedTopics []RetainedTopic `json:"retainedTopics,omitempty"`
	// LostVolumes contains the brokers whose volumes are lost. These brokers do not serve until the
	// replacement of their volumes is permitted.
	// +optional
	// +listType=map
	// +listMapKey=broker
	LostVolumes []LostVolume `json:"lostVolumes,omitempty"`
	// NextCertificateExpiry is the certificate that expires first. It is absent without TLS.
	// +optional
	NextCertificateExpiry *CertificateExpiry `json:"nextCertificateExpiry,omitempty"`
	// Conditions are Ready, Replicated, Applied, Scaled, Drained, RollingOut, Spread, VersionSkew,
	// StoragePressure, StorageResized, VolumeLost, ListenersReady, CertificatesReady, UsersReady,
	// ClientsFailing, Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ListenerStatus is a listener's status: its type and its bootstrap address.
type ListenerStatus struct {
	// Name is the listener's name.
	Name string `json:"name"`
	// Type is the listener's type.
	Type ListenerType `json:"type"`
	// Bootstrap is the bootstrap address, host:port,.... For types other than Internal, it contains
	// the addresses of up to three brokers. It is absent until an address is known.
	// +optional
	Bootstrap string `json:"bootstrap,omitempty"`
}

// BrokerStatus is the status of one broker.
type BrokerStatus struct {
	// ID is the broker id.
	ID int32 `json:"id"`
	// Version is the Heartwood version that the broker runs.
	// +optional
	Version string `json:"version,omitempty"`
	// FormatLevel is the highest format level that the broker supports.
	// +optional
	FormatLevel int32 `json:"formatLevel,omitempty"`
	// Ready is true if the broker's pod is ready and the broker renews its Lease.
	Ready bool `json:"ready"`
	// Leaders is the number of partitions that the broker leads.
	Leaders int32 `json:"leaders"`
	// Rack is the broker's rack: the value of label spec.rackKey of the broker's node.
	// +optional
	Rack string `json:"rack,omitempty"`
	// RestartReason is the reason why the broker must be restarted: TemplateChanged, RestartRequested,
	// VolumeResized or StorageClassChanged. It is absent if no restart is needed.
	// +optional
	RestartReason string `json:"restartReason,omitempty"`
	// Volume is the broker's volume. It is absent until the broker has measured the volume.
	// +optional
	Volume *BrokerVolume `json:"volume,omitempty"`
	// Scrub is the state of the broker's scrub, which checks everything that the broker keeps at rest.
	// It is absent until the broker has reported it.
	// +optional
	Scrub *BrokerScrub `json:"scrub,omitempty"`
}

// CertificateExpiry is the expiry of a certificate. The operator renews its own certificates before
// they expire.
type CertificateExpiry struct {
	// Certificate is the certificate's name, as in metric
	// heartwood_certificate_expiry_timestamp_seconds.
	Certificate string `json:"certificate"`
	// Time is the time of the expiry.
	Time metav1.Time `json:"time"`
}

// Paused reports whether AnnotationPaused pauses changes of the LogCluster.
func (c *LogCluster) Paused() bool { return c.Annotations[AnnotationPaused] == "true" }
