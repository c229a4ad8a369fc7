package handler

import (
	"context"
	"math"
	"strconv"

	"heartwood.dev/heartwood/internal/wire"
)

// The keys of the APIs that are served.
const (
	keyProduce         int16 = 0
	keyFetch           int16 = 1
	keyListOffsets     int16 = 2
	keyMetadata        int16 = 3
	keyOffsetCommit    int16 = 8
	keyOffsetFetch     int16 = 9
	keyFindCoordinator int16 = 10
	keyJoinGroup       int16 = 11
	keyHeartbeat       int16 = 12
	keyLeaveGroup      int16 = 13
	keySyncGroup       int16 = 14
	keyDescribeGroups  int16 = 15
	keyListGroups      int16 = 16
	keyAPIVersions     int16 = 18
	keyCreateTopics    int16 = 19
	keyDeleteTopics    int16 = 20
	keyInitProducerID  int16 = 22
	keyOffsetForEpoch  int16 = 23
	keyDescribeConfigs int16 = 32
	keyDeleteGroups    int16 = 42
	keyOffsetDelete    int16 = 47
	keyDescribeCluster int16 = 60

	keyDeleteRecords           int16 = 21
	keyAlterConfigs            int16 = 33
	keyDescribeLogDirs         int16 = 35
	keyCreatePartitions        int16 = 37
	keyElectLeaders            int16 = 43
	keyIncrementalAlterConfigs int16 = 44
	keyAlterReassignments      int16 = 45
	keyListReassignments       int16 = 46
	keyConsumerHeartbeat       int16 = 68
	keyConsumerDescribe        int16 = 69
	keyDescribePartitions      int16 = 75
)

const (
	// controlFrameMax bounds the frames of all APIs but Produce; some 20,000 partitions fit.
	controlFrameMax = 1 << 20
	// produceFrameMax is Kafka's socket.request.max.bytes.
	produceFrameMax = 100 << 20
)

// neverFlexible is the flexible version of an API that has none.
const neverFlexible = math.MaxInt16

// api is one row of the table: what is advertised is what is served.
type api struct {
	key      int16
	name     string
	min, max int16
	flexible int16 // first version whose request has header v2 and compact fields (KIP-482)
	frameMax int   // bytes
	handle   func(*Handler, context.Context, *wire.Request) (wire.Reply, error)
}

// table lists the APIs in the order of their keys. docs/protocol.md is written from it.
//
// The minima are Kafka 4's, not lower: what KIP-896 removed stays removed, and what it kept, for
// clients that look at the ranges to learn a broker's features, is kept (Produce 0: librdkafka
// before 2.11 turns compression off without it).
func table() []api {
	return []api{
		{keyProduce, "Produce", 0, 13, 9, produceFrameMax, (*Handler).produce},
		{keyFetch, "Fetch", 4, 18, 12, controlFrameMax, (*Handler).fetch},
		{keyListOffsets, "ListOffsets", 1, 11, 6, controlFrameMax,
			decoded(listOffsetsShape, (*Handler).listOffsets)},
		{keyMetadata, "Metadata", 0, 13, 9, controlFrameMax,
			decoded(metadataShape, (*Handler).metadata)},
		{keyOffsetCommit, "OffsetCommit", 2, 10, 8, controlFrameMax,
			decoded(offsetCommitShape, (*Handler).offsetCommit)},
		{keyOffsetFetch, "OffsetFetch", 1, 10, 6, controlFrameMax,
			decoded(offsetFetchShape, (*Handler).offsetFetch)},
		{keyFindCoordinator, "FindCoordinator", 0, 6, 3, controlFrameMax,
			decoded(findCoordinatorShape, (*Handler).findCoordinator)},
		{keyJoinGroup, "JoinGroup", 0, 9, 6, controlFrameMax, (*Handler).joinGroup},
		{keyHeartbeat, "Heartbeat", 0, 4, 4, controlFrameMax,
			decoded(heartbeatShape, (*Handler).heartbeat)},
		{keyLeaveGroup, "LeaveGroup", 0, 5, 4, controlFrameMax,
			decoded(leaveGroupShape, (*Handler).leaveGroup)},
		{keySyncGroup, "SyncGroup", 0, 5, 4, controlFrameMax, (*Handler).syncGroup},
		{keyDescribeGroups, "DescribeGroups", 0, 6, 5, controlFrameMax,
			decoded(describeGroupsShape, (*Handler).describeGroups)},
		{keyListGroups, "ListGroups", 0, 5, 3, controlFrameMax,
			decoded(listGroupsShape, (*Handler).listGroups)},
		{keyAPIVersions, "ApiVersions", 0, 4, 3, controlFrameMax, (*Handler).apiVersions},
		{keyCreateTopics, "CreateTopics", 2, 7, 5, controlFrameMax,
			decoded(createTopicsShape, (*Handler).createTopics)},
		{keyDeleteTopics, "DeleteTopics", 1, 6, 4, controlFrameMax,
			decoded(deleteTopicsShape, (*Handler).deleteTopics)},
		{keyDeleteRecords, "DeleteRecords", 0, 2, 2, controlFrameMax,
			decoded(deleteRecordsShape, (*Handler).deleteRecords)},
		{keyInitProducerID, "InitProducerId", 0, 5, 2, controlFrameMax,
			decoded(initProducerIDShape, (*Handler).initProducerID)},
		{keyOffsetForEpoch, "OffsetForLeaderEpoch", 2, 4, 4, controlFrameMax,
			decoded(offsetForEpochShape, (*Handler).offsetForEpoch)},
		{keyDescribeConfigs, "DescribeConfigs", 1, 4, 4, controlFrameMax,
			decoded(describeConfigsShape, (*Handler).describeConfigs)},
		{keyAlterConfigs, "AlterConfigs", 0, 2, 2, controlFrameMax,
			decoded(alterConfigsShape, (*Handler).alterConfigs)},
		{keyDescribeLogDirs, "DescribeLogDirs", 1, 5, 2, controlFrameMax,
			decoded(describeLogDirsShape, (*Handler).describeLogDirs)},
		{keyCreatePartitions, "CreatePartitions", 0, 3, 2, controlFrameMax,
			decoded(createPartitionsShape, (*Handler).createPartitions)},
		{keyDeleteGroups, "DeleteGroups", 0, 2, 2, controlFrameMax,
			decoded(deleteGroupsShape, (*Handler).deleteGroups)},
		{keyElectLeaders, "ElectLeaders", 0, 2, 2, controlFrameMax,
			decoded(electLeadersShape, (*Handler).electLeaders)},
		{
			keyIncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 1, controlFrameMax,
			decoded(incrementalAlterConfigsShape, (*Handler).incrementalAlterConfigs),
		},
		{
			keyAlterReassignments, "AlterPartitionReassignments", 0, 1, 0, controlFrameMax,
			decoded(alterReassignmentsShape, (*Handler).alterReassignments),
		},
		{
			keyListReassignments, "ListPartitionReassignments", 0, 0, 0, controlFrameMax,
			decoded(listReassignmentsShape, (*Handler).listReassignments),
		},
		{keyOffsetDelete, "OffsetDelete", 0, 0, neverFlexible, controlFrameMax,
			decoded(offsetDeleteShape, (*Handler).offsetDelete)},
		{keyDescribeCluster, "DescribeCluster", 0, 2, 0, controlFrameMax,
			decoded(describeClusterShape, (*Handler).describeCluster)},
		{
			keyConsumerHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0, controlFrameMax,
			(*Handler).consumerHeartbeat,
		},
		{
			keyConsumerDescribe, "ConsumerGroupDescribe", 0, 1, 0, controlFrameMax,
			decoded(consumerDescribeShape, (*Handler).consumerDescribe),
		},
		{
			keyDescribePartitions, "DescribeTopicPartitions", 0, 0, 0, controlFrameMax,
			decoded(describePartitionsShape, (*Handler).describePartitions),
		},
	}
}

func (a *api) serves(version int16) bool     { return a.min <= version && version <= a.max }
func (a *api) isFlexible(version int16) bool { return version >= a.flexible }

// byKey spreads the table out, so that finding a row is an index.
func byKey(rows []api) []api {
	spread := make([]api, rows[len(rows)-1].key+1)
	for _, row := range rows {
		spread[row.key] = row
	}
	return spread
}

// APIName names an API for metrics and logs: from the table if it is served, else its number.
func APIName(key int16) string {
	if key >= 0 && int(key) < len(names) && names[key] != "" {
		return names[key]
	}
	return strconv.Itoa(int(key))
}

// names are the table's, by key; APIName is asked for every request, and the table need not be made
// each time.
var names = func() []string {
	rows := byKey(table())
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].name
	}
	return all
}()
