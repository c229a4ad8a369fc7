package browser

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
)

const manifests = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: demo}
spec:
  brokers: 3
  cleaner: {workers: 1%s}
  topicDefaults: {replicas: 3, minInSyncReplicas: 2}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: customers}
spec:
  cluster: demo
  partitions: 4
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 30, tombstoneRetention: 1h}
  compression: {type: zstd}
  segment: {size: %s, maxAge: 1h}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: orders}
spec: {cluster: demo, partitions: 2, cleanupPolicy: Delete}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: many}
spec:
  cluster: demo
  partitions: 1
  replicas: 1
  minInSyncReplicas: 1
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 100, minLag: 24h}
  segment: {size: 1Ki}
`

// cluster is a development cluster that runs each broker in a process.
type cluster struct {
	t         *testing.T
	dir       string
	segment   string // segment size of topic customers
	bootstrap []string
	http      string // address of the cluster; the brokers serve HTTP at the next ports
	console   string // URL

	mu   sync.Mutex
	pids map[int]int // pid of each broker
}

// startCluster runs the built binary. limit is the cleaner's I/O rate; "" for no limit.
func startCluster(t *testing.T, limit string) *cluster {
	t.Helper()
	return startClusterOf(t, limit, "1Mi")
}

// startClusterOf is startCluster with a segment size for topic customers.
func startClusterOf(t *testing.T, limit, segment string) *cluster {
	t.Helper()
	binary := os.Getenv("HEARTWOOD_BINARY")
	if binary == "" {
		t.Skip("SKIPPED: HEARTWOOD_BINARY names no binary; run make browser")
	}
	c := &cluster{t: t, dir: t.TempDir(), segment: segment, pids: map[int]int{}}
	c.limit(limit)
	c.http = ports.Free(t, 4)
	command := exec.Command(binary, "dev", "-f", c.manifests(), "--processes", "--listen",
		ports.Free(t, 3), "--http", c.http, "--data-dir", filepath.Join(c.dir, "data"))
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := command.Wait(); err != nil { // a broker that does not stop is killed
			t.Errorf("the cluster did not stop as it should: %v", err)
		}
	})
	ready := make(chan struct{})
	go c.read(out, ready)
	select {
	case <-ready:
	case <-time.After(await.Limit):
		t.Fatalf("the cluster is not ready after %v", await.Limit)
	}
	return c
}

func (c *cluster) manifests() string { return filepath.Join(c.dir, "manifests.yaml") }

// limit sets the cleaner's I/O rate; "" for no limit. A running cluster applies the change.
func (c *cluster) limit(rate string) {
	c.t.Helper()
	if rate != "" {
		rate = ", ioRate: " + rate
	}
	if err := os.WriteFile(c.manifests(), fmt.Appendf(nil, manifests, rate, c.segment), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// read reads the cluster's output: the brokers' pids and the ready line.
func (c *cluster) read(out io.Reader, ready chan<- struct{}) {
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var broker, pid int
		if n, _ := fmt.Sscanf(lines.Text(), "broker %d started pid=%d", &broker, &pid); n == 2 {
			c.mu.Lock()
			c.pids[broker] = pid
			c.mu.Unlock()
		}
		if rest, ok := strings.CutPrefix(lines.Text(), "ready bootstrap="); ok {
			addresses, _, _ := strings.Cut(rest, " ")
			c.bootstrap = strings.Split(addresses, ",")
			c.console = rest[strings.LastIndex(rest, "console=")+len("console="):]
			close(ready)
		}
	}
}

// brokerHTTP returns the addresses at which the three brokers serve HTTP.
func (c *cluster) brokerHTTP() (addresses []string) {
	host, port, _ := net.SplitHostPort(c.http)
	first, _ := strconv.Atoi(port)
	for i := range 3 {
		addresses = append(addresses, net.JoinHostPort(host, strconv.Itoa(first+1+i)))
	}
	return addresses
}

// kill ends a broker with SIGKILL. The cluster restarts the broker.
func (c *cluster) kill(broker int) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := syscall.Kill(c.pids[broker], syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
}

func free(first, n int) bool {
	for port := first; port < first+n; port++ {
		l, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

// produce writes records and waits until they are acknowledged.
func (c *cluster) produce(records ...*kgo.Record) { c.t.Helper(); c.produceWith(nil, records) }

// produceWith is like produce, with options for the client.
func (c *cluster) produceWith(opts []kgo.Opt, records []*kgo.Record) {
	c.t.Helper()
	client, err := kgo.NewClient(append(opts, kgo.SeedBrokers(c.bootstrap...))...)
	if err != nil {
		c.t.Fatal(err)
	}
	defer client.Close()
	if err := client.ProduceSync(c.t.Context(), records...).FirstErr(); err != nil {
		c.t.Fatal(err)
	}
}

// customers returns n updates of customers. Most of them update a few customers, so old segments
// have much garbage and others have little. Some updates are deletions.
func customers(n int, seed uint64) []*kgo.Record { return updates(n, 60_000, seed) }

// updates is like customers, with the given number of customers.
func updates(n, keys int, seed uint64) []*kgo.Record {
	random := rand.New(rand.NewPCG(seed, 0))
	records := make([]*kgo.Record, n)
	for i := range records {
		id := i + int(seed)*n
		if random.IntN(10) < 7 {
			id = max(0, id-1-int(random.ExpFloat64()*8000))
		}
		key := fmt.Sprintf("C-%06d", id%keys)
		value := fmt.Appendf(nil, `{"name":"customer %d","balance":%d,"note":"%x"}`, id,
			random.IntN(1e6), random.Uint64()^random.Uint64()<<7)
		for range 8 {
			value = fmt.Appendf(value, "%x", random.Uint64())
		}
		records[i] = &kgo.Record{Topic: "customers", Key: []byte(key), Value: value}
		if random.IntN(50) == 0 {
			records[i].Value = nil
		}
	}
	return records
}

// many returns n records of topic many. Two of them do not fit into a segment. A broker refuses a
// batch that is larger than a segment, so each record needs its own batch.
func many(n int) []*kgo.Record {
	records := make([]*kgo.Record, n)
	random := rand.New(rand.NewPCG(1, 1))
	for i := range records {
		value := make([]byte, 0, 700)
		for len(value) < 640 {
			value = binary.LittleEndian.AppendUint64(value, random.Uint64())
		}
		records[i] = &kgo.Record{Topic: "many", Key: strconv.AppendInt(nil, int64(i), 10),
			Value: value}
	}
	return records
}

// logFiles returns the base offsets and sizes of the segments of a partition on a broker's disk.
func (c *cluster) logFiles(broker int, partition string) map[int64]int64 {
	c.t.Helper()
	dir := c.partitionDir(broker, partition)
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) == 0 {
		c.t.Fatalf("no segments in %s: %v", dir, err)
	}
	files := map[int64]int64{}
	for _, name := range names {
		base, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(name), ".log"), 10, 64)
		if err != nil {
			c.t.Fatal(err)
		}
		if info, err := os.Stat(name); err == nil {
			files[base] = info.Size()
		}
	}
	return files
}

// deadBytes returns the garbage in each segment according to the .dead files of a partition, by
// base offset (docs/internals/format/dead.md).
func (c *cluster) deadBytes(broker int, partition string) map[int64]int64 {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.partitionDir(broker, partition), "*.dead"))
	if err != nil {
		c.t.Fatal(err)
	}
	found := map[int64]int64{}
	for _, name := range names {
		content, err := os.ReadFile(name)
		if err != nil || len(content) < 72 {
			c.t.Fatalf("read %s: %d bytes, %v", name, len(content), err)
		}
		base := int64(binary.BigEndian.Uint64(content[8:]))
		found[base] = int64(binary.BigEndian.Uint64(content[64:]))
	}
	return found
}

func (c *cluster) partitionDir(broker int, partition string) string {
	return filepath.Join(c.dir, "data", "broker-"+strconv.Itoa(broker), partition)
}
