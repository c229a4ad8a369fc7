package handler

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/wire"
)

// authorizer records the actions that it decides on. It denies the actions for which deny returns
// true.
type authorizer struct {
	asked []api.Action
	deny  func(api.Action) bool
}

func (a *authorizer) authorize(action api.Action) bool {
	a.asked = append(a.asked, action)
	return a.deny == nil || !a.deny(action)
}

// withAuthorizer returns a broker with an authorizer that allows everything until the test sets
// deny. The broker has a topic "orders", which contains a record, and a topic "bills". Group
// "group" has a committed offset in each topic.
func withAuthorizer(t *testing.T) (*broker, *authorizer) {
	b := newBroker(t)
	b.topic("orders", nil)
	b.topic("bills", nil)
	b.mustProduce("orders", "secret")
	coordinated(t, b)
	for _, topic := range []string{"orders", "bills"} {
		b.commitOffset(topic)
	}
	a := &authorizer{}
	b.Authorizer = a.authorize
	return b, a
}

// commitOffset commits offset 0 in partition 0 of a topic for group "group".
func (b *broker) commitOffset(topic string) {
	b.t.Helper()
	req := commitRequestFor(topic)
	answer := ask[*kmsg.OffsetCommitResponse](b, 9, req)
	if code := answer.Topics[0].Partitions[0].ErrorCode; code != 0 {
		b.t.Fatalf("commit: error %d", code)
	}
}

func commitRequestFor(topic string) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = "group", -1
	asked := kmsg.NewOffsetCommitRequestTopic()
	asked.Topic = topic
	asked.Partitions = append(asked.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
	req.Topics = append(req.Topics, asked)
	return req
}

// sample is a request that uses resources, and the error that its response must contain if all
// operations are denied. If there is no error, the response must omit the resources.
type sample struct {
	version int16
	request kmsg.Request
	denied  string
}

const (
	topicDenied   = "TOPIC_AUTHORIZATION_FAILED"
	groupDenied   = "GROUP_AUTHORIZATION_FAILED"
	clusterDenied = "CLUSTER_AUTHORIZATION_FAILED"
	txnDenied     = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
)

// samples returns requests for all APIs with required operations. Together, the requests require
// every operation in the table.
func samples(t *testing.T, b *broker) []sample {
	orders := b.image.Load().Topic("orders").ID
	b.begin("mine", "orders")
	return slices.Concat(dataSamples(t, orders), transactionSamples(), groupSamples(),
		adminSamples(orders), clusterSamples())
}

func transactionSamples() []sample {
	add, verify := kmsg.NewPtrAddPartitionsToTxnRequest(), kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID = "txn"
	add.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
	offsets, end := kmsg.NewPtrAddOffsetsToTxnRequest(), kmsg.NewPtrEndTxnRequest()
	offsets.TransactionalID, offsets.Group, end.TransactionalID = "txn", "group", "txn"
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{"mine"}
	return []sample{
		{3, add, txnDenied},
		{5, verify, clusterDenied},
		{4, offsets, txnDenied},
		{5, end, txnDenied},
		{0, describe, txnDenied},
		{2, kmsg.NewPtrListTransactionsRequest(), ""},
	}
}

func dataSamples(t *testing.T, orders metadata.ID) []sample {
	follower := fetchRequestFor("orders", 0)
	follower.ReplicaState.ID, follower.ReplicaState.Epoch = 3, 1
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "orders",
		Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -1,
			CurrentLeaderEpoch: -1}}}}
	epochs := kmsg.NewPtrOffsetForLeaderEpochRequest()
	epochs.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "orders",
		Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
	byName, byID, created := kmsg.NewPtrMetadataRequest(), kmsg.NewPtrMetadataRequest(),
		kmsg.NewPtrMetadataRequest()
	name, missing := "orders", "missing"
	byName.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	byID.Topics = []kmsg.MetadataRequestTopic{{TopicID: orders}}
	created.Topics = []kmsg.MetadataRequestTopic{{Topic: &missing}}
	created.AllowAutoTopicCreation = true
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "orders"}}
	producer, transactional := kmsg.NewPtrInitProducerIDRequest(),
		kmsg.NewPtrInitProducerIDRequest()
	transactional.TransactionalID = &name
	within := produceRequestFor("orders", -1, batchOf(t, compress.None,
		record.Identity{Transactional: true}, "x"))
	within.TransactionID = &name
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "orders",
		Partitions: []int32{0}}}
	return []sample{
		{9, within, topicDenied},
		{0, producers, topicDenied},
		{9, produceRequestFor("orders", -1, batch(t, compress.None, "x")), topicDenied},
		{13, produceRequestFor("orders", -1, batch(t, compress.None, "x")), topicDenied},
		{12, fetchRequestFor("orders", 0), topicDenied},
		{18, fetchRequestFor("orders", 0), topicDenied},
		{18, follower, topicDenied},
		{11, offsets, topicDenied},
		{4, epochs, topicDenied},
		{12, byName, topicDenied},
		{12, byID, topicDenied},
		{12, created, topicDenied},
		{12, kmsg.NewPtrMetadataRequest(), ""},
		{0, pages, topicDenied},
		{0, kmsg.NewPtrDescribeTopicPartitionsRequest(), ""},
		{5, producer, clusterDenied},
		{5, transactional, txnDenied},
	}
}

func groupSamples() []sample {
	fetchAll, fetchOne := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetFetchRequest()
	fetchAll.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", MemberEpoch: -1}}
	fetchOne.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "group", MemberEpoch: -1,
		Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "orders", Partitions: []int32{0}}}}}
	find, findTxn := kmsg.NewPtrFindCoordinatorRequest(), kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys, findTxn.CoordinatorKeys = []string{"group"}, []string{"txn"}
	findTxn.CoordinatorType = 1
	join, sync := kmsg.NewPtrJoinGroupRequest(), kmsg.NewPtrSyncGroupRequest()
	join.Group, sync.Group = "group", "group"
	beat, leave := kmsg.NewPtrHeartbeatRequest(), kmsg.NewPtrLeaveGroupRequest()
	beat.Group, leave.Group = "group", "group"
	describe, remove := kmsg.NewPtrDescribeGroupsRequest(), kmsg.NewPtrDeleteGroupsRequest()
	describe.Groups, remove.Groups = []string{"group"}, []string{"other"}
	offsets := kmsg.NewPtrOffsetDeleteRequest()
	offsets.Group = "group"
	offsets.Topics = []kmsg.OffsetDeleteRequestTopic{{Topic: "orders",
		Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{}}}}
	consumer, described := kmsg.NewPtrConsumerGroupHeartbeatRequest(),
		kmsg.NewPtrConsumerGroupDescribeRequest()
	consumer.Group, consumer.MemberID, consumer.RebalanceTimeoutMillis = "consumers", "m", 1000
	consumer.SubscribedTopicNames = []string{"orders"}
	consumer.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	described.Groups = []string{"consumers"}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.Group, commit.TransactionalID = "group", "txn"
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: "orders",
		Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{}}}}
	return []sample{
		{5, commit, txnDenied},
		{9, commitRequestFor("orders"), groupDenied},
		{9, fetchAll, groupDenied},
		{9, fetchOne, groupDenied},
		{6, find, groupDenied},
		{6, findTxn, txnDenied},
		{9, join, groupDenied},
		{5, sync, groupDenied},
		{4, beat, groupDenied},
		{5, leave, groupDenied},
		{6, describe, groupDenied},
		{5, kmsg.NewPtrListGroupsRequest(), ""},
		{2, remove, groupDenied},
		{0, offsets, groupDenied},
		{1, consumer, groupDenied},
		{1, described, groupDenied},
	}
}

func adminSamples(orders metadata.ID) []sample {
	name := "orders"
	create := kmsg.NewPtrCreateTopicsRequest()
	create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: 1,
		ReplicationFactor: 1}}
	records := kmsg.NewPtrDeleteRecordsRequest()
	records.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: name,
		Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 0}}}}
	grow := kmsg.NewPtrCreatePartitionsRequest()
	grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 2}}
	topicType, brokerType := kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	groupType, metricsType := kmsg.ConfigResourceTypeGroupConfig,
		kmsg.ConfigResourceTypeClientMetrics
	all := []sample{{7, create, topicDenied}, {2, records, topicDenied}, {3, grow, topicDenied}}
	for kind, denied := range map[kmsg.ConfigResourceType]string{
		topicType: topicDenied, brokerType: clusterDenied, groupType: groupDenied,
		metricsType: clusterDenied,
	} {
		resource := map[kmsg.ConfigResourceType]string{topicType: name, brokerType: "1",
			groupType: "group", metricsType: "metrics"}[kind]
		describe, alter, replace := kmsg.NewPtrDescribeConfigsRequest(),
			kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrAlterConfigsRequest()
		describe.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind,
			ResourceName: resource}}
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind,
			ResourceName: resource}}
		replace.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kind,
			ResourceName: resource}}
		all = append(all, sample{4, describe, denied}, sample{1, alter, denied},
			sample{2, replace, denied})
	}
	// The topic is deleted last, because the samples above use it.
	for _, topic := range []kmsg.DeleteTopicsRequestTopic{{TopicID: orders}, {Topic: &name}} {
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.Topics = append(remove.Topics, topic)
		all = append(all, sample{6, remove, topicDenied})
	}
	return all
}

func clusterSamples() []sample {
	elect := kmsg.NewPtrElectLeadersRequest()
	elect.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "bills", Partitions: []int32{0}}}
	move := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	move.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: "bills",
		Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Replicas: []int32{3}}}}}
	dirs := kmsg.NewPtrAlterReplicaLogDirsRequest()
	dirs.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "/data",
		Topics: []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "bills",
			Partitions: []int32{0}}}}}
	markers := kmsg.NewPtrWriteTxnMarkersRequest()
	markers.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: "bills",
			Partitions: []int32{0}}}}}
	create, remove := kmsg.NewPtrCreateACLsRequest(), kmsg.NewPtrDeleteACLsRequest()
	create.Creations = []kmsg.CreateACLsRequestCreation{
		newACL("User:bob", "bills", 3, kmsg.ACLOperationRead)}
	remove.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1,
		Operation: 1, PermissionType: 1}}
	describe, scram := kmsg.NewPtrDescribeACLsRequest(),
		kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	describe.ResourceType, describe.ResourcePatternType = 1, 1
	describe.Operation, describe.PermissionType = 1, 1
	scram.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Name: "bob", Mechanism: 3}}
	return []sample{
		{3, describe, clusterDenied},
		{3, create, clusterDenied},
		{3, remove, clusterDenied},
		{0, kmsg.NewPtrDescribeUserSCRAMCredentialsRequest(), clusterDenied},
		{0, scram, clusterDenied},
		{1, kmsg.NewPtrDescribeClientQuotasRequest(), clusterDenied},
		{1, alterQuotas("bob", kmsg.AlterClientQuotasRequestEntryOp{}), clusterDenied},
		{2, markers, clusterDenied},
		{2, dirs, clusterDenied},
		{2, kmsg.NewPtrUpdateFeaturesRequest(), clusterDenied},
		{5, kmsg.NewPtrDescribeLogDirsRequest(), clusterDenied},
		{2, elect, clusterDenied},
		{1, move, clusterDenied},
		{0, kmsg.NewPtrListPartitionReassignmentsRequest(), clusterDenied},
		{1, kmsg.NewPtrListConfigResourcesRequest(), clusterDenied},
	}
}

// answerTo handles a request from client alice. It returns the decoded response and its first
// error.
func (b *broker) answerTo(s sample) (response kmsg.Response, name string) {
	b.t.Helper()
	s.request.SetVersion(s.version)
	b.nameByID(s.request)
	answer, err := b.Handle(b.t.Context(), &wire.Request{Key: s.request.Key(), Version: s.version,
		Body: s.request.AppendTo(nil), Listener: metadata.DefaultListener,
		Session: &wire.Session{Principal: wire.Principal{Type: "User", Name: "alice"}}})
	if err != nil {
		b.t.Fatalf("%s: %v", APIName(s.request.Key()), err)
	}
	return decodeReply[kmsg.Response](b.t, s.request, answer), answer.Error
}

func TestOnlyOpenAPIsRequireNoOperation(t *testing.T) {
	var open []string
	for _, row := range table {
		if len(row.required) == 0 {
			open = append(open, row.name)
		}
	}
	// The SASL and delegation token APIs are only answered with an error.
	want := []string{"SaslHandshake", "ApiVersions", "SaslAuthenticate", "CreateDelegationToken",
		"RenewDelegationToken", "ExpireDelegationToken",
		"DescribeDelegationToken", "DescribeCluster"}
	if !slices.Equal(open, want) {
		t.Errorf("APIs without required operations: got %v, want %v", open, want)
	}
}

// TestHandlersAuthorizeAllRequiredOperations sends each sample once with all operations allowed,
// and once for each required operation with only that operation denied. If an alternative operation
// exists, the handler must then check it: for example CREATE on the topic if CREATE on the cluster
// is denied.
func TestHandlersAuthorizeAllRequiredOperations(t *testing.T) {
	asked := map[int16]map[api.RequiredOperation]bool{}
	for _, denied := range append([]api.RequiredOperation{{}}, allRequired()...) {
		b, a := withAuthorizer(t)
		b.policy.AutoCreate = true
		must(t, b.apply())
		a.deny = func(action api.Action) bool { return action.RequiredOperation == denied }
		for _, s := range samples(t, b) {
			a.asked = nil
			b.answerTo(s)
			key := s.request.Key()
			for _, action := range a.asked {
				if asked[key] == nil {
					asked[key] = map[api.RequiredOperation]bool{}
				}
				asked[key][action.RequiredOperation] = true
				if action.Principal.Name != "alice" {
					t.Fatalf("%s asks for %+v", APIName(key), action)
				}
			}
		}
	}
	for _, row := range table {
		for _, required := range row.required {
			if !asked[row.key][required] {
				t.Errorf("%s does not authorize %+v, which its row requires", row.name, required)
			}
		}
	}
}

// allRequired returns the required operations in the table, without duplicates.
func allRequired() (all []api.RequiredOperation) {
	for _, row := range table {
		for _, required := range row.required {
			if !slices.Contains(all, required) {
				all = append(all, required)
			}
		}
	}
	return all
}

func TestDeniedRequestsHaveNoEffect(t *testing.T) {
	b, a := withAuthorizer(t)
	b.policy.AutoCreate = true
	must(t, b.apply())
	a.deny = func(api.Action) bool { return true }
	for i, s := range samples(t, b) {
		response, name := b.answerTo(s)
		if name != s.denied {
			t.Errorf("sample %d, %s: error %q, want %q: %+v", i, APIName(s.request.Key()), name,
				s.denied, response)
		}
		text := fmt.Sprintf("%q", response.AppendTo(nil))
		if strings.Contains(text, "secret") || s.denied == "" &&
			(strings.Contains(text, "orders") || strings.Contains(text, "group")) {
			t.Errorf("sample %d, %s: the answer reveals what is denied: %s", i,
				APIName(s.request.Key()), text)
		}
	}
	image := b.image.Load()
	if image.Topic("new") != nil || image.Topic("missing") != nil {
		t.Errorf("a denied request created a topic: %+v, %+v", image.Topic("new"),
			image.Topic("missing"))
	}
	orders := image.Topic("orders")
	if orders == nil || len(orders.Partitions) != 1 {
		t.Errorf("a denied request changed orders: %+v", orders)
	}
	if got := image.Topic("bills").Partitions[0].Target; got != nil {
		t.Errorf("a denied request reassigned bills to %v", got)
	}
	if b.producer != 0 {
		t.Error("a denied request used a producer id")
	}
}

// TestTopicIDsAreNotResolvedForOthers checks that a response does not contain a topic's name if the
// client sent the topic's id and may not describe the topic.
func TestTopicIDsAreNotResolvedForOthers(t *testing.T) {
	b, a := withAuthorizer(t)
	a.deny = func(action api.Action) bool { return action.RequiredOperation == api.DescribeTopic }
	orders := b.image.Load().Topic("orders").ID
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{{TopicID: orders}}
	topic := ask[*kmsg.MetadataResponse](b, 12, request).Topics[0]
	if topic.ErrorCode != 29 || topic.Topic != nil || topic.TopicID != orders {
		t.Errorf("Metadata answered %+v", topic)
	}
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.Topics = []kmsg.DeleteTopicsRequestTopic{{TopicID: orders}}
	deleted := ask[*kmsg.DeleteTopicsResponse](b, 6, remove).Topics[0]
	if deleted.ErrorCode != 29 || deleted.Topic != nil {
		t.Errorf("DeleteTopics answered %+v", deleted)
	}
}

// TestFetchSessionObeysRevokedACLs opens a fetch session for a topic, denies READ on topics, and
// continues the session without listing the topic. The response must contain an authorization error
// and no records for the topic.
func TestFetchSessionObeysRevokedACLs(t *testing.T) {
	b, a := withAuthorizer(t)
	first := fetchRequestFor("orders", 0)
	first.SessionEpoch = 0
	opened := ask[*kmsg.FetchResponse](b, 18, first)
	if part := opened.Topics[0].Partitions[0]; part.ErrorCode != 0 || len(part.RecordBatches) == 0 {
		t.Fatalf("first fetch: %+v", part)
	}
	a.deny = func(action api.Action) bool { return action.RequiredOperation == api.ReadTopic }
	next := fetchRequestFor("orders", 0)
	next.SessionID, next.SessionEpoch, next.Topics = opened.SessionID, 1, nil
	answer := ask[*kmsg.FetchResponse](b, 18, next)
	if len(answer.Topics) != 1 || answer.Topics[0].Partitions[0].ErrorCode != 29 ||
		len(answer.Topics[0].Partitions[0].RecordBatches) > 0 {
		t.Errorf("fetch after READ was revoked: got %+v", answer.Topics)
	}
}

// TestDeniedFollowerFetchNamesTheTopics denies CLUSTER_ACTION to a follower. The response to its
// fetch must contain an error for each partition, with the topic's id.
func TestDeniedFollowerFetchNamesTheTopics(t *testing.T) {
	b, a := withAuthorizer(t)
	a.deny = func(action api.Action) bool { return action.RequiredOperation == api.ClusterAction }
	request := fetchRequestFor("orders", 0)
	request.ReplicaState.ID = 1
	request.Topics = append(request.Topics, fetchRequestFor("missing", 3).Topics...)
	request.Topics[1].TopicID = [16]byte{15: 9}
	answer := ask[*kmsg.FetchResponse](b, 18, request)
	if len(answer.Topics) != 2 {
		t.Fatalf("got %+v, want two topics", answer.Topics)
	}
	for i, topic := range answer.Topics {
		if topic.TopicID != request.Topics[i].TopicID || len(topic.Partitions) != 1 ||
			topic.Partitions[0].ErrorCode != 29 {
			t.Errorf("topic %d: got %+v, want error 29 and id %v", i, topic,
				request.Topics[i].TopicID)
		}
	}
}

func TestAuthorizedOperationsAreThoseAllowed(t *testing.T) {
	b, a := withAuthorizer(t)
	a.deny = func(action api.Action) bool { return action.Operation != api.OpDescribe }
	request := allTopics(8)
	request.IncludeTopicAuthorizedOperations = true
	answer := ask[*kmsg.MetadataResponse](b, 8, request)
	for _, topic := range answer.Topics {
		if topic.AuthorizedOperations != 1<<api.OpDescribe {
			t.Errorf("authorized operations: got %b, want %b", topic.AuthorizedOperations,
				1<<api.OpDescribe)
		}
	}
}
