package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
	"heartwood.dev/heartwood/test/kit/seed"
)

const lookedUpTopic = `apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: profiles}
spec:
  cluster: crash
  partitions: 3
  replicas: 3
  minInSyncReplicas: 2
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 5, tombstoneRetention: 2s}
  segment: {size: 128Ki, maxAge: 2s}
`

// lookedUpKeys is the number of keys in topic profiles.
const lookedUpKeys = 40

// deletes reports whether the record with number n of a key is a tombstone.
func deletes(n int) bool { return n%5 == 0 }

// numbers stores, for each key, the number of the last sent record and the number of the last
// acknowledged record. A key's numbers ascend with the offsets of its records.
type numbers struct {
	mu          sync.Mutex
	sent, acked [lookedUpKeys]int
}

func (n *numbers) of(key int) (sent, acked int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sent[key], n.acked[key]
}

// produce writes records with ascending numbers for each key until ctx ends. Each key has at most
// one record in flight. So a retried record is never written after a later record of its key.
func (n *numbers) produce(ctx context.Context, client *kgo.Client) error {
	random := rand.New(rand.NewPCG(1, 1))
	for next := 1; ctx.Err() == nil; next++ {
		records := make([]*kgo.Record, lookedUpKeys)
		for key := range records {
			value := fmt.Appendf(nil, "%d ", next)
			for range 20 {
				value = fmt.Appendf(value, "%016x", random.Uint64())
			}
			if deletes(next) {
				value = nil
			}
			records[key] = &kgo.Record{Topic: "profiles", Key: fmt.Append(nil, "key-", key),
				Value: value}
		}
		n.mu.Lock()
		for key := range n.sent {
			n.sent[key] = next
		}
		n.mu.Unlock()
		for key, result := range client.ProduceSync(context.Background(), records...) {
			if result.Err != nil {
				return fmt.Errorf("produce record %d of key %d: %w", next, key, result.Err)
			}
		}
		n.mu.Lock()
		for key := range n.acked {
			n.acked[key] = next
		}
		n.mu.Unlock()
	}
	return nil
}

// judge returns the fault in a lookup's output, or "". known is true if the command found the key's
// state. before is the number of the last record that was acknowledged when the command began.
// after is the number of the last record that had been sent when it ended.
func judge(before, after, code int, out, errOut string) (fault string, known bool) {
	deleted := false
	for n := max(1, before); n <= after; n++ {
		deleted = deleted || deletes(n)
	}
	gone := strings.Contains(errOut, "was deleted by offset") || strings.Contains(errOut,
		"has no record of key")
	switch {
	case code == 0:
		text, _, _ := strings.Cut(out, " ")
		n, err := strconv.Atoi(text)
		if err != nil || n < before || n > after || deletes(n) {
			return fmt.Sprintf("got record %.20q, want one of %d to %d", out, before, after), true
		}
		return "", true
	case gone && !deleted && before > 0:
		return fmt.Sprintf("got %q, although none of records %d to %d is a tombstone", errOut, before,
			after), true
	}
	return "", gone
}

// TestJudgeFindsWrongLookups checks judge with a key whose records 3 and 4 have values and whose
// record 5 is a tombstone.
func TestJudgeFindsWrongLookups(t *testing.T) {
	const none, gone = "topic profiles has no record of key", "key was deleted by offset 7"
	for _, test := range []struct {
		before, after, code int
		out, errOut         string
		isFault, isKnown    bool
	}{
		{3, 4, 0, "3 ab", "", false, true},
		{3, 4, 0, "4 ab", "", false, true},
		{4, 4, 0, "3 ab", "", true, true},
		{3, 4, 0, "5 ab", "", true, true},
		{3, 4, 1, "", gone, true, true},
		{3, 4, 1, "", none, true, true},
		{3, 5, 1, "", gone, false, true},
		{3, 5, 1, "", none, false, true},
		{5, 5, 0, "5 ab", "", true, true},
		{0, 0, 1, "", none, false, true},
		{3, 4, 1, "", "connect to broker", false, false},
	} {
		fault, known := judge(test.before, test.after, test.code, test.out, test.errOut)
		if (fault != "") != test.isFault || known != test.isKnown {
			t.Errorf("%+v: got fault %q, known %t", test, fault, known)
		}
	}
}

// TestLookupsDuringKillsAreCurrent runs `heartwood get` while a producer writes, the cleaner runs
// and brokers are killed. A lookup can fail while a partition has no leader. A successful lookup
// must return the last record that was acknowledged before the lookup began, or a later record of
// the key.
func TestLookupsDuringKillsAreCurrent(t *testing.T) {
	t.Parallel()
	setup := process.NewSetup(t, 3, cluster, lookedUpTopic)
	setup.HTTP = ports.Free(t, 4)
	p, pids := process.Start(t, append(setup.Args(), "--processes")...), map[int]int{}
	bootstrap, before := p.Ready(t)
	for _, line := range before {
		recordPID(pids, line)
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerLinger(0), kgo.MetadataMinAge(100*time.Millisecond), kgo.RecordRetries(1<<30))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var book numbers
	ctx, stop := context.WithCancel(t.Context())
	produced := make(chan error, 1)
	go func() { produced <- book.produce(ctx, client) }()

	random := rand.New(rand.NewPCG(seed.New(t), 2))
	first, found, failed := random.IntN(3), 0, 0
	addresses := brokerAddresses(t, setup.HTTP, 3)
	lookup := func() {
		key := random.IntN(lookedUpKeys)
		_, acked := book.of(key)
		code, out, errOut := command(t, "get", "profiles", fmt.Sprint("key-", key), "--address",
			addresses)
		sent, _ := book.of(key)
		fault, known := judge(acked, sent, code, out, errOut)
		switch {
		case fault != "":
			t.Errorf("key-%d: %s", key, fault)
		case known:
			found++
		default:
			failed++
		}
	}
	for round := range number(t, "HEARTWOOD_CRASH_ROUNDS", 3) {
		for range 15 {
			lookup()
		}
		id := (first + int(round)) % 3
		if err := syscall.Kill(pids[id], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		since := found
		for n := 0; n < 30 || found < since+10; n++ {
			if n > 2000 {
				t.Fatalf("after the kill of broker %d, %d lookups failed", id, n)
			}
			lookup()
		}
		restarted(t, p, id, pids)
	}
	stop()
	if err := <-produced; err != nil {
		t.Error(err)
	}
	passes := 0
	for id := range 3 {
		passes += endedPasses(t, strings.Split(addresses, ",")[id])
	}
	if passes == 0 {
		t.Error("no pass has run: the test has proved nothing about passes")
	}
	t.Logf("%d lookups, %d more failed while a leader was missing; %d passes; %d records of each key",
		found, failed, passes, book.acked[0])
	if code := p.Stop(t, syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d:\n%s", code, p.Stderr.String())
	}
}

// brokerAddresses returns the brokers' HTTP addresses in a cluster with --processes.
func brokerAddresses(t *testing.T, clusterHTTP string, brokers int) string {
	t.Helper()
	host, text, err := net.SplitHostPort(clusterHTTP)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]string, brokers)
	for i := range all {
		all[i] = net.JoinHostPort(host, strconv.Itoa(port+1+i))
	}
	return strings.Join(all, ",")
}

// endedPasses returns the number of passes over topic profiles that a broker has completed.
func endedPasses(t *testing.T, address string) (n int) {
	t.Helper()
	var all struct {
		Passes []struct{ Result string }
	}
	process.Setup{HTTP: address}.GetJSON(t, "/api/v1/passes?topic=profiles", &all)
	for _, pass := range all.Passes {
		if pass.Result == "success" {
			n++
		}
	}
	return n
}

// command runs a command of the binary.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	p := process.Start(t, args...)
	code = p.Wait(t)
	var lines []string
	for line := range p.Lines {
		lines = append(lines, line)
	}
	return code, strings.Join(lines, "\n"), p.Stderr.String()
}
