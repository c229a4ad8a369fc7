//go:build compat

package compat

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/process"
)

// The tests in this file run transactional programs on three broker processes. Every few seconds,
// they end one of these processes with SIGKILL. This broker coordinates some transactions and
// groups, and leads some partitions. `heartwood dev` restarts it.

const (
	copied         = 3000 // number of records
	killEvery      = 4 * time.Second
	copyDeadline   = 4 * time.Minute
	exactlyOnceRow = "copy a topic in transactions while brokers are killed: each record once"
)

// brokers are three broker processes.
type brokers struct {
	t         *testing.T
	process   *process.Process
	addresses []string
	bootstrap string
	kills     atomic.Int32
}

func startBrokers(t *testing.T) *brokers {
	t.Helper()
	s := process.NewSetup(t, 3, strings.Replace(clusterManifest, "brokers: 1", "brokers: 3", 1))
	p := process.Start(t, append(s.Args(), "--processes")...)
	addresses, _ := p.Ready(t)
	return &brokers{t: t, process: p, addresses: addresses,
		bootstrap: strings.Join(addresses, ",")}
}

func (b *brokers) client(options ...kgo.Opt) *kgo.Client {
	b.t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(b.addresses...))...)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(client.Close)
	return client
}

// killOne ends one of the broker processes.
func (b *brokers) killOne() {
	out, err := exec.Command("pgrep", "-P", strconv.Itoa(b.process.PID())).Output()
	pids := strings.Fields(string(out))
	if err != nil || len(pids) == 0 {
		b.t.Errorf("no broker process to kill: %v", err)
		return
	}
	pid, _ := strconv.Atoi(pids[int(b.kills.Load())%len(pids)])
	_ = syscall.Kill(pid, syscall.SIGKILL) // fails if the process is restarting, which is harmless
	b.kills.Add(1)
}

// killing kills one broker after each interval until the test ends or calls the returned function.
func (b *brokers) killing(every time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ticker := time.NewTicker(every); ; {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				b.killOne()
			}
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	b.t.Cleanup(stop) // needed because a failed test does not call stop
	return stop
}

// TestCopierJava runs Kafka's own TransactionalMessageCopier.
func TestCopierJava(t *testing.T) {
	proof := newRow(t, "Java: TransactionalMessageCopier", exactlyOnceRow)
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	testCopier(t, proof, func(b *brokers, id, group, from, to string) []string {
		return append(javaTool(java, classes, "org.apache.kafka.tools.TransactionalMessageCopier"),
			"--broker-list", b.bootstrap, "--transactional-id", id, "--consumer-group", group,
			"--input-topic", from, "--input-partition", "0", "--output-topic", to, "--group-mode",
			"--use-group-metadata", "--transaction-size", "50", "--transaction-timeout", "20000",
			"--enable-random-aborts", "--max-messages", strconv.Itoa(copied))
	})
}

func TestCopierConfluentKafka(t *testing.T) {
	proof := newRow(t, "confluent-kafka (librdkafka)", exactlyOnceRow)
	python := need(t, "python3", "-c", "import confluent_kafka")
	testCopier(t, proof, func(b *brokers, id, group, from, to string) []string {
		return []string{python, "testdata/copier.py", "confluent", b.bootstrap, id, group, from, to}
	})
}

func TestCopierKafkaPython(t *testing.T) {
	proof := newRow(t, "kafka-python", exactlyOnceRow)
	python := need(t, "python3", "-c", "import kafka.admin")
	testCopier(t, proof, func(b *brokers, id, group, from, to string) []string {
		return []string{python, "testdata/copier.py", "kafka_python", b.bootstrap, id, group, from, to}
	})
}

// testCopier runs two instances of a program that copies a topic with three partitions. The
// instances share one group, but each has its own transactional id. An instance that exits is
// restarted.
func testCopier(t *testing.T, proof *row,
	command func(b *brokers, id, group, from, to string) []string) {
	t.Helper()
	b := startBrokers(t)
	b.produceNumbers("in", "out")
	out := b.read("out")
	stop := b.killing(killEvery)
	begin := time.Now()
	var running [2]*service
	restarts := -len(running)
	for ; len(out.seen) < copied; out.poll(300 * time.Millisecond) {
		for i, s := range running {
			if s != nil {
				select {
				case <-s.ended:
				default:
					continue
				}
			}
			if restarts++; restarts > 30 {
				t.Fatal("the program exits again and again")
			}
			running[i] = startService(t, command(b, fmt.Sprint("copier-", i), "copiers", "in",
				"out")...)
		}
		if time.Since(begin) > copyDeadline {
			t.Fatalf("%d of %d numbers were copied in %s", len(out.seen), copied, copyDeadline)
		}
	}
	stop()
	for _, s := range running {
		s.stop()
		if v := s.version(); v != "-" {
			proof.version = v
		}
	}
	t.Logf("copied in %s, %d kills, %d restarts of the program", time.Since(begin).Round(time.Second),
		b.kills.Load(), restarts)
	out.check(t)
	if b.kills.Load() < 1 {
		t.Error("no broker was killed")
	}
}

// produceNumbers creates the topics, and writes the numbers below copied to the first topic. It
// writes in transactions, and aborts every fourth one.
func (b *brokers) produceNumbers(from string, others ...string) {
	t := b.t
	t.Helper()
	for _, name := range append(others, from) {
		b.createTopic(name)
	}
	client := b.client(kgo.TransactionalID("numbers"), kgo.DefaultProduceTopic(from))
	for next, n := 0, 0; next < copied; n++ {
		if err := client.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		commit := kgo.TryCommit
		if n%4 == 3 {
			commit = kgo.TryAbort
		}
		var records []*kgo.Record
		for i := range 100 {
			value := strconv.Itoa(next + i)
			if commit == kgo.TryAbort {
				value = "aborted"
			}
			records = append(records, &kgo.Record{Key: []byte(value), Value: []byte(value)})
		}
		err := client.ProduceSync(t.Context(), records...).FirstErr()
		if err == nil {
			err = client.EndTransaction(t.Context(), commit)
		}
		if err != nil {
			t.Fatal(err)
		}
		if commit == kgo.TryCommit {
			next += 100
		}
	}
}

// createTopic creates a topic with three partitions, once all brokers have registered.
func (b *brokers) createTopic(name string) {
	b.t.Helper()
	admin := kadm.NewClient(b.client())
	await.For(b.t, func() string {
		_, err := admin.CreateTopic(b.t.Context(), 3, 3,
			map[string]*string{"min.insync.replicas": kadm.StringPtr("2")}, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return err.Error()
		}
		return ""
	})
}

// reader is a read_committed consumer of the output.
type reader struct {
	client *kgo.Client
	seen   map[string]int
}

func (b *brokers) read(topic string) *reader {
	return &reader{b.client(kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart())), map[string]int{}}
}

func (r *reader) poll(d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	for ctx.Err() == nil {
		r.client.PollFetches(ctx).EachRecord(func(r2 *kgo.Record) { r.seen[string(r2.Value)]++ })
	}
}

// check checks that each number was read exactly once.
func (r *reader) check(t *testing.T) {
	t.Helper()
	r.poll(3 * time.Second)
	for value, n := range r.seen {
		if number, err := strconv.Atoi(value); err != nil || number >= copied || n != 1 {
			t.Errorf("%s was copied %d times", value, n)
		}
	}
	if len(r.seen) != copied {
		t.Errorf("%d of %d numbers were copied", len(r.seen), copied)
	}
}
