package controllers

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
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/operator/render"
)

const (
	// reportInterval is from the start of one round to that of the next. A round that takes longer
	// is followed by the next at once.
	reportInterval = 15 * time.Second
	// topicInterval is how many Topics a second are told of a report, at most: each may be a write
	// to the API server. With more than 750 compacted topics it stretches the rounds.
	topicInterval = 20 * time.Millisecond
	// reportTimeout bounds one broker's answer, its body included.
	reportTimeout = 3 * time.Second
	// reportsAtOnce bounds how many brokers are asked at the same time.
	reportsAtOnce = 8
	// reportBytesMax bounds what is read of one broker: about 1.5 KB a partition, so some 40,000
	// partitions.
	reportBytesMax = 64 << 20
)

// clusterReport is what the brokers of a cluster said in one round. It is never changed once it is
// to be seen.
type clusterReport struct {
	round           int64                         // counts up from 1 as long as the operator runs
	at              time.Time                     // when the brokers had answered
	answered, asked int                           // brokers; 0 <= answered <= asked
	rows            map[string][]report.Partition // by the topic's Kafka name; of all replicas
}

// number is the report's round, 0 before the first.
func (c *clusterReport) number() int64 {
	if c == nil {
		return 0
	}
	return c.round
}

// reporter asks the brokers how cleaning goes, as these numbers change too often to travel through
// the API server. It asks only clusters that have compacted topics.
type reporter struct {
	reader   client.Reader
	http     *http.Client
	interval time.Duration
	// topics takes the Topics that must look again; the topic controller drains it.
	topics chan event.GenericEvent
	rounds int64 // only Start's goroutine counts
	mu     struct {
		sync.Mutex
		// by LogCluster; replaced as a whole, so what is gone falls out
		latest map[types.NamespacedName]*clusterReport
	}
}

// newReporter makes a reporter that reads clusters and topics with reader. It does nothing before
// Start.
func newReporter(reader client.Reader, options reportOptions) *reporter {
	return &reporter{
		reader:   reader,
		http:     &http.Client{Timeout: reportTimeout, Transport: options.transport},
		interval: cmp.Or(options.interval, reportInterval),
		topics:   make(chan event.GenericEvent),
	}
}

// Start asks again and again until ctx ends. The manager runs it where the controllers run: on the
// elected operator only.
func (r *reporter) Start(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		began := time.Now()
		told, err := r.round(ctx)
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "cannot gather reports")
		}
		timer.Reset(max(r.interval, time.Duration(told)*topicInterval) - time.Since(began))
	}
}

// of returns what a cluster's brokers said last; nil before they were asked.
func (r *reporter) of(cluster types.NamespacedName) *clusterReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.latest[cluster]
}

// round asks all brokers once, then tells the Topics, and returns how many. In this order: a Topic
// that looks earlier would find the report before. It waits while the topic controller's queue is
// full, until ctx ends; the lock is held for the swap alone.
func (r *reporter) round(ctx context.Context) (told int, err error) {
	clusters, topics := &v1alpha1.LogClusterList{}, &v1alpha1.TopicList{}
	if err := r.reader.List(ctx, clusters); err != nil {
		return 0, fmt.Errorf("list clusters: %w", err)
	}
	if err := r.reader.List(ctx, topics); err != nil {
		return 0, fmt.Errorf("list topics: %w", err)
	}
	r.rounds++
	compacted := compactedTopics(clusters.Items, topics.Items)
	latest := map[types.NamespacedName]*clusterReport{}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		if key := client.ObjectKeyFromObject(cluster); len(compacted[key]) > 0 {
			latest[key] = r.ask(ctx, cluster)
		}
	}
	r.mu.Lock()
	r.mu.latest = latest
	r.mu.Unlock()
	for _, topics := range compacted {
		for _, topic := range topics {
			select {
			case r.topics <- event.GenericEvent{Object: topic}:
				told++
			case <-ctx.Done():
				return told, ctx.Err()
			}
		}
	}
	return told, nil
}

// compactedTopics returns the topics that the cleaner works on, by cluster.
func compactedTopics(clusters []v1alpha1.LogCluster,
	topics []v1alpha1.Topic) map[types.NamespacedName][]*v1alpha1.Topic {
	byKey := map[types.NamespacedName]*v1alpha1.LogCluster{}
	for i := range clusters {
		byKey[client.ObjectKeyFromObject(&clusters[i])] = &clusters[i]
	}
	found := map[types.NamespacedName][]*v1alpha1.Topic{}
	for i := range topics {
		key := types.NamespacedName{Namespace: topics[i].Namespace, Name: topics[i].Spec.Cluster}
		if cluster := byKey[key]; cluster != nil && compacts(&topics[i], cluster) {
			found[key] = append(found[key], &topics[i])
		}
	}
	return found
}

// compacts tells whether the cleaner works on a topic. Settings that contradict each other are no
// settings.
func compacts(topic *v1alpha1.Topic, cluster *v1alpha1.LogCluster) bool {
	settings, err := metadata.ResolveSettings(topic.Spec.TopicSettings, cluster)
	return err == nil && settings.Compact
}

// ask asks all brokers of a cluster. Who does not answer is left out: it may be down, which other
// conditions tell.
func (r *reporter) ask(ctx context.Context, cluster *v1alpha1.LogCluster) *clusterReport {
	answers := make([]*report.Partitions, cluster.Spec.Brokers)
	var group errgroup.Group
	group.SetLimit(reportsAtOnce)
	for id := range cluster.Spec.Brokers {
		group.Go(func() error {
			answer, err := r.askBroker(ctx, render.HTTPAddress(cluster.Name, cluster.Namespace, id))
			if err != nil {
				ctrl.LoggerFrom(ctx).V(1).Info("a broker gave no report", "cluster", cluster.Name,
					"broker", id, "error", err.Error())
				return nil
			}
			answers[id] = answer
			return nil
		})
	}
	_ = group.Wait() // no function of the group fails
	merged := merge(answers)
	merged.round, merged.at = r.rounds, time.Now()
	return merged
}

// merge sorts the answers by topic. Brokers answer at different moments, so while leadership moves
// two may report a partition as its leader, or none; the next round puts that right.
func merge(answers []*report.Partitions) *clusterReport {
	merged := &clusterReport{asked: len(answers), rows: map[string][]report.Partition{}}
	for _, answer := range answers {
		if answer == nil {
			continue
		}
		merged.answered++
		for _, row := range answer.Partitions {
			merged.rows[row.Topic] = append(merged.rows[row.Topic], row)
		}
	}
	return merged
}

// askBroker reads one broker's report. An answer longer than reportBytesMax is cut off there and
// fails to decode; fields that this operator does not know are passed over, so brokers may be
// newer.
func (r *reporter) askBroker(ctx context.Context, address string) (*report.Partitions, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"http://"+address+"/api/v1/partitions", nil)
	if err != nil {
		return nil, err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask %s: %s", address, response.Status)
	}
	answer := &report.Partitions{}
	if err := json.NewDecoder(io.LimitReader(response.Body,
		reportBytesMax)).Decode(answer); err != nil {
		return nil, fmt.Errorf("read the report of %s: %w", address, err)
	}
	return answer, nil
}
