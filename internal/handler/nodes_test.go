package handler

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
)

// outListener is a listener on which only broker 1 has an endpoint.
const outListener = "out"

func TestMetadataNamesEndpointsOfTheListener(t *testing.T) {
	everyVersion(t, api.KeyMetadata, func(t *testing.T, b *broker, version int16) {
		b.topic("a", nil)
		b.topic("b", func(topic *metadata.Topic) { topic.Partitions[0].Leader = 3 })
		b.listener = outListener
		answer := ask[*kmsg.MetadataResponse](b, version, allTopics(version))
		if len(answer.Brokers) != 1 || answer.Brokers[0].NodeID != self ||
			answer.Brokers[0].Host != "one.public" || answer.Brokers[0].Port != 19092 {
			t.Errorf("brokers %+v", answer.Brokers)
		}
		if part := answer.Topics[0].Partitions[0]; part.ErrorCode != 0 || part.Leader != self {
			t.Errorf("partition with an endpoint: %+v", part)
		}
		want := int16(72)
		if version < 6 {
			want = 5
		}
		if part := answer.Topics[1].Partitions[0]; part.ErrorCode != want || part.Leader != -1 {
			t.Errorf("partition without an endpoint: %+v, want error %d", part, want)
		}
	})
}

func TestClusterAndCoordinatorAreDescribedOnTheListener(t *testing.T) {
	b := newBroker(t)
	b.topic("a", func(topic *metadata.Topic) { topic.Partitions[0].Leader = 3 })
	b.listener = outListener
	cluster := kmsg.NewPtrDescribeClusterRequest()
	cluster.EndpointType = 1
	described := ask[*kmsg.DescribeClusterResponse](b, 2, cluster)
	if len(described.Brokers) != 1 || described.Brokers[0].Host != "one.public" ||
		described.ControllerID != self {
		t.Errorf("DescribeCluster answered %+v", described)
	}
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"group"}
	found := ask[*kmsg.FindCoordinatorResponse](b, 6, find).Coordinators[0]
	if found.ErrorCode != 0 || found.Host != "one.public" || found.Port != 19092 {
		t.Errorf("FindCoordinator answered %+v", found)
	}
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	topics := ask[*kmsg.DescribeTopicPartitionsResponse](b, 0, pages).Topics
	if part := topics[len(topics)-1].Partitions[0]; part.ErrorCode != 72 {
		t.Errorf("DescribeTopicPartitions answered %+v", part)
	}
}

func TestCoordinatorWithoutEndpointIsNotAvailable(t *testing.T) {
	b := newBroker(t)
	b.listener = "tls"
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.CoordinatorKeys = []string{"group"}
	found := ask[*kmsg.FindCoordinatorResponse](b, 6, find).Coordinators[0]
	if found.ErrorCode != 15 || found.NodeID != -1 || found.Port != -1 {
		t.Errorf("FindCoordinator answered %+v", found)
	}
}

// TestLeaderHintsNameEndpointsOfTheListener checks that the node endpoints in a response (KIP-951)
// are on the client's listener.
func TestLeaderHintsNameEndpointsOfTheListener(t *testing.T) {
	for listener, want := range map[string]string{
		metadata.DefaultListener: "three.example", outListener: "",
	} {
		b := newBroker(t)
		b.topic("a", elsewhereOutOfSync)
		b.listener = listener
		answer := ask[*kmsg.ProduceResponse](b, 12,
			produceRequestFor("a", -1, batch(t, 0, "x")))
		hosts := ""
		for _, node := range answer.Brokers {
			hosts += fmt.Sprint(node.Host)
		}
		if hosts != want {
			t.Errorf("listener %s: endpoints of %q, want %q", listener, hosts, want)
		}
	}
}
