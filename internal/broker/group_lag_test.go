package broker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/broker/grouplag"
	"heartwood.dev/heartwood/internal/coordinator/lag"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/test/kit/await"
)

// fillTopic creates a topic with six partitions and replication factor 1. It writes ten records to
// each partition and commits offset 4 for each.
func fillTopic(t *testing.T, client *kgo.Client, topic, group string, brokers []*Broker) {
	t.Helper()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(t.Context(), 6, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	awaitTopic(t, brokers, topic)
	var records []*kgo.Record
	offsets := kadm.Offsets{}
	for p := range int32(6) {
		for range 10 {
			records = append(records, &kgo.Record{Topic: topic, Partition: p, Value: []byte("v")})
		}
		offsets.AddOffset(topic, p, 4, -1)
	}
	if err := client.ProduceSync(t.Context(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the offsets are committed", func() bool {
		return admin.CommitAllOffsets(t.Context(), group, offsets) == nil
	})
}

// awaitTopic waits until every broker's metadata image contains the topic. The broker that creates
// a topic waits only for its own image.
func awaitTopic(t *testing.T, brokers []*Broker, topic string) {
	t.Helper()
	await.Until(t, "topic "+topic+" is in the images of all brokers", func() bool {
		return !slices.ContainsFunc(brokers, func(b *Broker) bool {
			return b.image().Topic(topic) == nil
		})
	})
}

// lagAtCoordinator computes a group's lag at its coordinator.
func lagAtCoordinator(t *testing.T, client *kgo.Client, group string,
	brokers []*Broker) (*grouplag.Lag, *Broker) {
	t.Helper()
	var found kadm.FindCoordinatorResponses
	await.Until(t, "the coordinator is found", func() bool {
		found = kadm.NewClient(client).FindGroupCoordinators(t.Context(), group)
		return found[group].Err == nil
	})
	index := slices.IndexFunc(brokers, func(b *Broker) bool {
		return b.opts.NodeID == found[group].NodeID
	})
	g := grouplag.New(brokers[index].groupLagOptions())
	t.Cleanup(g.Close)
	return g, brokers[index]
}

// TestGroupLagInASecuredCluster checks that leaders return end offsets to other brokers, although
// no ACL permits these brokers' principals to describe the topic, and that connections are kept for
// the next round.
func TestGroupLagInASecuredCluster(t *testing.T) {
	c := newSecureCluster(t, 3)
	client := c.client("admin", "admin-secret", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	fillTopic(t, client, "orders", "billing", c.brokers)
	g, coordinator := lagAtCoordinator(t, client, "billing", c.brokers)
	await.Until(t, "all leaders answer", func() bool { return g.Round(t.Context()) == nil })
	want := []lag.Pair{{Group: "billing", Topic: "orders", Offsets: 36}}
	if got := g.Last(); !slices.Equal(got.Top, want) || got.Offsets != 36 ||
		got.Unanswered != 0 || got.Success.IsZero() {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if leaders := leadersOf(coordinator.image(), "orders"); len(g.Peers()) != len(leaders)-1 {
		t.Errorf("%d connections are kept; the leaders are %v", len(g.Peers()), leaders)
	}
	await.Until(t, "a round uses all connections again", func() bool { // a leader may be slow
		kept := maps.Clone(g.Peers())
		return g.Round(t.Context()) == nil && maps.Equal(g.Peers(), kept)
	})
	if _, err := kadm.NewClient(client).DeleteTopic(t.Context(), "orders"); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "the lag of the deleted topic is gone", func() bool {
		return g.Round(t.Context()) == nil && len(g.Last().Top) == 0
	})
	if len(g.Peers()) != 0 {
		t.Errorf("%d connections are open, though there is nothing to ask", len(g.Peers()))
	}
}

func leadersOf(image *metadata.Image, topic string) map[int32]int {
	leaders := map[int32]int{}
	for _, p := range image.Topic(topic).Partitions {
		leaders[p.Leader]++
	}
	return leaders
}

// TestGroupLagOfAnUnavailableLeader checks that the partitions of an unavailable leader keep their
// lag, and that the round counts as incomplete. A coordinator that has never received the end
// offsets must omit these partitions.
func TestGroupLagOfAnUnavailableLeader(t *testing.T) {
	c := newTrio(t)
	client, err := kgo.NewClient(c.seeds(), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.UnknownTopicRetries(-1), kgo.MetadataMinAge(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	fillTopic(t, client, "single", "g", c.brokers[:])
	g, coordinator := lagAtCoordinator(t, client, "g", c.brokers[:])
	c.await("all leaders to answer", func() bool { return g.Round(t.Context()) == nil })
	success := g.Last().Success
	victim := int((coordinator.opts.NodeID + 1) % 3)
	led := leadersOf(coordinator.image(), "single")[int32(victim)]
	c.stop(victim)
	c.await("an incomplete round", func() bool {
		return g.Round(t.Context()) != nil && g.Last().Unanswered == led
	})
	if got := g.Last(); got.Offsets != 36 || got.Unknown != 0 || led == 0 {
		t.Errorf("%d leaderless partitions: got %+v, want a lag of 36", led, got)
	}
	fresh := grouplag.New(coordinator.groupLagOptions())
	c.await("the other leaders to answer", func() bool {
		if err := fresh.Round(t.Context()); err == nil {
			t.Fatal("a round without all leaders succeeded")
		}
		return fresh.Last().Unanswered == led
	})
	if got := fresh.Last(); got.Unknown != led || got.Offsets != int64(36-6*led) ||
		!got.Success.IsZero() {
		t.Errorf("%d leaderless partitions: got %+v", led, got)
	}
	fresh.Close()
	c.start(victim, true)
	c.await("all leaders to answer again", func() bool { return g.Round(t.Context()) == nil })
	if got := g.Last(); got.Offsets != 36 || !got.Success.After(success) {
		t.Errorf("got %+v", got)
	}
}

// TestGroupLagMetrics checks that group ids with invalid UTF-8 do not make a scrape fail.
func TestGroupLagMetrics(t *testing.T) {
	c := newCluster(t)
	c.start()
	client := c.client()
	c.produce(client, "r", 7)
	admin := kadm.NewClient(client)
	for _, group := range []string{"a\xff", "a\xfe", "plain"} {
		offsets := kadm.Offsets{}
		offsets.AddOffset("tickets", 0, 0, -1)
		offsets.AddOffset("tickets", 1, 0, -1)
		await.Until(t, "the offsets are committed", func() bool {
			return admin.CommitAllOffsets(t.Context(), group, offsets) == nil
		})
	}
	g := grouplag.New(c.Broker.groupLagOptions())
	await.Until(t, "a round is complete", func() bool { return g.Round(t.Context()) == nil })
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(g)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			series := strings.TrimPrefix(family.GetName(), "heartwood_")
			for _, label := range m.GetLabel() {
				series += " " + label.GetValue()
			}
			found[series] = fmt.Sprint(m.GetGauge().GetValue())
		}
	}
	delete(found, "coordinator_lag_last_success_timestamp_seconds")
	want := map[string]string{
		"group_lag_offsets a\uFFFD tickets": "14", "group_lag_offsets plain tickets": "7",
		"coordinator_lag_offsets": "21", "coordinator_lag_omitted_pairs": "0",
		"coordinator_lag_unanswered_partitions": "0",
	}
	if !maps.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
}
