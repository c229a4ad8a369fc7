package broker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"k8s.io/apimachinery/pkg/api/resource"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/scrub"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/seed"
)

// smallFilesOf returns the contents of a broker's files that do not belong to a segment, by path.
func (c *trio) smallFilesOf(id int) map[string][]byte {
	c.t.Helper()
	found := map[string][]byte{}
	for _, dir := range []string{"/data", "/data/rep-0"} {
		entries, err := c.disks[id].ReadDir(dir)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, entry := range entries {
			name := entry.Name()
			isSegment := strings.HasPrefix(name, "0000") && !strings.HasSuffix(name, ".snapshot")
			if entry.IsDir() || isSegment || name == datadir.LockFile {
				continue
			}
			path := filepath.Join(dir, name)
			content, err := c.disks[id].ReadFile(path)
			if err != nil {
				c.t.Fatal(err)
			}
			if len(content) > 0 {
				found[path] = content
			}
		}
	}
	return found
}

// flipAt flips a bit at a position of a file. If the position is -1, it restores the original
// content.
func (c *trio) flipAt(id int, path string, content []byte, position int) {
	c.t.Helper()
	changed := slices.Clone(content)
	if position >= 0 {
		changed[position] ^= 1
	}
	file, err := c.disks[id].OpenReadWrite(path)
	if err == nil {
		_, err = file.WriteAt(changed, 0)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// TestSmallFilesAreRepaired flips a bit in each of a running broker's files that do not belong to a
// segment. The scrub must repair all of them, and the broker must find the correct content after a
// restart.
func TestSmallFilesAreRepaired(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.CleanupPolicy = v1alpha1.CleanupCompact
		topic.Spec.Segment = &v1alpha1.Segment{Size: resource.NewQuantity(1024, resource.BinarySI)}
		topic.Annotations = map[string]string{v1alpha1.AnnotationCleanNow: "once"}
	})
	c.produceKeyed(400)
	c.await("all replicas in sync", c.inSync(3))
	id := int(c.rep().Leader+1) % 3
	b := c.brokers[id]
	want := []string{"/data/cluster-id", "/data/producer-ids", "/data/meta.properties",
		"/data/cleaner-history", "/data/cleaner-totals", "/data/clean-now.json", "/data/scrub",
		"/data/recovery-point-offset-checkpoint", "/data/replication-offset-checkpoint",
		"/data/rep-0/partition.metadata", "/data/rep-0/reclaim.policy", "/data/rep-0/assignment",
		"/data/rep-0/leader-epoch-checkpoint"}
	c.await("files of each kind", func() bool {
		_, _ = b.cleaner.CleanNow(damagedPartition)
		files := c.smallFilesOf(id)
		return !slices.ContainsFunc(want, func(path string) bool { return files[path] == nil })
	})
	before := c.smallFilesOf(id)
	for path, content := range before {
		c.flipAt(id, path, content, 0)
	}
	if _, err := b.scrub.Request(""); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "repairs of all files", func() bool {
		state := b.scrub.State()
		return len(state.Damaged) == 0 && !slices.ContainsFunc(want, func(path string) bool {
			return path != "/data/scrub" && !repairedIn(state, path)
		})
	})
	c.sameFiles(id, before, want)
	c.stop(id)
	c.start(id, true)
	if offline := c.brokers[id].store.Offline(); len(offline) > 0 {
		t.Errorf("offline after the restart: %v", offline)
	}
	c.await("all replicas in sync", c.inSync(3))
	c.produceKeyed(10)
	leader := c.brokers[c.rep().Leader].store.Log(damagedPartition)
	c.await("the records of the leader", func() bool {
		return c.brokers[id].store.Log(damagedPartition).LogEnd() == leader.LogEnd()
	})
}

// produceKeyed sends n records of 90 keys to partition 0.
func (c *trio) produceKeyed(n int) {
	c.t.Helper()
	client, err := kgo.NewClient(c.seeds(), kgo.DefaultProduceTopic("rep"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(700))
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	var records []*kgo.Record
	for i := range n {
		records = append(records, &kgo.Record{Key: fmt.Appendf(nil, "%d", i%90),
			Value: []byte("a value of some length")})
	}
	if err := client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// sameFiles checks that files have their earlier content. It ignores files that a running broker
// changes.
func (c *trio) sameFiles(id int, before map[string][]byte, names []string) {
	c.t.Helper()
	changes := []string{"/data/" + scrub.StateFile, "/data/cleaner-history", "/data/cleaner-totals"}
	after := c.smallFilesOf(id)
	for _, path := range names {
		if !slices.Contains(changes, path) && !bytes.Equal(before[path], after[path]) {
			c.t.Errorf("%s: %q, want %q", path, after[path], before[path])
		}
	}
}

// TestBrokerStartsWithDamagedFiles flips a bit in each of a stopped broker's files that do not
// belong to a segment, one file at a time. The broker has the only replica of a topic with reclaim
// policy Delete. It must start with all records, or refuse to start with an error that names the
// file and the remedy.
func TestBrokerStartsWithDamagedFiles(t *testing.T) {
	c := newTrio(t, func(topic *v1alpha1.Topic) {
		topic.Spec.Replicas, topic.Spec.MinInSyncReplicas = new(int32(1)), new(int32(1))
		topic.Spec.ReclaimPolicy = v1alpha1.ReclaimDelete
		topic.Spec.Segment = &v1alpha1.Segment{Size: resource.NewQuantity(1024, resource.BinarySI)}
	})
	c.produceKeyed(100)
	id := int(c.rep().Leader)
	want := c.brokers[id].store.Log(damagedPartition).LogEnd()
	c.brokers[id].shutdown.timeout = time.Millisecond // no other broker can lead
	refused := []string{"meta.properties", "cluster-id", "format-level"}
	random := rand.New(rand.NewPCG(seed.New(t), 0))
	restore := func() {} // undoes the last flip if the broker has not repaired it
	for round := range 20 {
		for path, now := range c.smallFilesOf(id) {
			position := random.IntN(len(now))
			if round == 0 {
				position = 0
			}
			c.stop(id)
			restore()
			content, exists := c.smallFilesOf(id)[path]
			if !exists || len(content) <= position {
				c.start(id, false)
				continue
			}
			c.flipAt(id, path, content, position)
			flipped := c.smallFilesOf(id)[path]
			restore = func() {
				if bytes.Equal(c.smallFilesOf(id)[path], flipped) {
					c.flipAt(id, path, content, -1)
				}
			}
			t.Logf("flip %s at %d", path, position)
			if err := c.tryStart(id, false); err != nil {
				name := filepath.Base(path)
				if !slices.Contains(refused, name) || !strings.Contains(err.Error(), name) {
					t.Fatalf("%s, position %d: %v", path, position, err)
				}
				c.flipAt(id, path, content, -1)
				c.start(id, false)
			}
			c.await("the only replica", func() bool { return c.rep().Leader == int32(id) })
			log := c.brokers[id].store.Log(damagedPartition)
			if log == nil || log.LogEnd() != want || log.LogStart() != 0 {
				t.Fatalf("%s, position %d: log %v, offline %v", path, position, log,
					c.brokers[id].store.Offline())
			}
		}
	}
	c.produceKeyed(10)
}
