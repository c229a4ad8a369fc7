package v1alpha1

// Condition types.
const (
	// ConditionReady: a LogCluster is Ready when all its brokers are up, a Topic when every
	// partition has a serving leader, a Partition when its leader serves its leaderEpoch.
	ConditionReady = "Ready"
	// ConditionReplicated: a Topic is Replicated when each of its partitions has all its replicas,
	// where they are to be and in sync.
	ConditionReplicated = "Replicated"
	// ConditionScaled: a LogCluster is Scaled when it has as many brokers as it asks for.
	ConditionScaled = "Scaled"
	// ConditionCompacting tells whether the cleaner works on a compacted Topic, and if not, why
	// not.
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
	// ReasonPartitionNameTaken: Partitions of another LogCluster have the names that those of the
	// Topic need.
	ReasonPartitionNameTaken = "PartitionNameTaken"
	// ReasonRetained: the Topic is gone and the Partition remembers where its records are, for a
	// Topic of the same name.
	ReasonRetained = "Retained"
	// ReasonPartitionsNotReady: some partitions have no serving leader.
	ReasonPartitionsNotReady = "PartitionsNotReady"
	// ReasonLeaderOffline: no replica of the Partition that may lead it is up.
	ReasonLeaderOffline = "LeaderOffline"
	// ReasonReplicaLost: the replicas that may lead the Partition returned with empty disks.
	ReasonReplicaLost = "ReplicaLost"
	// ReasonLeaderStarting: the leader is elected but does not serve yet, or not any more since its
	// disk failed.
	ReasonLeaderStarting = "LeaderStarting"
	// ReasonDeleting: the resource is being deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of ConditionReplicated.
const (
	// ReasonInSync: every replica is where it is to be, and in sync.
	ReasonInSync = "InSync"
	// ReasonReassigning: partitions move to other brokers, or get another number of replicas.
	ReasonReassigning = "Reassigning"
	// ReasonUnderReplicated: some partitions have fewer in-sync replicas than replicas.
	ReasonUnderReplicated = "UnderReplicated"
)

// Reasons of ConditionScaled, besides ReasonReplicasDoNotFit.
const (
	// ReasonScaled: there are as many brokers as spec.brokers.
	ReasonScaled = "Scaled"
	// ReasonDraining: brokers are to go, and hold replicas still that move to the others first.
	ReasonDraining = "Draining"
	// ReasonReplicasDoNotFit: brokers are to go, and some Topic has more replicas than would be
	// left: nothing moves, no broker goes.
	ReasonReplicasDoNotFit = "ReplicasDoNotFit"
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
	// EventUncleanElection: a leader was elected that may lack acknowledged records.
	EventUncleanElection = "UncleanElection"
	// EventApplyFailed: the API server refused an object of a LogCluster; the note says which, and
	// why.
	EventApplyFailed = "ApplyFailed"
)
