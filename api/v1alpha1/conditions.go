package v1alpha1

// Condition types.
const (
	// ConditionReady: a LogCluster is Ready when all its brokers are up, a Topic when every partition has a serving
	// leader, a Partition when its leader serves its leaderEpoch.
	ConditionReady = "Ready"
	// ConditionCompacting tells whether the cleaner works on a compacted Topic, and if not, why not.
	ConditionCompacting = "Compacting"
)

// Reasons of ConditionReady.
const (
	// ReasonReady: all is well.
	ReasonReady = "Ready"
	// ReasonBrokersNotReady: some brokers of the LogCluster are not up.
	ReasonBrokersNotReady = "BrokersNotReady"
	// ReasonClusterNotFound: the Topic names a LogCluster that does not exist.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonNotEnoughBrokers: the Topic wants more replicas than the LogCluster has brokers.
	ReasonNotEnoughBrokers = "NotEnoughBrokers"
	// ReasonTopicNameTaken: an older Topic of the same LogCluster has the same topicName.
	ReasonTopicNameTaken = "TopicNameTaken"
	// ReasonInvalidSettings: the settings contradict those that the LogCluster gives by default.
	ReasonInvalidSettings = "InvalidSettings"
	// ReasonUnsupported: this version cannot do what the spec asks; the message says what.
	ReasonUnsupported = "Unsupported"
	// ReasonPartitionNameTaken: Partitions of another LogCluster have the names that those of the Topic need.
	ReasonPartitionNameTaken = "PartitionNameTaken"
	// ReasonRetained: the Topic is gone and the Partition remembers where its records are, for a Topic of the same name.
	ReasonRetained = "Retained"
	// ReasonPartitionsNotReady: some partitions have no serving leader.
	ReasonPartitionsNotReady = "PartitionsNotReady"
	// ReasonLeaderOffline: no replica of the Partition that may lead it is up.
	ReasonLeaderOffline = "LeaderOffline"
	// ReasonReplicaLost: the only replica that may lead the Partition returned with an empty disk.
	ReasonReplicaLost = "ReplicaLost"
	// ReasonLeaderStarting: the leader is elected but does not serve yet, or not any more since its disk failed.
	ReasonLeaderStarting = "LeaderStarting"
	// ReasonDeleting: the resource is being deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of ConditionCompacting: a closed set.
const (
	// ReasonUpToDate: nothing is dirty.
	ReasonUpToDate = "UpToDate"
	// ReasonCleaning: a pass runs.
	ReasonCleaning = "Cleaning"
	// ReasonQueued: a pass is due and waits for a worker.
	ReasonQueued = "Queued"
	// ReasonBelowDirtyRatio: there is a dirty section, smaller than minDirtyPercent.
	ReasonBelowDirtyRatio = "BelowDirtyRatio"
	// ReasonNothingToReclaim: the dirty section holds no garbage worth a pass.
	ReasonNothingToReclaim = "NothingToReclaim"
	// ReasonActiveSegmentOnly: all that is dirty lies in active segments.
	ReasonActiveSegmentOnly = "ActiveSegmentOnly"
	// ReasonMinLagNotReached: all that is dirty is younger than minLag.
	ReasonMinLagNotReached = "MinLagNotReached"
	// ReasonBlockedByOpenTransaction: an open transaction holds the cleaner back.
	ReasonBlockedByOpenTransaction = "BlockedByOpenTransaction"
	// ReasonQuarantined: a partition's last pass failed; it is tried again with back-off.
	ReasonQuarantined = "Quarantined"
	// ReasonCleanerDisabled: the LogCluster has no cleaner workers.
	ReasonCleanerDisabled = "CleanerDisabled"
	// ReasonUnknown: no broker could be asked.
	ReasonUnknown = "Unknown"
)

// Events that tell of no condition.
const (
	// EventApplyFailed: the API server refused an object of a LogCluster; the note says which, and why.
	EventApplyFailed = "ApplyFailed"
)
