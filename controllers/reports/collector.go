// Package reports collects the brokers' reports on compaction. The reported numbers change too
// often to be stored in the API server, so the operator reads them from the brokers over HTTP.
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
	"heartwood.dev/heartwood/controllers/conditions"
	"heartwood.dev/heartwood/controllers/peertls"
	"heartwood.dev/heartwood/controllers/watch"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/operator/rebalance"
	"heartwood.dev/heartwood/internal/operator/render"
)

const (
	// defaultInterval is the time between the starts of two rounds. If a round takes longer, the next
	// one starts immediately.
	defaultInterval = 15 * time.Second
	// topicInterval limits the rate at which Topics are reconciled, because each reconciliation may
	// write to the API server. The interval between rounds is at least topicInterval times the number
	// of Topics that a round sends. With more than 750 Topics, this exceeds defaultInterval.
	topicInterval = 20 * time.Millisecond
	// requestTimeout is the timeout of a request to one broker, including the response body.
	requestTimeout = 3 * time.Second
	// concurrentRequests is the number of brokers of a cluster that are polled at the same time.
	concurrentRequests = 8
	// maxReportBytes is the maximum size of one broker's report. A partition takes about 1.5 KB of a
	// report, so the limit allows about 40,000 partitions.
	maxReportBytes = 64 << 20
)

// Cluster is the result of one round for one LogCluster. It is immutable after its publication.
type Cluster struct {
	// Round is the number of the round. The first round after the operator's start has number 1.
	Round             int64
	At                time.Time // time at which all responses had been read
	Responded, Polled int       // numbers of brokers; 0 <= Responded <= Polled
	Silent            []int32   // brokers that did not respond
	// Rows contains the reports on replicas, by the topic's Kafka name.
	Rows map[string][]report.Partition
	// Rates contains the rates at which producers append to partitions, as far as they were measured
	// since the operator started.
	Rates map[report.TopicPartition]rebalance.Rate
}

// RoundNumber returns c.Round. If c is nil, no round has been completed, and RoundNumber returns 0.
func (c *Cluster) RoundNumber() int64 {
	if c == nil {
		return 0
	}
	return c.Round
}

// Options configures a Collector. The zero value selects the defaults.
type Options struct {
	Interval  time.Duration     // time between the starts of two rounds; default 15 s
	Transport http.RoundTripper // transport for brokers without TLS; default: http.DefaultTransport
	// client for brokers with TLS; default: one with the collector's reader
	TLS *peertls.Client
	// Status receives condition ClientsFailing. If Status is nil, the condition is not decided.
	Status *conditions.Shared
}

// Collector polls the brokers of every LogCluster. Start runs in one goroutine. mu is locked only
// to read or replace the reports.
type Collector struct {
	reader   client.Reader
	plain    http.RoundTripper
	tls      *peertls.Client
	status   *conditions.Shared
	interval time.Duration
	topics   chan event.GenericEvent
	rounds   int64 // number of rounds so far; used only by the goroutine of Start
	mu       struct {
		sync.Mutex
		// latest contains the reports by LogCluster. Each round replaces the map, which removes the
		// reports of deleted clusters.
		latest map[types.NamespacedName]*Cluster
	}
}

// NewCollector returns a collector that lists clusters and topics with reader. It polls brokers
// only while Start is running.
func NewCollector(reader client.Reader, options Options) *Collector {
	if options.TLS == nil {
		options.TLS = peertls.New(reader, nil)
	}
	return &Collector{
		reader: reader, plain: options.Transport, tls: options.TLS, status: options.Status,
		interval: cmp.Or(options.Interval, defaultInterval),
		topics:   make(chan event.GenericEvent),
	}
}

// Topics returns the channel to which each round sends the Topics to reconcile. The topic
// controller receives from it.
func (c *Collector) Topics() <-chan event.GenericEvent { return c.topics }

// Latest returns the report on a cluster from the last completed round. It returns nil if that
// round did not know the cluster, or if no round has been completed.
func (c *Collector) Latest(cluster types.NamespacedName) *Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.latest[cluster]
}

// Start runs one round per interval until ctx ends. The manager calls it only in the active
// operator.
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

// round polls all brokers once, publishes the reports, and then sends the Topics whose status
// depends on the reports to the topic controller. It returns the number of sent Topics. Topics are
// sent last, because a Topic that is reconciled before the publication would use the previous
// report.
func (c *Collector) round(ctx context.Context) (queued int, err error) {
	clusters, topics := &v1alpha1.LogClusterList{}, &v1alpha1.TopicList{}
	if err := c.reader.List(ctx, clusters); err != nil {
		return 0, fmt.Errorf("list clusters: %w", err)
	}
	if err := c.reader.List(ctx, topics); err != nil {
		return 0, fmt.Errorf("list topics: %w", err)
	}
	c.rounds++
	reported := reportedTopics(clusters.Items, topics.Items)
	latest := map[types.NamespacedName]*Cluster{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		key := client.ObjectKeyFromObject(cluster)
		latest[key] = c.poll(ctx, cluster)
		latest[key].Rates = rates(c.Latest(key), latest[key])
	}
	c.mu.Lock()
	c.mu.latest = latest
	c.mu.Unlock()
	for i := range clusters.Items {
		if err := c.reportFailing(ctx, &clusters.Items[i]); err != nil {
			return queued, err
		}
	}
	for _, topics := range reported {
		for _, topic := range topics {
			if err := watch.Send(ctx, c.topics, topic); err != nil {
				return queued, err
			}
			queued++
		}
	}
	return queued, nil
}

// reportedTopics returns the Topics of each cluster whose status depends on the brokers' reports.
// These are compacted Topics, and Topics with problems, because a report may contain the cause of a
// problem.
func reportedTopics(clusters []v1alpha1.LogCluster,
	topics []v1alpha1.Topic) map[types.NamespacedName][]*v1alpha1.Topic {
	byKey := map[types.NamespacedName]*v1alpha1.LogCluster{}
	for i := range clusters {
		byKey[client.ObjectKeyFromObject(&clusters[i])] = &clusters[i]
	}
	found := map[types.NamespacedName][]*v1alpha1.Topic{}
	for i := range topics {
		key := types.NamespacedName{Namespace: topics[i].Namespace, Name: topics[i].Spec.Cluster}
		if cluster := byKey[key]; cluster != nil &&
			(Compacted(&topics[i], cluster) || len(topics[i].Status.Problems) > 0) {
			found[key] = append(found[key], &topics[i])
		}
	}
	return found
}

// Compacted reports whether a topic is compacted. A topic with contradictory settings is not
// compacted.
func Compacted(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) bool {
	settings, err := metadata.SettingsOf(topic, cluster)
	return err == nil && settings.Compact
}

// poll reads the reports of all brokers of a cluster. A broker that does not respond is omitted and
// causes no error: if it is down, condition Ready of the LogCluster shows this.
func (c *Collector) poll(ctx context.Context, cluster *v1alpha1.LogCluster) *Cluster {
	// Brokers that are to be removed are in the status while they have replicas.
	brokers := max(cluster.Spec.Brokers, int32(len(cluster.Status.Brokers)))
	responses := make([]*report.Partitions, brokers)
	var group errgroup.Group
	group.SetLimit(concurrentRequests)
	for id := range brokers {
		group.Go(func() error {
			response, err := c.pollBroker(ctx, cluster, id)
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
	c.identify(ctx, cluster, responses)
	merged := merge(responses, int(cluster.Spec.Brokers))
	merged.Round, merged.At = c.rounds, time.Now()
	return merged
}

// merge groups the rows of all responses by topic. Brokers respond at different times. So while a
// partition's leadership moves, it is possible that two brokers report that they lead it, or that
// none does. The next round corrects the result. Only brokers whose id is below brokers count as
// polled, because the others are to be removed.
func merge(responses []*report.Partitions, brokers int) *Cluster {
	merged := &Cluster{Polled: brokers, Rows: map[string][]report.Partition{}}
	for id, response := range responses {
		switch {
		case response == nil && id < brokers:
			merged.Silent = append(merged.Silent, int32(id))
			continue
		case response == nil:
			continue
		case id < brokers:
			merged.Responded++
		}
		for _, row := range response.Partitions {
			merged.Rows[row.Topic] = append(merged.Rows[row.Topic], row)
		}
	}
	return merged
}

// pollBroker reads one broker's report.
func (c *Collector) pollBroker(ctx context.Context, cluster *v1alpha1.LogCluster,
	broker int32) (*report.Partitions, error) {
	return get[report.Partitions](ctx, c, cluster, broker, "/api/v1/partitions")
}

// get reads one broker's response. A response longer than maxReportBytes is truncated and cannot be
// decoded. Unknown fields of a newer broker are ignored.
func get[T any](ctx context.Context, c *Collector, cluster *v1alpha1.LogCluster, broker int32,
	path string) (*T, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	scheme, transport, err := c.tls.HTTP(ctx, client.ObjectKeyFromObject(cluster), broker, c.plain)
	if err != nil {
		return nil, err
	}
	address := render.HTTPAddress(cluster.Name, cluster.Namespace, broker)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("get the report of %s: %s", address, response.Status)
	}
	decoded := new(T)
	if err := json.NewDecoder(io.LimitReader(response.Body,
		maxReportBytes)).Decode(decoded); err != nil {
		return nil, fmt.Errorf("decode the report of %s: %w", address, err)
	}
	return decoded, nil
}
