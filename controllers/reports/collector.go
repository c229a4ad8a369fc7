// Package reports collects the brokers' reports on compaction. These numbers change too often to
// pass through the API server, so the operator reads them over HTTP.
package reports

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/operator/render"
)

const (
	// defaultInterval is the time from the start of one round to the start of the next. A longer
	// round is followed by the next one immediately.
	defaultInterval = 15 * time.Second
	// topicInterval limits how many Topics per second are queued after a round, as each may cause a
	// write to the API server. With more than 750 compacted topics it lengthens the rounds.
	topicInterval = 20 * time.Millisecond
	// requestTimeout bounds one broker's response, including its body.
	requestTimeout = 3 * time.Second
	// concurrentRequests is how many brokers of a cluster are read at the same time.
	concurrentRequests = 8
	// maxReportBytes bounds the bytes that are read from one broker. A partition takes about 1.5
	// KB, so this is enough for some 40,000 partitions.
	maxReportBytes = 64 << 20
)

// Cluster is the result of one round for one LogCluster. It is immutable once it is published.
type Cluster struct {
	// number of the round, from 1 since the operator started
	Round             int64
	At                time.Time                     // when the brokers had responded
	Responded, Polled int                           // brokers; 0 <= Responded <= Polled
	Rows              map[string][]report.Partition // all replicas, by the topic's Kafka name
}

// RoundNumber returns the round of the report, 0 before the first.
func (c *Cluster) RoundNumber() int64 {
	if c == nil {
		return 0
	}
	return c.Round
}

// Options configure a Collector; the zero value selects the defaults.
type Options struct {
	Interval  time.Duration     // between the starts of two rounds; default 15 s
	Transport http.RoundTripper // default: http.DefaultTransport
}

// Collector polls the brokers of every LogCluster that has compacted topics. Its one goroutine is
// Start. The lock is a leaf and is held only to exchange the reports.
type Collector struct {
	reader   client.Reader
	http     *http.Client
	interval time.Duration
	topics   chan event.GenericEvent
	rounds   int64 // used only by Start's goroutine
	mu       struct {
		sync.Mutex
		// By LogCluster. Each round replaces the map, so reports of deleted clusters are dropped.
		latest map[types.NamespacedName]*Cluster
	}
}

// NewCollector returns a collector that lists clusters and topics with reader. It is idle until
// Start.
func NewCollector(reader client.Reader, options Options) *Collector {
	return &Collector{
		reader:   reader,
		http:     &http.Client{Timeout: requestTimeout, Transport: options.Transport},
		interval: cmp.Or(options.Interval, defaultInterval),
		topics:   make(chan event.GenericEvent),
	}
}

// Topics returns the channel of Topics to reconcile after a round. The topic controller drains it.
func (c *Collector) Topics() <-chan event.GenericEvent { return c.topics }

// Latest returns a cluster's report of the last round, or nil before the first.
func (c *Collector) Latest(cluster types.NamespacedName) *Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.latest[cluster]
}

// Start runs a round per interval until ctx ends. The manager runs it on the elected operator only.
func (c *Collector) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		queued, err := c.round(ctx)
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "failed to collect the brokers' reports")
		}
		timer.Reset(max(c.interval, time.Duration(queued)*topicInterval) - time.Since(began))
	}
}

// round polls all brokers once, publishes the reports, then queues the Topics and returns how many.
// In this order, because a Topic that is reconciled earlier would use the previous report.
func (c *Collector) round(ctx context.Context) (queued int, err error) {
	clusters, topics := &v1alpha1.LogClusterList{}, &v1alpha1.TopicList{}
	if err := c.reader.List(ctx, clusters); err != nil {
		return 0, fmt.Errorf("list clusters: %w", err)
	}
	if err := c.reader.List(ctx, topics); err != nil {
		return 0, fmt.Errorf("list topics: %w", err)
	}
	c.rounds++
	compacted := compactedTopics(clusters.Items, topics.Items)
	latest := map[types.NamespacedName]*Cluster{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if key := client.ObjectKeyFromObject(cluster); len(compacted[key]) > 0 {
			latest[key] = c.poll(ctx, cluster)
		}
	}
	c.mu.Lock()
	c.mu.latest = latest
	c.mu.Unlock()
	for _, topics := range compacted {
		for _, topic := range topics {
			if err := watch.Send(ctx, c.topics, topic); err != nil {
				return queued, err
			}
			queued++
		}
	}
	return queued, nil
}

// compactedTopics returns the compacted topics by cluster.
func compactedTopics(clusters []v1alpha1.LogCluster,
	topics []v1alpha1.Topic) map[types.NamespacedName][]*v1alpha1.Topic {
	byKey := map[types.NamespacedName]*v1alpha1.LogCluster{}
	for i := range clusters {
		byKey[client.ObjectKeyFromObject(&clusters[i])] = &clusters[i]
	}
	found := map[types.NamespacedName][]*v1alpha1.Topic{}
	for i := range topics {
		key := types.NamespacedName{Namespace: topics[i].Namespace, Name: topics[i].Spec.Cluster}
		if cluster := byKey[key]; cluster != nil && Compacted(&topics[i], cluster) {
			found[key] = append(found[key], &topics[i])
		}
	}
	return found
}

// Compacted reports whether a topic is compacted. A topic whose settings are contradictory is not.
func Compacted(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) bool {
	settings, err := metadata.ResolveSettings(topic.Spec.TopicSettings, cluster)
	return err == nil && settings.Compact
}

// poll reads the reports of all brokers of a cluster. A broker that does not respond is left out:
// if it is down, other conditions report that.
func (c *Collector) poll(ctx context.Context, cluster *v1alpha1.LogCluster) *Cluster {
	responses := make([]*report.Partitions, cluster.Spec.Brokers)
	var group errgroup.Group
	group.SetLimit(concurrentRequests)
	for id := range cluster.Spec.Brokers {
		group.Go(func() error {
			response, err := c.pollBroker(ctx,
				render.HTTPAddress(cluster.Name, cluster.Namespace, id))
			if err != nil {
				ctrl.LoggerFrom(ctx).V(1).Info("failed to read a broker's report", "cluster",
					cluster.Name, "broker", id, "error", err.Error())
				return nil
			}
			responses[id] = response
			return nil
		})
	}
	_ = group.Wait() // no function of the group returns an error
	merged := merge(responses)
	merged.Round, merged.At = c.rounds, time.Now()
	return merged
}

// merge groups the rows of all responses by topic. Brokers respond at different moments, so while
// leadership moves two brokers, or none, may report that they lead a partition. The next round
// corrects it.
func merge(responses []*report.Partitions) *Cluster {
	merged := &Cluster{Polled: len(responses), Rows: map[string][]report.Partition{}}
	for _, response := range responses {
		if response == nil {
			continue
		}
		merged.Responded++
		for _, row := range response.Partitions {
			merged.Rows[row.Topic] = append(merged.Rows[row.Topic], row)
		}
	}
	return merged
}

// pollBroker reads one broker's report. A response longer than maxReportBytes is truncated and
// fails to decode. Unknown fields are ignored, so a broker may be newer than the operator.
func (c *Collector) pollBroker(ctx context.Context, address string) (*report.Partitions, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+address+"/api/v1/partitions", nil)
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get the report of %s: %s", address, response.Status)
	}
	decoded := &report.Partitions{}
	if err := json.NewDecoder(io.LimitReader(response.Body,
		maxReportBytes)).Decode(decoded); err != nil {
		return nil, fmt.Errorf("decode the report of %s: %w", address, err)
	}
	return decoded, nil
}
