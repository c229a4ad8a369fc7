package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// LogClusterStatus is the observed state of a LogCluster. The operator writes it.
type LogClusterStatus struct {
	// ObservedGeneration is the metadata.generation that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// ReadyBrokers is the number of available brokers: their pods are ready, and they renew their
	// Leases.
	// +kubebuilder:default=0
	ReadyBrokers int32 `json:"readyBrokers"`
	// Bootstrap is the bootstrap address of clients inside the Kubernetes cluster, host:port.
	// +optional
	Bootstrap string `json:"bootstrap,omitempty"`
	// Listeners are the listeners with their bootstrap addresses.
	// +optional
	// +listType=map
	// +listMapKey=name
	Listeners []ListenerStatus `json:"listeners,omitempty"`
	// Bootstrapped is true once clients have been able to connect: the bootstrap Service has had a
	// ready endpoint. It stays true. Topics are not Ready before.
	// +optional
	Bootstrapped bool `json:"bootstrapped,omitempty"`
	// Topics is the number of Topics of the cluster.
	// +kubebuilder:default=0
	Topics int32 `json:"topics"`
	// Partitions is the number of partitions of these Topics.
	// +kubebuilder:default=0
	Partitions int32 `json:"partitions"`
	// UnderReplicated is the number of partitions without a leader or with a replica that is not in
	// sync.
	// +kubebuilder:default=0
	UnderReplicated int32 `json:"underReplicated"`
	// Leaderless is the number of partitions without a leader. They serve neither reads nor writes.
	// +optional
	Leaderless int32 `json:"leaderless,omitempty"`
	// Draining is the number of replicas on brokers that are to be removed.
	// +optional
	Draining int32 `json:"draining,omitempty"`
	// LentReplicas is the number of partitions with one replica that have a second one while their
	// broker is restarted (spec.rollout.singleReplica).
	// +optional
	LentReplicas int32 `json:"lentReplicas,omitempty"`
	// Brokers are the brokers by id.
	// +optional
	// +listType=map
	// +listMapKey=id
	Brokers []BrokerStatus `json:"brokers,omitempty"`
	// UpdateRevision is the revision of the latest pod template of the brokers. With rollout policy
	// OnApproval, it is the value that approves the rolling update.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`
	// FormatLevel is the format level of the LogCluster: brokers may use formats of files and of
	// requests between them up to this level. A version that supports it can run the brokers. It is
	// never lowered.
	// +optional
	FormatLevel int32 `json:"formatLevel,omitempty"`
	// FormatLevelRaise is when formatLevel rises by one. It is absent if not all brokers support a
	// higher level, and with spec.formatLevel.
	// +optional
	FormatLevelRaise *metav1.Time `json:"formatLevelRaise,omitempty"`
	// Rebalance is the state of the moves of replicas between brokers.
	// +optional
	Rebalance *RebalanceStatus `json:"rebalance,omitempty"`
	// RetainedPartitions is the number of partitions of deleted topics whose records are retained or
	// being removed.
	// +optional
	RetainedPartitions int32 `json:"retainedPartitions,omitempty"`
	// RetainedTopics are these deleted topics, at most 20, sorted by name.
	// +optional
	// +listType=atomic
	RetainedTopics []RetainedTopic `json:"retainedTopics,omitempty"`
	// LostVolumes are the brokers whose volumes are lost. They do not serve until their replacement
	// is permitted.
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

// ListenerStatus is how clients reach a listener.
type ListenerStatus struct {
	// Name is the name of the listener.
	Name string `json:"name"`
	// Type is the type of the listener.
	Type ListenerType `json:"type"`
	// Bootstrap is the bootstrap address, host:port,...; of a type other than Internal it contains
	// the addresses of up to three brokers. It is absent until an address is known.
	// +optional
	Bootstrap string `json:"bootstrap,omitempty"`
}

// BrokerStatus is the status of one broker.
type BrokerStatus struct {
	// ID is the broker id.
	ID int32 `json:"id"`
	// Version is the version of Heartwood that the broker runs.
	// +optional
	Version string `json:"version,omitempty"`
	// FormatLevel is the highest format level that the broker supports.
	// +optional
	FormatLevel int32 `json:"formatLevel,omitempty"`
	// Ready is true if the broker's pod is ready and the broker renews its Lease.
	Ready bool `json:"ready"`
	// Leaders is the number of partitions that the broker leads.
	Leaders int32 `json:"leaders"`
	// Zone is the rack of the broker: the value of label spec.rackKey of its node.
	// +optional
	Zone string `json:"zone,omitempty"`
	// RestartReason says why the broker is to be restarted: TemplateChanged, RestartRequested,
	// VolumeResized or StorageClassChanged. It is absent if the broker is not to be restarted.
	// +optional
	RestartReason string `json:"restartReason,omitempty"`
	// Volume is the volume of the broker. It is absent until the broker has measured it.
	// +optional
	Volume *BrokerVolume `json:"volume,omitempty"`
	// Scrub is the check of everything that the broker keeps at rest. It is absent until the broker
	// has reported it.
	// +optional
	Scrub *BrokerScrub `json:"scrub,omitempty"`
}

// CertificateExpiry is when a certificate expires. The operator renews its own before.
type CertificateExpiry struct {
	// Certificate is its name, as in metric heartwood_certificate_expiry_timestamp_seconds.
	Certificate string `json:"certificate"`
	// Time is when it expires.
	Time metav1.Time `json:"time"`
}

// Paused reports whether AnnotationPaused pauses changes of the LogCluster.
func (c *LogCluster) Paused() bool { return c.Annotations[AnnotationPaused] == "true" }
