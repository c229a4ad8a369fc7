package handler

import (
	"cmp"
	"math"
	"slices"
	"strconv"
)

// The keys of the APIs that this broker serves.
const (
	keyProduce                 int16 = 0
	keyFetch                   int16 = 1
	keyListOffsets             int16 = 2
	keyMetadata                int16 = 3
	keyOffsetCommit            int16 = 8
	keyOffsetFetch             int16 = 9
	keyFindCoordinator         int16 = 10
	keyJoinGroup               int16 = 11
	keyHeartbeat               int16 = 12
	keyLeaveGroup              int16 = 13
	keySyncGroup               int16 = 14
	keyDescribeGroups          int16 = 15
	keyListGroups              int16 = 16
	keySASLHandshake           int16 = 17
	keyAPIVersions             int16 = 18
	keyCreateTopics            int16 = 19
	keyDeleteTopics            int16 = 20
	keyDeleteRecords           int16 = 21
	keyInitProducerID          int16 = 22
	keyOffsetForEpoch          int16 = 23
	keyAddPartitionsToTxn      int16 = 24
	keyAddOffsetsToTxn         int16 = 25
	keyEndTxn                  int16 = 26
	keyWriteTxnMarkers         int16 = 27
	keyTxnOffsetCommit         int16 = 28
	keyDescribeACLs            int16 = 29
	keyCreateACLs              int16 = 30
	keyDeleteACLs              int16 = 31
	keyDescribeConfigs         int16 = 32
	keyAlterConfigs            int16 = 33
	keyAlterReplicaLogDirs     int16 = 34
	keyDescribeLogDirs         int16 = 35
	keySASLAuthenticate        int16 = 36
	keyCreatePartitions        int16 = 37
	keyCreateToken             int16 = 38
	keyRenewToken              int16 = 39
	keyExpireToken             int16 = 40
	keyDescribeToken           int16 = 41
	keyDeleteGroups            int16 = 42
	keyElectLeaders            int16 = 43
	keyIncrementalAlterConfigs int16 = 44
	keyAlterReassignments      int16 = 45
	keyListReassignments       int16 = 46
	keyOffsetDelete            int16 = 47
	keyDescribeClientQuotas    int16 = 48
	keyAlterClientQuotas       int16 = 49
	keyDescribeSCRAM           int16 = 50
	keyAlterSCRAM              int16 = 51
	keyUpdateFeatures          int16 = 57
	keyDescribeCluster         int16 = 60
	keyDescribeProducers       int16 = 61
	keyDescribeTransactions    int16 = 65
	keyListTransactions        int16 = 66
	keyConsumerHeartbeat       int16 = 68
	keyConsumerDescribe        int16 = 69
	keyListConfigResources     int16 = 74
	keyDescribePartitions      int16 = 75
)

const (
	// controlFrameMax is the size of the largest frame of each API except Produce, in bytes. It is
	// enough for about 20,000 partitions.
	controlFrameMax = 1 << 20
	// produceFrameMax is the size of the largest Produce frame (Kafka's socket.request.max.bytes).
	produceFrameMax = 100 << 20
)

// neverFlexible is the value of row.flexible for an API without flexible versions.
const neverFlexible = math.MaxInt16

// row is one row of the table. The fields min and max are the versions that ApiVersions advertises
// and that the handler serves.
type row struct {
	key      int16
	name     string
	min, max int16
	flexible int16 // first version whose request has header v2 and compact fields (KIP-482)
	// required lists the operations that the handler authorizes. If it is empty, the handler
	// answers every client.
	required []RequiredOperation
	handle   handleFunc
}

// requires returns its arguments as the value of row.required.
func requires(operations ...RequiredOperation) []RequiredOperation { return operations }

// table returns the APIs in the order of their keys. docs/protocol.md must agree with it. The
// required operations are those that Kafka authorizes for the same API.
//
// The minimum versions are those of Kafka 4 (KIP-896). They include versions that Kafka 4
// advertises only for clients that derive the features of a broker from the ranges: librdkafka
// below 2.11 disables compression if the range of Produce does not start at 0.
func table(h *Handler) []row {
	return []row{
		{
			keyProduce, "Produce", 0, 13, 9, requires(writeTopic, writeTransactionalID),
			h.produce,
		},
		{
			keyFetch, "Fetch", 4, 18, 12, requires(readTopic, clusterAction),
			h.fetch,
		},
		{
			keyListOffsets, "ListOffsets", 1, 11, 6, requires(describeTopic),
			decoded(listOffsetsShape, h.listOffsets),
		},
		{
			keyMetadata, "Metadata", 0, 13, 9, requires(describeTopic, createTopic, createCluster),
			decoded(metadataShape, h.metadata),
		},
		{
			keyOffsetCommit, "OffsetCommit", 2, 10, 8, requires(readGroup, readTopic),
			decoded(offsetCommitShape, h.offsetCommit),
		},
		{
			keyOffsetFetch, "OffsetFetch", 1, 10, 6, requires(describeGroup, describeTopic),
			decoded(offsetFetchShape, h.offsetFetch),
		},
		{
			keyFindCoordinator, "FindCoordinator", 0, 6, 3,
			requires(describeGroup, describeTransactionalID),
			decoded(findCoordinatorShape, h.findCoordinator),
		},
		{
			keyJoinGroup, "JoinGroup", 0, 9, 6, requires(readGroup),
			h.joinGroup,
		},
		{
			keyHeartbeat, "Heartbeat", 0, 4, 4, requires(readGroup),
			decoded(heartbeatShape, h.heartbeat),
		},
		{
			keyLeaveGroup, "LeaveGroup", 0, 5, 4, requires(readGroup),
			decoded(leaveGroupShape, h.leaveGroup),
		},
		{
			keySyncGroup, "SyncGroup", 0, 5, 4, requires(readGroup),
			h.syncGroup,
		},
		{
			keyDescribeGroups, "DescribeGroups", 0, 6, 5, requires(describeGroup),
			decoded(describeGroupsShape, h.describeGroups),
		},
		{
			keyListGroups, "ListGroups", 0, 5, 3, requires(describeCluster, describeGroup),
			decoded(listGroupsShape, h.listGroups),
		},
		// Package wire answers the APIs of SASL during authentication. They are listed on every listener,
		// as in Kafka, and answered here where they do not authenticate the client.
		{
			keySASLHandshake, "SaslHandshake", 0, 1, neverFlexible, nil,
			refuse(h.Access, errNoSASL),
		},
		{
			keyAPIVersions, "ApiVersions", 0, 4, 3, nil,
			h.apiVersions,
		},
		{
			keyCreateTopics, "CreateTopics", 2, 7, 5,
			requires(createCluster, createTopic, describeTopicConfigs),
			decoded(createTopicsShape, h.createTopics),
		},
		{
			keyDeleteTopics, "DeleteTopics", 1, 6, 4, requires(deleteTopic, describeTopic),
			decoded(deleteTopicsShape, h.deleteTopics),
		},
		{
			keyDeleteRecords, "DeleteRecords", 0, 2, 2, requires(deleteTopic),
			decoded(deleteRecordsShape, h.deleteRecords),
		},
		{
			keyInitProducerID, "InitProducerId", 0, 5, 2,
			requires(writeTransactionalID, idempotentWrite, writeTopic),
			decoded(initProducerIDShape, h.initProducerID),
		},
		{
			keyOffsetForEpoch, "OffsetForLeaderEpoch", 2, 4, 4, requires(describeTopic),
			decoded(offsetForEpochShape, h.offsetForEpoch),
		},
		{
			keyAddPartitionsToTxn, "AddPartitionsToTxn", 0, 5, 3,
			requires(writeTransactionalID, writeTopic, clusterAction),
			decoded(addPartitionsToTxnShape, h.addPartitionsToTxn),
		},
		{
			keyAddOffsetsToTxn, "AddOffsetsToTxn", 0, 4, 3, requires(writeTransactionalID, readGroup),
			decoded(addOffsetsToTxnShape, h.addOffsetsToTxn),
		},
		{
			keyEndTxn, "EndTxn", 0, 5, 3, requires(writeTransactionalID),
			decoded(endTxnShape, h.endTxn),
		},
		{
			keyWriteTxnMarkers, "WriteTxnMarkers", 1, 2, 1, requires(alterCluster, clusterAction),
			decoded(writeTxnMarkersShape, h.writeTxnMarkers),
		},
		{
			keyTxnOffsetCommit, "TxnOffsetCommit", 0, 5, 3,
			requires(writeTransactionalID, readGroup, readTopic),
			decoded(txnOffsetCommitShape, h.txnOffsetCommit),
		},
		{
			keyDescribeACLs, "DescribeAcls", 1, 3, 2, requires(describeCluster),
			decoded(describeACLsShape, h.describeACLs),
		},
		{
			keyCreateACLs, "CreateAcls", 1, 3, 2, requires(alterCluster),
			decoded(createACLsShape, h.createACLs),
		},
		{
			keyDeleteACLs, "DeleteAcls", 1, 3, 2, requires(alterCluster),
			decoded(deleteACLsShape, h.deleteACLs),
		},
		{
			keyDescribeConfigs, "DescribeConfigs", 1, 4, 4,
			requires(describeTopicConfigs, describeGroupConfigs, describeClusterConfigs),
			decoded(describeConfigsShape, h.describeConfigs),
		},
		{
			keyAlterConfigs, "AlterConfigs", 0, 2, 2,
			requires(alterTopicConfigs, alterGroupConfigs, alterClusterConfigs),
			decoded(alterConfigsShape, h.alterConfigs),
		},
		{
			keyAlterReplicaLogDirs, "AlterReplicaLogDirs", 1, 2, 2, requires(alterCluster),
			decoded(alterLogDirsShape, h.alterReplicaLogDirs),
		},
		{
			keyDescribeLogDirs, "DescribeLogDirs", 1, 5, 2, requires(describeCluster),
			decoded(describeLogDirsShape, h.describeLogDirs),
		},
		{
			keySASLAuthenticate, "SaslAuthenticate", 0, 2, 2, nil,
			refuse(h.Access, errNoSASL),
		},
		{
			keyCreatePartitions, "CreatePartitions", 0, 3, 2, requires(alterTopic),
			decoded(createPartitionsShape, h.createPartitions),
		},
		// Kafka answers the APIs of delegation tokens (KIP-48) with this error on a connection without
		// authentication.
		{
			keyCreateToken, "CreateDelegationToken", 1, 3, 2, nil,
			refuse(h.Access, errNoTokens),
		},
		{
			keyRenewToken, "RenewDelegationToken", 1, 2, 2, nil,
			refuse(h.Access, errNoTokens),
		},
		{
			keyExpireToken, "ExpireDelegationToken", 1, 2, 2, nil,
			refuse(h.Access, errNoTokens),
		},
		{
			keyDescribeToken, "DescribeDelegationToken", 1, 3, 2, nil,
			refuse(h.Access, errNoTokens),
		},
		{
			keyDeleteGroups, "DeleteGroups", 0, 2, 2, requires(deleteGroup),
			decoded(deleteGroupsShape, h.deleteGroups),
		},
		{
			keyElectLeaders, "ElectLeaders", 0, 2, 2, requires(alterCluster),
			decoded(electLeadersShape, h.electLeaders),
		},
		{
			keyIncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 1,
			requires(alterTopicConfigs, alterGroupConfigs, alterClusterConfigs),
			decoded(incrementalAlterConfigsShape, h.incrementalAlterConfigs),
		},
		{
			keyAlterReassignments, "AlterPartitionReassignments", 0, 1, 0, requires(alterCluster),
			decoded(alterReassignmentsShape, h.alterReassignments),
		},
		{
			keyListReassignments, "ListPartitionReassignments", 0, 0, 0, requires(describeCluster),
			decoded(listReassignmentsShape, h.listReassignments),
		},
		{
			keyOffsetDelete, "OffsetDelete", 0, 0, neverFlexible, requires(deleteGroup, readTopic),
			decoded(offsetDeleteShape, h.offsetDelete),
		},
		{
			keyDescribeClientQuotas, "DescribeClientQuotas", 0, 1, 1, requires(describeClusterConfigs),
			decoded(describeClientQuotasShape, h.describeClientQuotas),
		},
		{
			keyAlterClientQuotas, "AlterClientQuotas", 0, 1, 1, requires(alterClusterConfigs),
			decoded(alterClientQuotasShape, h.alterClientQuotas),
		},
		{
			keyDescribeSCRAM, "DescribeUserScramCredentials", 0, 0, 0, requires(describeCluster),
			decoded(describeSCRAMShape, h.describeSCRAM),
		},
		{
			keyAlterSCRAM, "AlterUserScramCredentials", 0, 0, 0, requires(alterCluster),
			decoded(alterSCRAMShape, h.alterSCRAM),
		},
		{
			keyUpdateFeatures, "UpdateFeatures", 0, 2, 0, requires(alterCluster),
			decoded(updateFeaturesShape, h.updateFeatures),
		},
		{
			keyDescribeCluster, "DescribeCluster", 0, 2, 0, nil,
			decoded(describeClusterShape, h.describeCluster),
		},
		{
			keyDescribeProducers, "DescribeProducers", 0, 0, 0, requires(readTopic),
			decoded(describeProducersShape, h.describeProducers),
		},
		{
			keyDescribeTransactions, "DescribeTransactions", 0, 0, 0,
			requires(describeTransactionalID, describeTopic),
			decoded(describeTransactionsShape, h.describeTransactions),
		},
		{
			keyListTransactions, "ListTransactions", 0, 2, 0, requires(describeTransactionalID),
			decoded(listTransactionsShape, h.listTransactions),
		},
		{
			keyConsumerHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0, requires(readGroup, describeTopic),
			h.consumerHeartbeat,
		},
		{
			keyConsumerDescribe, "ConsumerGroupDescribe", 0, 1, 0, requires(describeGroup, describeTopic),
			decoded(consumerDescribeShape, h.consumerDescribe),
		},
		{
			keyListConfigResources, "ListConfigResources", 0, 1, 0, requires(describeClusterConfigs),
			decoded(listConfigResourcesShape, h.listConfigResources),
		},
		{
			keyDescribePartitions, "DescribeTopicPartitions", 0, 0, 0, requires(describeTopic),
			decoded(describePartitionsShape, h.describePartitions),
		},
	}
}

func (a *row) serves(version int16) bool     { return a.min <= version && version <= a.max }
func (a *row) isFlexible(version int16) bool { return version >= a.flexible }

// frameMax returns the size of the largest frame of the API, in bytes.
func (a *row) frameMax() int {
	if a.key == keyProduce {
		return produceFrameMax
	}
	return controlFrameMax
}

// byKey returns the rows of tables in a slice that is indexed by the API key.
func byKey(tables ...[]row) []row {
	rows := slices.Concat(tables...)
	last := slices.MaxFunc(rows, func(a, b row) int { return cmp.Compare(a.key, b.key) })
	indexed := make([]row, last.key+1)
	for _, row := range rows {
		indexed[row.key] = row
	}
	return indexed
}

// APIName returns the name of an API for metrics and logs, or the key as a number if the API is not
// served.
func APIName(key int16) string {
	if key >= 0 && int(key) < len(names) && names[key] != "" {
		return names[key]
	}
	return strconv.Itoa(int(key))
}

// names contains the names of the APIs, indexed by key. It exists because APIName is called for
// every request.
var names = func() []string {
	h := &Handler{}
	rows := byKey(refused(h), table(h))
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].name
	}
	return all
}()
