//go:build dashboards

package dashboards

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// fullCluster describes a LogCluster with one broker that has a small volume.
const fullCluster = `
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: full}
spec:
  brokers: 1
  listeners: [{name: kafka, port: 9092}]
  topicDefaults: {replicas: 1}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: filler}
spec:
  cluster: full
  partitions: 1
  cleanupPolicy: Delete
  segment: {size: 4Mi}
`

// fullBytes is the size of the volume.
const fullBytes = 64 << 20

// smallVolume mounts an empty file system of fullBytes at a path.
func smallVolume(path string) string {
	return fmt.Sprintf("mount -t tmpfs -o size=%d tmpfs %q", fullBytes, path)
}

// disturbFull fills the volume: first fast, then slowly enough for Prometheus to observe each
// level.
func (w *world) disturbFull(ctx context.Context, p *prometheus) {
	key := func(int) []byte { return nil }
	w.records("full", "filler", 0, fullBytes*7/10/100_000, 100_000, key)
	writing, stop := context.WithCancel(ctx)
	var writes sync.WaitGroup
	writes.Go(func() { w.write(writing, "full", "filler", 100_000, 200*time.Millisecond) })
	p.until(2*time.Minute, "full", "HeartwoodVolumeFullSoon", "HeartwoodVolumeFilling",
		"HeartwoodVolumeFull")
	stop()
	writes.Wait()
}
