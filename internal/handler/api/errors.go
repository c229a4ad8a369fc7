package api

import (
	"context"
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/coordinator"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/transaction"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/pressure"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/replica/session"
)

// Errors in requests that the handlers themselves detect. Other packages define the other errors in
// kafkaErrors.
var (
	ErrInvalidRequest      = errors.New("invalid request")
	ErrUnsupportedVersion  = errors.New("unsupported version")
	ErrRebootstrap         = errors.New("connected to another broker")
	ErrInvalidAcks         = errors.New("invalid required acks")
	ErrUnknownTopicID      = errors.New("unknown topic id")
	ErrLeaderNotAvailable  = errors.New("leader not available")
	errListenerNotFound    = errors.New("leader has no endpoint on this listener")
	ErrMismatchedEndpoint  = errors.New("endpoint type is served by other nodes")
	ErrInternalTopic       = errors.New("topic is written by the brokers only")
	ErrUnsupportedEndpoint = errors.New("unsupported endpoint type")
	ErrLogDirNotFound      = errors.New("the broker has no such data directory")
	ErrReplicaNotAvailable = errors.New("the broker has no replica of the partition")

	ErrInvalidUpdateVersion = errors.New("invalid update version")
	ErrNotAttempted         = errors.New("another part of the request was refused")

	ErrTopicAuthorization           = errors.New("not authorized to access the topic")
	errGroupAuthorization           = errors.New("not authorized to access the group")
	errClusterAuthorization         = errors.New("not authorized to access the cluster")
	ErrTransactionalIDAuthorization = errors.New("not authorized to use the transactional id")
)

// kafkaError is an error in the Kafka protocol.
type kafkaError struct {
	Code int16
	name string // name in Kafka's class Errors, for metrics
}

var (
	noError      = kafkaError{0, ""}
	unknownError = kafkaError{-1, "UNKNOWN_SERVER_ERROR"}
)

// Errors for requests that the broker refuses. Their texts are sent to clients if the response has
// a field for them.
var (
	ErrNoTransactions = errors.New("transactions are not supported yet")
	ErrNoSASL         = errors.New("SASL is not enabled on the listener, or is complete")
	ErrNoAuthorizer   = errors.New("No Authorizer is configured") //nolint:staticcheck // Kafka's
	ErrNoTokens       = errors.New("delegation tokens need an authenticated connection")
	ErrNoUsers        = Unsupported("no listener authenticates clients")
)

// Errors for SCRAM credentials.
var (
	//nolint:staticcheck // text of Kafka
	ErrNotDescribed = errors.New("Attempt to describe a user credential that does not exist")
	//nolint:staticcheck // text of Kafka
	ErrUnknownCredential = errors.New("Attempt to delete a user credential that does not exist")
	ErrDuplicateUser     = errors.New("the request names the user more than once")
	ErrUnacceptable      = errors.New("unacceptable credential")
	ErrUnsupportedSASL   = errors.New("unknown SCRAM mechanism")
)

// errReadOnly is the error for all changes by admin requests if the LogCluster can only be changed
// by manifests.
var errReadOnly = fmt.Errorf(
	"%w: the LogCluster has adminAPI: ReadOnly; change its resources with kubectl or by manifest",
	metadata.ErrPolicy,
)

// Unsupported returns an error whose code is UNSUPPORTED_VERSION.
func Unsupported(text string) error { return &unsupportedError{text} }

type unsupportedError struct{ text string }

func (e *unsupportedError) Error() string { return e.text }
func (e *unsupportedError) Unwrap() error { return ErrUnsupportedVersion }

// Invalid returns an error whose code is INVALID_REQUEST.
func Invalid(text string) error { return &invalidError{text} }

type invalidError struct{ text string }

func (e *invalidError) Error() string { return e.text }
func (e *invalidError) Unwrap() error { return ErrInvalidRequest }

// kafkaErrors maps errors to the codes that clients receive. The first matching row is used, so the
// order of the rows matters for an error that wraps errors from two rows.
var kafkaErrors = []struct {
	err error
	kafkaError
}{
	// Coordinators. These errors wrap errors of the coordinator's partition, so their rows must come
	// first.
	{coordinator.ErrNotCoordinator, kafkaError{16, "NOT_COORDINATOR"}},
	{coordinator.ErrLoading, kafkaError{14, "COORDINATOR_LOAD_IN_PROGRESS"}},
	{coordinator.ErrNotAvailable, kafkaError{15, "COORDINATOR_NOT_AVAILABLE"}},
	{group.ErrUnknownMember, kafkaError{25, "UNKNOWN_MEMBER_ID"}},
	{group.ErrIllegalGeneration, kafkaError{22, "ILLEGAL_GENERATION"}},
	{group.ErrRebalanceInProgress, kafkaError{27, "REBALANCE_IN_PROGRESS"}},
	{group.ErrMemberIDRequired, kafkaError{79, "MEMBER_ID_REQUIRED"}},
	{group.ErrFencedInstance, kafkaError{82, "FENCED_INSTANCE_ID"}},
	{group.ErrInconsistentProtocol, kafkaError{23, "INCONSISTENT_GROUP_PROTOCOL"}},
	{group.ErrInvalidGroup, kafkaError{24, "INVALID_GROUP_ID"}},
	{group.ErrInvalidSession, kafkaError{26, "INVALID_SESSION_TIMEOUT"}},
	{group.ErrGroupFull, kafkaError{81, "GROUP_MAX_SIZE_REACHED"}},
	{group.ErrNotEmpty, kafkaError{68, "NON_EMPTY_GROUP"}},
	{group.ErrNotFound, kafkaError{69, "GROUP_ID_NOT_FOUND"}},
	{group.ErrSubscribed, kafkaError{86, "GROUP_SUBSCRIBED_TO_TOPIC"}},
	{group.ErrMetadataTooLarge, kafkaError{12, "OFFSET_METADATA_TOO_LARGE"}},
	{group.ErrRecordTooLarge, unknownError}, // as in Kafka
	{group.ErrUnstable, kafkaError{88, "UNSTABLE_OFFSET_COMMIT"}},
	{group.ErrOldProtocol, kafkaError{35, "UNSUPPORTED_VERSION"}},
	// Errors for groups that use the consumer protocol.
	{consumer.ErrInvalid, kafkaError{42, "INVALID_REQUEST"}},
	{consumer.ErrFencedEpoch, kafkaError{110, "FENCED_MEMBER_EPOCH"}},
	{consumer.ErrUnreleasedInstance, kafkaError{111, "UNRELEASED_INSTANCE_ID"}},
	{consumer.ErrUnsupportedAssignor, kafkaError{112, "UNSUPPORTED_ASSIGNOR"}},
	{consumer.ErrStaleEpoch, kafkaError{113, "STALE_MEMBER_EPOCH"}},
	{consumer.ErrInvalidExpression, kafkaError{128, "INVALID_REGULAR_EXPRESSION"}},
	{consumer.ErrTooLarge, unknownError}, // as in Kafka
	// Errors in the produced batch.
	{record.ErrUnsupportedCodec, kafkaError{76, "UNSUPPORTED_COMPRESSION_TYPE"}},
	{record.ErrInvalidTimestamp, kafkaError{32, "INVALID_TIMESTAMP"}},
	{record.ErrInvalidRecord, kafkaError{87, "INVALID_RECORD"}},
	{record.ErrMessageTooLarge, kafkaError{10, "MESSAGE_TOO_LARGE"}},
	{record.ErrCorrupt, kafkaError{2, "CORRUPT_MESSAGE"}},
	{logstore.ErrBatchTooLarge, kafkaError{18, "RECORD_LIST_TOO_LARGE"}},
	{logstore.ErrInvalidProducerEpoch, kafkaError{47, "INVALID_PRODUCER_EPOCH"}},
	{logstore.ErrOutOfOrderSequence, kafkaError{45, "OUT_OF_ORDER_SEQUENCE_NUMBER"}},
	{logstore.ErrInvalidTxnState, kafkaError{48, "INVALID_TXN_STATE"}},
	// The producer retries after this error, and the leader then verifies the transaction again.
	{logstore.ErrVerificationOutdated, kafkaError{19, "NOT_ENOUGH_REPLICAS"}},
	{logstore.ErrCoordinatorFenced, kafkaError{52, "TRANSACTION_COORDINATOR_FENCED"}},
	// Errors for transactional ids.
	{coordinator.ErrInvalidTransactionalID, kafkaError{42, "INVALID_REQUEST"}},
	{transaction.ErrInvalidTimeout, kafkaError{50, "INVALID_TRANSACTION_TIMEOUT"}},
	{transaction.ErrInvalidMapping, kafkaError{49, "INVALID_PRODUCER_ID_MAPPING"}},
	{transaction.ErrFenced, kafkaError{90, "PRODUCER_FENCED"}},
	{transaction.ErrConcurrent, kafkaError{51, "CONCURRENT_TRANSACTIONS"}},
	{transaction.ErrInvalidState, kafkaError{48, "INVALID_TXN_STATE"}},
	{transaction.ErrNotFound, kafkaError{105, "TRANSACTIONAL_ID_NOT_FOUND"}},
	// Errors from the log.
	{replica.ErrOffsetNotAvailable, kafkaError{78, "OFFSET_NOT_AVAILABLE"}},
	{logstore.ErrOffsetOutOfRange, kafkaError{1, "OFFSET_OUT_OF_RANGE"}},
	{logstore.ErrFencedLeaderEpoch, kafkaError{74, "FENCED_LEADER_EPOCH"}},
	{logstore.ErrStorage, kafkaError{56, "KAFKA_STORAGE_ERROR"}},
	// A log is closed when its replica moves to another broker, or when the broker stops. In both
	// cases, the client must find the new leader.
	{logstore.ErrClosed, kafkaError{6, "NOT_LEADER_OR_FOLLOWER"}},
	// Errors for the partition and for fetch sessions.
	{replica.ErrUnknownPartition, kafkaError{3, "UNKNOWN_TOPIC_OR_PARTITION"}},
	{logstore.ErrFollows, kafkaError{6, "NOT_LEADER_OR_FOLLOWER"}},
	{replica.ErrInconsistentTopicID, kafkaError{100, "UNKNOWN_TOPIC_ID"}},
	{session.ErrNotFound, kafkaError{70, "FETCH_SESSION_ID_NOT_FOUND"}},
	{session.ErrEpoch, kafkaError{71, "INVALID_FETCH_SESSION_EPOCH"}},
	{session.ErrTopicIDs, kafkaError{106, "FETCH_SESSION_TOPIC_ID_ERROR"}},
	{replica.ErrStaleReplica, kafkaError{77, "STALE_BROKER_EPOCH"}},
	{replica.ErrNotEnoughReplicasAfterAppend, kafkaError{20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}},
	{replica.ErrNotLeader, kafkaError{6, "NOT_LEADER_OR_FOLLOWER"}},
	{replica.ErrNotEnoughReplicas, kafkaError{19, "NOT_ENOUGH_REPLICAS"}},
	// Every client retries after this error, without new Metadata requests.
	{pressure.ErrRejected, kafkaError{19, "NOT_ENOUGH_REPLICAS"}},
	// Errors of the verification of a transaction. They may wrap ErrNotEnoughReplicas or
	// ErrInvalidTxnState, whose rows come first.
	{replica.ErrNotInTransaction, kafkaError{120, "TRANSACTION_ABORTABLE"}},
	{replica.ErrConcurrentTransactions, kafkaError{51, "CONCURRENT_TRANSACTIONS"}},
	{replica.ErrInvalidProducerIDMapping, kafkaError{49, "INVALID_PRODUCER_ID_MAPPING"}},
	{replica.ErrTimeout, kafkaError{7, "REQUEST_TIMED_OUT"}},
	{replica.ErrUnknownLeaderEpoch, kafkaError{75, "UNKNOWN_LEADER_EPOCH"}},
	{context.Canceled, kafkaError{7, "REQUEST_TIMED_OUT"}},
	{context.DeadlineExceeded, kafkaError{7, "REQUEST_TIMED_OUT"}},
	// Errors of metadata and of metadata changes.
	{metadata.ErrTopicExists, kafkaError{36, "TOPIC_ALREADY_EXISTS"}},
	{metadata.ErrTopicNotFound, kafkaError{3, "UNKNOWN_TOPIC_OR_PARTITION"}},
	{metadata.ErrInvalidTopicName, kafkaError{17, "INVALID_TOPIC_EXCEPTION"}},
	{metadata.ErrInvalidPartitions, kafkaError{37, "INVALID_PARTITIONS"}},
	{metadata.ErrInvalidReplication, kafkaError{38, "INVALID_REPLICATION_FACTOR"}},
	{metadata.ErrInvalidProperty, kafkaError{42, "INVALID_REQUEST"}},
	{metadata.ErrInvalidSettings, kafkaError{40, "INVALID_CONFIG"}},
	{metadata.ErrPolicy, kafkaError{44, "POLICY_VIOLATION"}},
	{metadata.ErrUnknownPartition, kafkaError{3, "UNKNOWN_TOPIC_OR_PARTITION"}},
	{metadata.ErrInvalidAssignment, kafkaError{39, "INVALID_REPLICA_ASSIGNMENT"}},
	{metadata.ErrNoReassignment, kafkaError{85, "NO_REASSIGNMENT_IN_PROGRESS"}},
	{metadata.ErrElectionNotNeeded, kafkaError{84, "ELECTION_NOT_NEEDED"}},
	{metadata.ErrPreferredUnavailable, kafkaError{80, "PREFERRED_LEADER_NOT_AVAILABLE"}},
	{metadata.ErrUnavailable, kafkaError{7, "REQUEST_TIMED_OUT"}}, // clients retry after this error
	// Errors in the request.
	{ErrInvalidRequest, kafkaError{42, "INVALID_REQUEST"}},
	{ErrUnsupportedVersion, kafkaError{35, "UNSUPPORTED_VERSION"}},
	{ErrRebootstrap, kafkaError{129, "REBOOTSTRAP_REQUIRED"}},
	{ErrInvalidAcks, kafkaError{21, "INVALID_REQUIRED_ACKS"}},
	{ErrInternalTopic, kafkaError{17, "INVALID_TOPIC_EXCEPTION"}},
	{ErrUnknownTopicID, kafkaError{100, "UNKNOWN_TOPIC_ID"}},
	{ErrLeaderNotAvailable, kafkaError{5, "LEADER_NOT_AVAILABLE"}},
	{errListenerNotFound, kafkaError{72, "LISTENER_NOT_FOUND"}},
	{ErrNotAttempted, kafkaError{55, "OPERATION_NOT_ATTEMPTED"}},
	{ErrNoTransactions, kafkaError{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}},
	{ErrNoSASL, kafkaError{34, "ILLEGAL_SASL_STATE"}},
	{ErrNoAuthorizer, kafkaError{54, "SECURITY_DISABLED"}},
	{ErrUnsupportedSASL, kafkaError{33, "UNSUPPORTED_SASL_MECHANISM"}},
	{ErrNotDescribed, kafkaError{91, "RESOURCE_NOT_FOUND"}},
	{ErrUnknownCredential, kafkaError{91, "RESOURCE_NOT_FOUND"}},
	{ErrDuplicateUser, kafkaError{92, "DUPLICATE_RESOURCE"}},
	{errThrottled, kafkaError{89, "THROTTLING_QUOTA_EXCEEDED"}},
	{ErrUnacceptable, kafkaError{93, "UNACCEPTABLE_CREDENTIAL"}},
	{ErrNoTokens, kafkaError{64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"}},
	{ErrLogDirNotFound, kafkaError{57, "LOG_DIR_NOT_FOUND"}},
	{ErrReplicaNotAvailable, kafkaError{9, "REPLICA_NOT_AVAILABLE"}},
	{ErrInvalidUpdateVersion, kafkaError{95, "INVALID_UPDATE_VERSION"}},
	{ErrMismatchedEndpoint, kafkaError{114, "MISMATCHED_ENDPOINT_TYPE"}},
	{ErrUnsupportedEndpoint, kafkaError{115, "UNSUPPORTED_ENDPOINT_TYPE"}},
	{ErrTopicAuthorization, kafkaError{29, "TOPIC_AUTHORIZATION_FAILED"}},
	{errGroupAuthorization, kafkaError{30, "GROUP_AUTHORIZATION_FAILED"}},
	{errClusterAuthorization, kafkaError{31, "CLUSTER_AUTHORIZATION_FAILED"}},
	{ErrTransactionalIDAuthorization, kafkaError{53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"}},
}

// kafkaError returns the Kafka error for err. If no row of kafkaErrors matches, the broker has a
// bug: kafkaError logs the error, and the client receives UNKNOWN_SERVER_ERROR.
func (a *Access) kafkaError(err error) kafkaError {
	if err == nil {
		return noError
	}
	for i := range kafkaErrors {
		if errors.Is(err, kafkaErrors[i].err) {
			return kafkaErrors[i].kafkaError
		}
	}
	a.Logger.Error("unmapped error; returning UNKNOWN_SERVER_ERROR", "error", err)
	return unknownError
}

// Outcome maps the errors of one request to codes. It records the first error for the metrics.
type Outcome struct {
	access *Access
	Err    error
	Name   string
}

// Outcome returns an Outcome without errors.
func (a *Access) Outcome() Outcome { return Outcome{access: a} }

// Code returns the code for an error, and 0 for nil. Handlers call it once for each error code in a
// response. The first error is the request's error in the metrics. Errors without a row in
// kafkaErrors are logged.
func (o *Outcome) Code(err error) int16 {
	k := o.access.kafkaError(err)
	if o.Err == nil {
		o.Err, o.Name = err, k.name
	}
	return k.Code
}

// HasCode reports whether kafkaErrors maps an error to this code.
func HasCode(err error, code int16) bool {
	for i := range kafkaErrors {
		if kafkaErrors[i].Code == code && errors.Is(err, kafkaErrors[i].err) {
			return true
		}
	}
	return false
}

// Message returns an error's text for a response that has a field for it, or nil if there is no
// error.
func Message(err error) *string {
	if err == nil {
		return nil
	}
	text := err.Error()
	return &text
}
