package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/broker/cleannow"
	"heartwood.dev/heartwood/internal/broker/damage"
	"heartwood.dev/heartwood/internal/broker/httpport"
	"heartwood.dev/heartwood/internal/broker/scrubreport"
	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/cleaner/passlog"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/pressure"
)

// smallFiles returns the files in the data directory that are not written by the store.
func (b *Broker) smallFiles(passes *passlog.Log) map[string]scrub.File {
	files := map[string]scrub.File{
		clusterIDFile:   {Check: b.cluster.check, Rewrite: b.cluster.rewrite},
		producerIDsFile: {Check: b.ids.check, Rewrite: b.ids.rewrite},
		// open sets the tasks later, but before Run starts the scrub.
		cleannow.FileName: {Check: cleannow.Check,
			Rewrite: func() error { return b.cleanNow.Rewrite() }},
	}
	for _, name := range passlog.Files {
		files[name] = scrub.File{Rewrite: func() error { return passes.Rewrite(name) }}
	}
	return files
}

func (b *Broker) newScrub(passes *passlog.Log) *scrub.Scrubber {
	return scrub.New(b.store, scrub.Options{FS: b.opts.FS, Dir: b.opts.DataDir, Logger: b.logger,
		Busy: func() bool {
			return b.cleaner.Busy() || b.volumes.state.Load().level >= pressure.Clean
		},
		Replace: damage.Replacer{NodeID: b.opts.NodeID, Image: b.image, Dial: b.dialPeer,
			// open creates the replicas later, but before Run starts the scrub.
			DeclareLost: func(id logstore.PartitionID, cause string) {
				b.replicas.DeclareLost(id, cause)
			}}.Replace,
		Files: b.smallFiles(passes),
		Cleaning: func(log *logstore.Log) bool {
			status := b.cleaner.Status(log.ID())
			return status != nil && status.RunningPass != nil
		},
		Clean: func(log *logstore.Log) {
			// CleanNow fails if the cleaner has no workers; the file is then not needed.
			_, _ = b.cleaner.CleanNow(log.ID())
		},
	})
}

// verification contains the log store's setting for each value of spec.scrub.verifyReads.
var verification = map[v1alpha1.VerifyReads]logstore.Verification{
	v1alpha1.VerifyOnce: logstore.VerifyOnce, v1alpha1.VerifyAlways: logstore.VerifyAlways,
	v1alpha1.VerifyNever: logstore.VerifyNever,
}

// damageRead is called when a read has detected damage in a segment.
func (b *Broker) damageRead(id logstore.PartitionID, base int64) {
	b.logger.Error("damage found by a read", "partition", id, "segment", base)
	b.scrub.Recheck(id, base)
}

// scrubReportInterval is how often the scrub's state is compared with the last report.
const scrubReportInterval = time.Second

// reportScrub reports each change of the scrub's state to the metadata store until ctx ends.
func (b *Broker) reportScrub(ctx context.Context) {
	reporter, ok := b.opts.Metadata.(metadata.ScrubReporter)
	if !ok {
		return
	}
	ticker := time.NewTicker(scrubReportInterval)
	defer ticker.Stop()
	last := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		status := b.scrub.Status()
		if !status.Configured {
			continue // the previous process may have reported another state
		}
		next := scrubreport.Status(b.opts.DataDir, status)
		if text := next.Text(); text != last {
			last = text
			reporter.ReportScrub(next)
		}
	}
}

// scrubReport returns the row of GET /api/v1/scrub for this broker.
func (b *Broker) scrubReport() report.Scrub {
	return scrubreport.Row(b.opts.NodeID, b.opts.DataDir, b.scrub.Status())
}

// ScrubNow requests an immediate scrub of a topic's files on these brokers, or of all files if
// topic is empty. The result also lists the brokers of other processes.
func (all Brokers) ScrubNow(topic string) (report.ScrubRequests, error) {
	answer := report.ScrubRequests{Topic: topic, Requests: []report.ScrubNowRequest{}}
	image := all.image()
	if image == nil {
		return answer, ErrStarting
	}
	if topic != "" && image.Topic(topic) == nil {
		return answer, fmt.Errorf("%w %q", ErrUnknownTopic, topic)
	}
	ids := holders(image, topic)
	for _, b := range all {
		if !ids[b.opts.NodeID] {
			continue
		}
		delete(ids, b.opts.NodeID)
		accepted := float64(time.Now().UnixMilli()) / 1000
		ticket, err := b.scrub.Request(topic)
		if err != nil {
			return answer, fmt.Errorf("broker %d: %w", b.opts.NodeID, httpport.ErrScrubOff)
		}
		answer.Requests = append(answer.Requests,
			report.ScrubNowRequest{Broker: b.opts.NodeID, Ticket: ticket, Accepted: accepted})
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		other, _ := image.Broker(id)
		endpoint, _ := other.Endpoints.On(metadata.DefaultListener)
		answer.Elsewhere = append(answer.Elsewhere,
			report.ScrubElsewhere{Broker: id, Host: endpoint.Host})
	}
	return answer, nil
}

// holders returns the brokers that have replicas of the topic. If topic is empty, it returns all
// brokers that are up or have replicas.
func holders(image *metadata.Image, topic string) map[int32]bool {
	ids := map[int32]bool{}
	for _, t := range image.Topics {
		if topic != "" && t.Name != topic {
			continue
		}
		for _, p := range t.Partitions {
			for _, id := range p.Replicas {
				ids[id] = true
			}
		}
	}
	if topic == "" {
		for i := range image.Brokers {
			ids[image.Brokers[i].ID] = true
		}
	}
	return ids
}
