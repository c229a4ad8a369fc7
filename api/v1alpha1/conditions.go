package v1alpha1

// Condition types.
const (
	// ConditionReady is True on a LogCluster if all its brokers are up, on a Topic if every partition
	// has a serving leader, and on a LogUser if its credentials, ACLs and quotas are valid and its
	// Secret is written.
	ConditionReady = "Ready"
	// ConditionReplicated is True on a Topic or a LogCluster if all replicas of all partitions are
	// assigned as specified and in sync. On a LogCluster it covers only assigned partitions.
	ConditionReplicated = "Replicated"
	// ConditionScaled is True on a LogCluster if the number of its brokers equals spec.brokers.
	ConditionScaled = "Scaled"
	// ConditionDrained is True on a LogCluster if the brokers in spec.drain hold no replicas. It is
	// absent without spec.drain.
	ConditionDrained = "Drained"
	// ConditionApplied is True on a LogCluster if the operator has applied its spec to the objects
	// that run it.
	ConditionApplied = "Applied"
	// ConditionRollingOut is True on a LogCluster while brokers are being restarted one after the
	// other.
	ConditionRollingOut = "RollingOut"
	// ConditionVersionSkew is True on a LogCluster if the versions of its brokers and of the operator,
	// or the format level, are incompatible.
	ConditionVersionSkew = "VersionSkew"
	// ConditionListenersReady is True on a LogCluster if every listener has an address on every
	// broker. Its message also names listeners on which passwords are not encrypted.
	ConditionListenersReady = "ListenersReady"
	// ConditionCertificatesReady is True on a LogCluster if every certificate is valid and none is
	// due for renewal. If it is False, brokers keep their last valid certificates.
	ConditionCertificatesReady = "CertificatesReady"
	// ConditionUsersReady is True on a LogCluster if brokers have the verifiers of all passwords.
	ConditionUsersReady = "UsersReady"
	// ConditionClientsFailing is True on a LogCluster while clients repeatedly fail to authenticate.
	// It is absent on a LogCluster that does not authenticate clients.
	ConditionClientsFailing = "ClientsFailing"
	// ConditionCompacting is True on a compacted Topic while a cleaning pass is running and no replica
	// is quarantined. If the condition is False, its reason says why no pass is running.
	ConditionCompacting = "Compacting"
	// ConditionReconciling exists while the operator is changing the resource's objects or state.
	// ConditionStalled exists while the operator cannot continue until a user acts. Each is True while
	// it exists, and has the reason and the message of the condition that caused it. At most one of
	// them exists. kubectl, Helm, Flux and other tools read them according to the rules of kstatus.
	ConditionReconciling = "Reconciling"
	ConditionStalled     = "Stalled"
)

// Reasons of ConditionReady.
const (
	// ReasonReady: the condition is True.
	ReasonReady = "Ready"
	// ReasonBrokersNotReady: some brokers of the LogCluster are not up.
	ReasonBrokersNotReady = "BrokersNotReady"
	// ReasonClusterNotFound: the Topic names a LogCluster that does not exist.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonNotEnoughBrokers: the Topic requests more replicas than the LogCluster has brokers.
	ReasonNotEnoughBrokers = "NotEnoughBrokers"
	// ReasonTopicNameTaken: an older Topic of the same LogCluster has the same Kafka name.
	ReasonTopicNameTaken = "TopicNameTaken"
	// ReasonInvalidSettings: the settings contradict the LogCluster's topicDefaults.
	ReasonInvalidSettings = "InvalidSettings"
	// ReasonInvalidInitialReplicas: initialReplicas of a new partition cannot be used.
	ReasonInvalidInitialReplicas = "InvalidInitialReplicas"
	// ReasonPartitionsNotReady: some partitions have no serving leader.
	ReasonPartitionsNotReady = "PartitionsNotReady"
	// ReasonBootstrapPending: clients of a new LogCluster cannot connect yet, because the bootstrap
	// Service has no ready endpoint.
	ReasonBootstrapPending = "BootstrapPending"
	// ReasonTopicNameCollides: an older Topic's Kafka name differs only in '.' and '_'.
	ReasonTopicNameCollides = "TopicNameCollides"
	// ReasonDeleting: the resource is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonSecretNameTaken: a Secret of the LogUser or the LogCluster cannot be created, because a
	// Secret with this name exists that was not created for it. The operator does not overwrite it.
	// The reason also occurs in ConditionCertificatesReady and ConditionUsersReady.
	ReasonSecretNameTaken = "SecretNameTaken"
	// ReasonUserNameTaken: an older LogUser of the same LogCluster has the same principal.
	ReasonUserNameTaken = "UserNameTaken"
	// ReasonPasswordNotFound: the Secret in passwordFrom does not exist or does not contain the key.
	ReasonPasswordNotFound = "PasswordNotFound"
	// ReasonNoListener: no listener of the LogCluster authenticates users of this type.
	ReasonNoListener = "NoListener"
	// ReasonInvalidPassword: the password is empty or not valid for SCRAM.
	ReasonInvalidPassword = "InvalidPassword"
)

// Reasons of ConditionApplied, besides ReasonPaused.
const (
	// ReasonApplied: the objects match the spec.
	ReasonApplied = "Applied"
	// ReasonApplyFailed: the API server has rejected an object; the message contains its error.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonObjectNameTaken: one of the LogCluster's objects cannot be created, because an object with
	// this name exists that was not created for the LogCluster. The operator does not change it.
	ReasonObjectNameTaken = "ObjectNameTaken"
)

// Reasons of ConditionRollingOut.
const (
	// ReasonComplete: every broker runs the latest pod template.
	ReasonComplete = "Complete"
	// ReasonRestarting: a broker is being restarted.
	ReasonRestarting = "Restarting"
	// ReasonObserving: the StatefulSet was changed, and Kubernetes has not yet compared its pods with
	// the new template.
	ReasonObserving = "Observing"
	// ReasonWaiting: the next restart waits for a broker, or for replicas of a partition.
	ReasonWaiting = "Waiting"
	// ReasonStuck: the rolling update has waited for the same broker or partition for 10 minutes.
	ReasonStuck = "Stuck"
	// ReasonPaused: the annotation heartwood.dev/paused pauses changes.
	ReasonPaused = "Paused"
	// ReasonApprovalRequired: spec.rollout.policy is OnApproval, and the latest pod template has not
	// been approved.
	ReasonApprovalRequired = "ApprovalRequired"
	// ReasonOutsideWindow: the next restart waits for the window spec.rollout.window.
	ReasonOutsideWindow = "OutsideWindow"
	// ReasonVersionSkew: condition VersionSkew is True; its message says what to do.
	ReasonVersionSkew = "VersionSkew"
)

// Reasons of ConditionVersionSkew.
const (
	// ReasonCompatible: the versions and the format level are compatible.
	ReasonCompatible = "Compatible"
	// ReasonBrokersBehind: brokers are more than two minor releases behind the operator.
	ReasonBrokersBehind = "BrokersBehind"
	// ReasonBrokersAhead: brokers run a later minor release than the operator. Other brokers are not
	// restarted.
	ReasonBrokersAhead = "BrokersAhead"
	// ReasonFormatLevelRefused: spec.formatLevel is below status.formatLevel, or some brokers do not
	// support it.
	ReasonFormatLevelRefused = "FormatLevelRefused"
	// ReasonFormatLevelUnsupported: some brokers do not support status.formatLevel, and do not serve
	// requests. Other brokers are not restarted.
	ReasonFormatLevelUnsupported = "FormatLevelUnsupported"
)

// Values of BrokerStatus.RestartReason.
const (
	// RestartTemplateChanged: the pod was created from an earlier template.
	RestartTemplateChanged = "TemplateChanged"
	// RestartRequested: the annotation heartwood.dev/restart on the pod or on the LogCluster requests
	// the restart.
	RestartRequested = "RestartRequested"
)

// Reasons of ConditionListenersReady.
const (
	// ReasonListenersReady: every listener has an address on every broker.
	ReasonListenersReady = "ListenersReady"
	// ReasonAddressPending: a Service has no address yet, for example because its load balancer is
	// still being created.
	ReasonAddressPending = "AddressPending"
)

// Reasons of ConditionCertificatesReady.
const (
	// ReasonCertificatesReady: every certificate is valid.
	ReasonCertificatesReady = "CertificatesReady"
	// ReasonCALost: every certificate is valid, but a CA was lost, and its successor will soon issue
	// certificates. An event has this reason, too.
	ReasonCALost = "CALost"
	// ReasonInvalidCertificate: a Secret does not contain a usable certificate and key.
	ReasonInvalidCertificate = "InvalidCertificate"
	// ReasonCertificatePending: cert-manager has not issued a certificate yet. In condition Ready of a
	// LogUser it means that a Secret with a CA does not exist yet.
	ReasonCertificatePending = "CertificatePending"
	// ReasonInvalidOverlap: the annotation heartwood.dev/replace-ca-overlap cannot be used.
	ReasonInvalidOverlap = "InvalidOverlap"
	// ReasonCertificateExpired: a certificate has expired and could not be renewed.
	ReasonCertificateExpired = "CertificateExpired"
)

// Reasons of ConditionClientsFailing.
const (
	// ReasonNoFailures: no client fails repeatedly.
	ReasonNoFailures = "NoFailures"
	// ReasonAuthenticationFailing: clients fail, but none is blocked.
	ReasonAuthenticationFailing = "AuthenticationFailing"
	// ReasonClientsBlocked: brokers reject users at addresses with too many failures.
	ReasonClientsBlocked = "ClientsBlocked"
)

// ReasonUsersReady is the reason of ConditionUsersReady while the condition is True: brokers have
// the verifiers of all passwords.
const ReasonUsersReady = "UsersReady"

// ReasonSecretLost is the reason of an event on a LogUser: the LogUser's Secret was lost and
// created again.
const ReasonSecretLost = "SecretLost"

// Reasons of ConditionReplicated.
const (
	// ReasonInSync: every replica is assigned as specified and in sync.
	ReasonInSync = "InSync"
	// ReasonReassigning: partitions are being reassigned to other brokers, or to another number of
	// replicas.
	ReasonReassigning = "Reassigning"
	// ReasonUnderReplicated: some partitions have a replica that is not in sync.
	ReasonUnderReplicated = "UnderReplicated"
	// ReasonInvalidReassignment: the annotation heartwood.dev/reassign cannot be used.
	ReasonInvalidReassignment = "InvalidReassignment"
)

// Reasons in a Topic's status.problems, from the worst to the mildest, besides ReasonReassigning
// and ReasonUnderReplicated.
const (
	// ReasonReplicaLost: the replicas that can be elected leader have returned with empty disks, or
	// have lost their logs.
	ReasonReplicaLost = "ReplicaLost"
	// ReasonInvalidEntry: the partition's entry in its PartitionSet cannot be parsed.
	ReasonInvalidEntry = "InvalidEntry"
	// ReasonLeaderOffline: no replica that can be elected leader is up.
	ReasonLeaderOffline = "LeaderOffline"
	// ReasonLeaderFailed: the leader does not serve, and its broker reports the cause, such as a
	// failed disk. No other in-sync replica can lead.
	ReasonLeaderFailed = "LeaderFailed"
	// ReasonLeaderStarting: the elected leader does not serve yet, or no longer serves and its broker
	// has not reported the cause.
	ReasonLeaderStarting = "LeaderStarting"
	// ReasonUnassigned: the partition is not assigned to brokers yet.
	ReasonUnassigned = "Unassigned"
)

// Reasons of ConditionScaled, besides ReasonBrokersNotReady.
const (
	// ReasonScaled: the number of brokers equals spec.brokers.
	ReasonScaled = "Scaled"
	// ReasonDraining: brokers will be removed once their replicas have moved to other brokers.
	ReasonDraining = "Draining"
	// ReasonReplicasDoNotFit: after the requested removal of brokers, a Topic would have more replicas
	// than the LogCluster has brokers. No replica is moved, and no broker is removed.
	ReasonReplicasDoNotFit = "ReplicasDoNotFit"
	// ReasonDisksDoNotFit: the remaining brokers' disks do not have enough space for the replicas of
	// the brokers that are to be removed. Replicas without space are not moved, and no broker is
	// removed.
	ReasonDisksDoNotFit = "DisksDoNotFit"
)

// Reasons of ConditionDrained, besides ReasonDraining.
const (
	// ReasonDrained: the brokers in spec.drain hold no replicas.
	ReasonDrained = "Drained"
	// ReasonDrainBlocked: replicas cannot leave the brokers in spec.drain, and no replica is moved.
	ReasonDrainBlocked = "DrainBlocked"
)

// Reasons of ConditionCompacting. No other reason is used.
const (
	// ReasonUpToDate: the log is clean.
	ReasonUpToDate = "UpToDate"
	// ReasonCleaning: a pass is running.
	ReasonCleaning = "Cleaning"
	// ReasonQueued: a pass is due and waits for a worker slot.
	ReasonQueued = "Queued"
	// ReasonBelowDirtyRatio: the dirty ratio is below minDirtyPercent.
	ReasonBelowDirtyRatio = "BelowDirtyRatio"
	// ReasonNothingToReclaim: the dirty section contains too little garbage for a pass.
	ReasonNothingToReclaim = "NothingToReclaim"
	// ReasonActiveSegmentOnly: only the active segment is dirty.
	ReasonActiveSegmentOnly = "ActiveSegmentOnly"
	// ReasonMinLagNotReached: all records of the dirty section are younger than minLag.
	ReasonMinLagNotReached = "MinLagNotReached"
	// ReasonBlockedByOpenTransaction: an open transaction blocks compaction.
	ReasonBlockedByOpenTransaction = "BlockedByOpenTransaction"
	// ReasonQuarantined: a partition's last pass failed; it is retried with backoff.
	ReasonQuarantined = "Quarantined"
	// ReasonCleanerDisabled: the LogCluster has no cleaner workers.
	ReasonCleanerDisabled = "CleanerDisabled"
	// ReasonUnknown: no leader has reported, or all reported reasons are unknown reasons of a newer
	// version.
	ReasonUnknown = "Unknown"
)

// Reasons of events that belong to no condition.
const (
	// EventUncleanElection: the elected leader may lack acknowledged records.
	EventUncleanElection = "UncleanElection"
	// EventApplyFailed: the operator could not apply an object of a LogCluster. The note contains the
	// object's name and the error.
	EventApplyFailed = ReasonApplyFailed
	// EventRebalanceStarted: a run that moves replicas has begun. The note contains the reason.
	EventRebalanceStarted = "RebalanceStarted"
	// EventRebalanceEnded: a run that moves replicas has ended. The note contains the outcome.
	EventRebalanceEnded = "RebalanceEnded"
	// EventBrokerIsolated: a broker is cut off from other brokers. Other brokers lead its partitions.
	EventBrokerIsolated = "BrokerIsolated"
	// EventBrokerReconnected: an isolated broker reaches the other brokers again.
	EventBrokerReconnected = "BrokerReconnected"
	// EventRestarting: the operator restarts a broker; the note contains the reason.
	EventRestarting = ReasonRestarting
	// EventReplicasLent: partitions with one replica get a second replica before their broker
	// restarts.
	EventReplicasLent = "ReplicasLent"
	// EventReplicasReturned: partitions lose the second replica that was lent to them.
	EventReplicasReturned = "ReplicasReturned"
)
