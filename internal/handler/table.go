package handler

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"

	"heartwood.dev/heartwood/internal/handler/admin"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/handler/data"
	"heartwood.dev/heartwood/internal/handler/groups"
	"heartwood.dev/heartwood/internal/handler/transactions"
	"heartwood.dev/heartwood/internal/wire"
)

const (
	// controlFrameMax is the maximum size in bytes of a frame for each API except Produce. It is
	// sufficient for about 20,000 partitions.
	controlFrameMax = 1 << 20
	// produceFrameMax is the maximum size of a Produce frame in bytes (Kafka's
	// socket.request.max.bytes).
	produceFrameMax = 100 << 20
)

// neverFlexible is the value of row.flexible for an API without flexible versions.
const neverFlexible = math.MaxInt16

// row is one row of the table. min and max are the first and the last version that the handler
// supports and ApiVersions advertises.
type row struct {
	key      int16
	name     string
	min, max int16
	flexible int16 // first version whose request has header v2 and compact fields (KIP-482)
	// required lists the operations that the handler authorizes. If it is empty, every client may use
	// the API.
	required []api.RequiredOperation
	handle   handleFunc
}

// handleFunc handles one request for an API.
type handleFunc func(*Handler, context.Context, *wire.Request) (wire.Reply, error)

// in returns a handleFunc that passes requests to the method handle of a part of the Handler.
func in[H any](part func(*Handler) H,
	handle func(H, context.Context, *wire.Request) (wire.Reply, error)) handleFunc {
	return func(h *Handler, ctx context.Context, req *wire.Request) (wire.Reply, error) {
		return handle(part(h), ctx, req)
	}
}

func dataHandler(h *Handler) *data.Handler                 { return h.data }
func groupsHandler(h *Handler) *groups.Handler             { return h.groups }
func transactionsHandler(h *Handler) *transactions.Handler { return h.transactions }
func adminHandler(h *Handler) *admin.Handler               { return h.admin }

// requires returns its arguments as the value of row.required.
func requires(operations ...api.RequiredOperation) []api.RequiredOperation { return operations }

// table lists the APIs in the order of their keys. docs/internals/protocol.md must agree with it.
// The required operations are the ones that Kafka authorizes for the same API.
//
// The minimum versions are the same as in Kafka 4 (KIP-896). They include versions that Kafka 4
// advertises only for clients that derive a broker's features from the version ranges: librdkafka
// below 2.11 disables compression if the Produce range does not start at 0.
var table = []row{
	{
		api.KeyProduce, "Produce", 0, 13, 9, requires(api.WriteTopic, api.WriteTransactionalID),
		in(dataHandler, (*data.Handler).Produce),
	},
	{
		api.KeyFetch, "Fetch", 4, 18, 12, requires(api.ReadTopic, api.ClusterAction),
		in(dataHandler, (*data.Handler).Fetch),
	},
	{
		api.KeyListOffsets, "ListOffsets", 1, 11, 6, requires(api.DescribeTopic),
		in(dataHandler, api.Decoded(data.ListOffsetsShape, (*data.Handler).ListOffsets)),
	},
	{
		api.KeyMetadata, "Metadata", 0, 13, 9, requires(api.DescribeTopic, api.CreateTopic,
			api.CreateCluster),
		in(adminHandler, api.Decoded(admin.MetadataShape, (*admin.Handler).Metadata)),
	},
	{
		api.KeyOffsetCommit, "OffsetCommit", 2, 10, 8, requires(api.ReadGroup, api.ReadTopic),
		in(groupsHandler, api.Decoded(groups.OffsetCommitShape, (*groups.Handler).OffsetCommit)),
	},
	{
		api.KeyOffsetFetch, "OffsetFetch", 1, 10, 6, requires(api.DescribeGroup, api.DescribeTopic),
		in(groupsHandler, api.Decoded(groups.OffsetFetchShape, (*groups.Handler).OffsetFetch)),
	},
	{
		api.KeyFindCoordinator, "FindCoordinator", 0, 6, 3,
		requires(api.DescribeGroup, api.DescribeTransactionalID),
		in(groupsHandler, api.Decoded(groups.FindCoordinatorShape, (*groups.Handler).FindCoordinator)),
	},
	{
		api.KeyJoinGroup, "JoinGroup", 0, 9, 6, requires(api.ReadGroup),
		in(groupsHandler, (*groups.Handler).JoinGroup),
	},
	{
		api.KeyHeartbeat, "Heartbeat", 0, 4, 4, requires(api.ReadGroup),
		in(groupsHandler, api.Decoded(groups.HeartbeatShape, (*groups.Handler).Heartbeat)),
	},
	{
		api.KeyLeaveGroup, "LeaveGroup", 0, 5, 4, requires(api.ReadGroup),
		in(groupsHandler, api.Decoded(groups.LeaveGroupShape, (*groups.Handler).LeaveGroup)),
	},
	{
		api.KeySyncGroup, "SyncGroup", 0, 5, 4, requires(api.ReadGroup),
		in(groupsHandler, (*groups.Handler).SyncGroup),
	},
	{
		api.KeyDescribeGroups, "DescribeGroups", 0, 6, 5, requires(api.DescribeGroup),
		in(groupsHandler, api.Decoded(groups.DescribeGroupsShape, (*groups.Handler).DescribeGroups)),
	},
	{
		api.KeyListGroups, "ListGroups", 0, 5, 3, requires(api.DescribeCluster, api.DescribeGroup),
		in(groupsHandler, api.Decoded(groups.ListGroupsShape, (*groups.Handler).ListGroups)),
	},
	// Package wire handles the SASL APIs during authentication. ApiVersions lists these APIs on every
	// listener, as in Kafka. The handler receives only SASL requests that cannot authenticate the
	// client: SASL is not enabled on the listener, or authentication is complete.
	{
		api.KeySASLHandshake, "SaslHandshake", 0, 1, neverFlexible, nil,
		refuse(api.ErrNoSASL),
	},
	{
		api.KeyAPIVersions, "ApiVersions", 0, 5, 3, nil,
		(*Handler).apiVersions,
	},
	{
		api.KeyCreateTopics, "CreateTopics", 2, 7, 5,
		requires(api.CreateCluster, api.CreateTopic, api.DescribeTopicConfigs),
		in(adminHandler, api.Decoded(admin.CreateTopicsShape, (*admin.Handler).CreateTopics)),
	},
	{
		api.KeyDeleteTopics, "DeleteTopics", 1, 6, 4, requires(api.DeleteTopic, api.DescribeTopic),
		in(adminHandler, api.Decoded(admin.DeleteTopicsShape, (*admin.Handler).DeleteTopics)),
	},
	{
		api.KeyDeleteRecords, "DeleteRecords", 0, 2, 2, requires(api.DeleteTopic),
		in(dataHandler, api.Decoded(data.DeleteRecordsShape, (*data.Handler).DeleteRecords)),
	},
	{
		api.KeyInitProducerID, "InitProducerId", 0, 5, 2,
		requires(api.WriteTransactionalID, api.IdempotentWrite, api.WriteTopic),
		in(transactionsHandler, api.Decoded(transactions.InitProducerIDShape,
			(*transactions.Handler).InitProducerID)),
	},
	{
		api.KeyOffsetForEpoch, "OffsetForLeaderEpoch", 2, 4, 4, requires(api.DescribeTopic),
		in(dataHandler, api.Decoded(data.OffsetForEpochShape, (*data.Handler).OffsetForEpoch)),
	},
	{
		api.KeyAddPartitionsToTxn, "AddPartitionsToTxn", 0, 5, 3,
		requires(api.WriteTransactionalID, api.WriteTopic, api.ClusterAction),
		in(transactionsHandler, api.Decoded(transactions.AddPartitionsToTxnShape,
			(*transactions.Handler).AddPartitionsToTxn)),
	},
	{
		api.KeyAddOffsetsToTxn, "AddOffsetsToTxn", 0, 4, 3, requires(api.WriteTransactionalID,
			api.ReadGroup),
		in(transactionsHandler, api.Decoded(transactions.AddOffsetsToTxnShape,
			(*transactions.Handler).AddOffsetsToTxn)),
	},
	{
		api.KeyEndTxn, "EndTxn", 0, 5, 3, requires(api.WriteTransactionalID),
		in(transactionsHandler, api.Decoded(transactions.EndTxnShape, (*transactions.Handler).EndTxn)),
	},
	{
		api.KeyWriteTxnMarkers, "WriteTxnMarkers", 1, 2, 1, requires(api.AlterCluster,
			api.ClusterAction),
		in(transactionsHandler, api.Decoded(transactions.WriteTxnMarkersShape,
			(*transactions.Handler).WriteTxnMarkers)),
	},
	{
		api.KeyTxnOffsetCommit, "TxnOffsetCommit", 0, 6, 3,
		requires(api.WriteTransactionalID, api.ReadGroup, api.ReadTopic),
		in(transactionsHandler, api.Decoded(transactions.TxnOffsetCommitShape,
			(*transactions.Handler).TxnOffsetCommit)),
	},
	{
		api.KeyDescribeACLs, "DescribeAcls", 1, 3, 2, requires(api.DescribeCluster),
		in(adminHandler, api.Decoded(admin.DescribeACLsShape, (*admin.Handler).DescribeACLs)),
	},
	{
		api.KeyCreateACLs, "CreateAcls", 1, 3, 2, requires(api.AlterCluster),
		in(adminHandler, api.Decoded(admin.CreateACLsShape, (*admin.Handler).CreateACLs)),
	},
	{
		api.KeyDeleteACLs, "DeleteAcls", 1, 3, 2, requires(api.AlterCluster),
		in(adminHandler, api.Decoded(admin.DeleteACLsShape, (*admin.Handler).DeleteACLs)),
	},
	{
		api.KeyDescribeConfigs, "DescribeConfigs", 1, 4, 4,
		requires(api.DescribeTopicConfigs, api.DescribeGroupConfigs, api.DescribeClusterConfigs),
		in(adminHandler, api.Decoded(admin.DescribeConfigsShape, (*admin.Handler).DescribeConfigs)),
	},
	{
		api.KeyAlterConfigs, "AlterConfigs", 0, 2, 2,
		requires(api.AlterTopicConfigs, api.AlterGroupConfigs, api.AlterClusterConfigs),
		in(adminHandler, api.Decoded(admin.AlterConfigsShape, (*admin.Handler).AlterConfigs)),
	},
	{
		api.KeyAlterReplicaLogDirs, "AlterReplicaLogDirs", 1, 2, 2, requires(api.AlterCluster),
		in(dataHandler, api.Decoded(data.AlterLogDirsShape, (*data.Handler).AlterReplicaLogDirs)),
	},
	{
		api.KeyDescribeLogDirs, "DescribeLogDirs", 1, 5, 2, requires(api.DescribeCluster),
		in(dataHandler, api.Decoded(data.DescribeLogDirsShape, (*data.Handler).DescribeLogDirs)),
	},
	{
		api.KeySASLAuthenticate, "SaslAuthenticate", 0, 2, 2, nil,
		refuse(api.ErrNoSASL),
	},
	{
		api.KeyCreatePartitions, "CreatePartitions", 0, 3, 2, requires(api.AlterTopic),
		in(adminHandler, api.Decoded(admin.CreatePartitionsShape, (*admin.Handler).CreatePartitions)),
	},
	// Kafka responds to the delegation token APIs (KIP-48) with this error, too, on a connection
	// without authentication.
	{
		api.KeyCreateToken, "CreateDelegationToken", 1, 3, 2, nil,
		refuse(api.ErrNoTokens),
	},
	{
		api.KeyRenewToken, "RenewDelegationToken", 1, 2, 2, nil,
		refuse(api.ErrNoTokens),
	},
	{
		api.KeyExpireToken, "ExpireDelegationToken", 1, 2, 2, nil,
		refuse(api.ErrNoTokens),
	},
	{
		api.KeyDescribeToken, "DescribeDelegationToken", 1, 3, 2, nil,
		refuse(api.ErrNoTokens),
	},
	{
		api.KeyDeleteGroups, "DeleteGroups", 0, 3, 2, requires(api.DeleteGroup),
		in(groupsHandler, api.Decoded(groups.DeleteGroupsShape, (*groups.Handler).DeleteGroups)),
	},
	{
		api.KeyElectLeaders, "ElectLeaders", 0, 2, 2, requires(api.AlterCluster),
		in(adminHandler, api.Decoded(admin.ElectLeadersShape, (*admin.Handler).ElectLeaders)),
	},
	{
		api.KeyIncrementalAlterConfigs, "IncrementalAlterConfigs", 0, 1, 1,
		requires(api.AlterTopicConfigs, api.AlterGroupConfigs, api.AlterClusterConfigs),
		in(adminHandler, api.Decoded(admin.IncrementalAlterConfigsShape,
			(*admin.Handler).IncrementalAlterConfigs)),
	},
	{
		api.KeyAlterReassignments, "AlterPartitionReassignments", 0, 1, 0, requires(api.AlterCluster),
		in(adminHandler, api.Decoded(admin.AlterReassignmentsShape, (*admin.Handler).AlterReassignments)),
	},
	{
		api.KeyListReassignments, "ListPartitionReassignments", 0, 0, 0, requires(api.DescribeCluster),
		in(adminHandler, api.Decoded(admin.ListReassignmentsShape, (*admin.Handler).ListReassignments)),
	},
	{
		api.KeyOffsetDelete, "OffsetDelete", 0, 0, neverFlexible, requires(api.DeleteGroup,
			api.ReadTopic),
		in(groupsHandler, api.Decoded(groups.OffsetDeleteShape, (*groups.Handler).OffsetDelete)),
	},
	{
		api.KeyDescribeClientQuotas, "DescribeClientQuotas", 0, 1, 1,
		requires(api.DescribeClusterConfigs),
		in(adminHandler, api.Decoded(admin.DescribeClientQuotasShape,
			(*admin.Handler).DescribeClientQuotas)),
	},
	{
		api.KeyAlterClientQuotas, "AlterClientQuotas", 0, 1, 1, requires(api.AlterClusterConfigs),
		in(adminHandler, api.Decoded(admin.AlterClientQuotasShape, (*admin.Handler).AlterClientQuotas)),
	},
	{
		api.KeyDescribeSCRAM, "DescribeUserScramCredentials", 0, 0, 0, requires(api.DescribeCluster),
		in(adminHandler, api.Decoded(admin.DescribeSCRAMShape, (*admin.Handler).DescribeSCRAM)),
	},
	{
		api.KeyAlterSCRAM, "AlterUserScramCredentials", 0, 0, 0, requires(api.AlterCluster),
		in(adminHandler, api.Decoded(admin.AlterSCRAMShape, (*admin.Handler).AlterSCRAM)),
	},
	{
		api.KeyUpdateFeatures, "UpdateFeatures", 0, 2, 0, requires(api.AlterCluster),
		api.Decoded(updateFeaturesShape, (*Handler).updateFeatures),
	},
	{
		api.KeyDescribeCluster, "DescribeCluster", 0, 2, 0, nil,
		in(adminHandler, api.Decoded(admin.DescribeClusterShape, (*admin.Handler).DescribeCluster)),
	},
	{
		api.KeyDescribeProducers, "DescribeProducers", 0, 0, 0, requires(api.ReadTopic),
		in(dataHandler, api.Decoded(data.DescribeProducersShape, (*data.Handler).DescribeProducers)),
	},
	{
		api.KeyDescribeTransactions, "DescribeTransactions", 0, 0, 0,
		requires(api.DescribeTransactionalID, api.DescribeTopic),
		in(transactionsHandler, api.Decoded(transactions.DescribeTransactionsShape,
			(*transactions.Handler).DescribeTransactions)),
	},
	{
		api.KeyListTransactions, "ListTransactions", 0, 2, 0, requires(api.DescribeTransactionalID),
		in(transactionsHandler, api.Decoded(transactions.ListTransactionsShape,
			(*transactions.Handler).ListTransactions)),
	},
	{
		api.KeyConsumerHeartbeat, "ConsumerGroupHeartbeat", 0, 1, 0, requires(api.ReadGroup,
			api.DescribeTopic),
		in(groupsHandler, (*groups.Handler).ConsumerHeartbeat),
	},
	{
		api.KeyConsumerDescribe, "ConsumerGroupDescribe", 0, 1, 0, requires(api.DescribeGroup,
			api.DescribeTopic),
		in(groupsHandler, api.Decoded(groups.ConsumerDescribeShape, (*groups.Handler).ConsumerDescribe)),
	},
	{
		api.KeyListConfigResources, "ListConfigResources", 0, 1, 0, requires(api.DescribeClusterConfigs),
		in(adminHandler, api.Decoded(admin.ListConfigResourcesShape,
			(*admin.Handler).ListConfigResources)),
	},
	{
		api.KeyDescribePartitions, "DescribeTopicPartitions", 0, 0, 0, requires(api.DescribeTopic),
		in(adminHandler, api.Decoded(admin.DescribePartitionsShape, (*admin.Handler).DescribePartitions)),
	},
}

func (a *row) serves(version int16) bool { return a.min <= version && version <= a.max }

func (a *row) isFlexible(version int16) bool { return version >= a.flexible }

// frameMax returns the maximum frame size for the API, in bytes.
func (a *row) frameMax() int {
	if a.key == api.KeyProduce {
		return produceFrameMax
	}
	return controlFrameMax
}

// byKey returns the rows of all tables in a slice indexed by API key.
func byKey(tables ...[]row) []row {
	rows := slices.Concat(tables...)
	last := slices.MaxFunc(rows, func(a, b row) int { return cmp.Compare(a.key, b.key) })
	indexed := make([]row, last.key+1)
	for _, row := range rows {
		indexed[row.key] = row
	}
	return indexed
}

// APIName returns an API's name for metrics and logs. If the API is not supported, it returns the
// key as a number.
func APIName(key int16) string {
	if key >= 0 && int(key) < len(names) && names[key] != "" {
		return names[key]
	}
	return strconv.Itoa(int(key))
}

// names contains the names of the APIs, indexed by key. It is precomputed because APIName is called
// for every request.
var names = func() []string {
	rows := byKey(refused, table)
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].name
	}
	return all
}()
