package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/internal/dev"
	"heartwood.dev/heartwood/test/kit/await"
)

// cluster runs a development cluster until the test ends, and returns a topic in it. If manifests
// are given, the clients connect with the certificates and password of the LogUser bench.
func cluster(t *testing.T, manifests ...string) Target {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, lines := make(chan string, 1), &lineWriter{}
	lines.ready = ready
	ended := make(chan error, 1)
	// The test framework removes the directory after the cluster has stopped.
	dir := filepath.Join(t.TempDir(), "data")
	go func() {
		ended <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", DataDir: dir,
			Out: lines, Manifests: manifests})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case line := <-ready:
		for field := range strings.FieldsSeq(line) {
			if value, found := strings.CutPrefix(field, "bootstrap="); found {
				files := filepath.Join(dir, "users", "bench")
				to := Target{Bootstrap: strings.Split(value, ","), Topic: "bench"}
				if len(manifests) > 0 {
					to.Security = Security{CAFile: filepath.Join(files, "ca.crt"), User: "bench",
						PasswordFile: filepath.Join(files, "password")}
				}
				return to
			}
		}
		t.Fatalf("no bootstrap address in %q", line)
	case err := <-ended:
		ended <- err
		t.Fatalf("the cluster stopped: %v", err)
	case <-time.After(await.Limit):
		t.Fatal("the cluster was not ready in time")
	}
	return Target{}
}

// lineWriter is the cluster's output. It sends the line that reports a ready cluster to a channel.
type lineWriter struct {
	text  bytes.Buffer
	ready chan<- string
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.text.Write(p)
	for {
		if !bytes.ContainsRune(w.text.Bytes(), '\n') {
			return len(p), nil
		}
		line, err := w.text.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if rest, ready := strings.CutPrefix(line, "ready "); ready {
			w.ready <- rest
		}
	}
}

func produceOptions(to Target) ProduceOptions {
	return ProduceOptions{
		Target: to, Partitions: 3, Create: true, Records: 1000, Duration: time.Minute,
		RecordBytes: 200, Acks: "all", Codec: "none",
		BatchBytes: 16 << 10, Producers: 2, Seed: 1,
	}
}

func consumeOptions(from Target) ConsumeOptions {
	return ConsumeOptions{Target: from, Duration: time.Minute, Consumers: 2,
		MaxWait: 100 * time.Millisecond, MaxBytes: 1 << 20}
}

// TestSecuredClusterIsMeasured checks that a run connects with TLS and SCRAM, and that it fails
// without them or with a wrong CA.
func TestSecuredClusterIsMeasured(t *testing.T) {
	manifest := filepath.Join(t.TempDir(), "cluster.yaml")
	if err := os.WriteFile(manifest, []byte(securedCluster), 0o600); err != nil {
		t.Fatal(err)
	}
	target := cluster(t, manifest)
	got, err := Produce(t.Context(), produceOptions(target))
	if err != nil || got.Err() != nil {
		t.Fatalf("produce: %v, %+v", err, got)
	}
	if _, err := Consume(t.Context(), consumeOptions(target)); err != nil {
		t.Errorf("consume: %v", err)
	}
	for name, security := range map[string]Security{
		"no CA file":     {CAFile: manifest + "x"},
		"no certificate": {CAFile: manifest},
		"no password":    {User: "bench", PasswordFile: manifest + "x"},
	} {
		wrong := consumeOptions(target)
		wrong.Security = security
		if _, err := Consume(t.Context(), wrong); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	invalid := consumeOptions(target)
	if invalid.Security.PasswordFile = ""; invalid.Validate() == nil {
		t.Error("a user without a password file is valid")
	}
}

const securedCluster = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: demo}
spec:
  brokers: 1
  listeners: [{name: tls, port: 9093, tls: {}, authentication: [{type: ScramSha512}]}]
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: bench}
spec:
  cluster: demo
  authentication: {type: Scram}
  acls: [{resource: {type: Topic, name: "*"}, operations: [All]}]
`

func TestProduceAndConsume(t *testing.T) {
	target := cluster(t)
	absent := produceOptions(target)
	absent.Create = false
	if _, err := Produce(t.Context(), absent); !errors.Is(err, ErrNoTopic) {
		t.Errorf("produce to an absent topic without create: %v", err)
	}
	if _, err := Consume(t.Context(), consumeOptions(target)); !errors.Is(err, ErrNoTopic) {
		t.Errorf("consume an absent topic: %v", err)
	}
	want := int64(0)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, acks := range []string{"0", "1", "all"} {
			opts := produceOptions(target)
			opts.Codec, opts.Acks = codec, acks
			got, err := Produce(t.Context(), opts)
			if err != nil || got.Err() != nil {
				t.Fatalf("%s, acks %s: %v, %+v", codec, acks, err, got)
			}
			if got.Records != 1000 || got.Bytes != 200_000 {
				t.Errorf("%s, acks %s: %+v, want 1000 records of 200 bytes", codec, acks, got)
			}
			if (got.Latency == nil) != (acks == "0") {
				t.Errorf("%s, acks %s: latency %+v", codec, acks, got.Latency)
			}
			if got.CPUSeconds <= 0 || got.RecordsSecond <= 0 {
				t.Errorf("%s, acks %s: %+v, want CPU time and throughput", codec, acks, got)
			}
			want += 1000
		}
	}
	got, err := Consume(t.Context(), consumeOptions(target))
	if err != nil || len(got.Errors) > 0 {
		t.Fatalf("read %+v, %v", got, err)
	}
	if got.Records != want || got.Bytes != 200*want {
		t.Errorf("read %+v, want %d records of 200 bytes", got, want)
	}
	if got.Latency != nil {
		t.Errorf("read with latency %+v, want none", got.Latency)
	}
	some := consumeOptions(target)
	some.Records, some.Consumers = 1234, 7
	if got, err := Consume(t.Context(), some); err != nil || got.Records != 1234 ||
		got.Clients != 3 {
		t.Errorf("read %+v, %v; want 1234 records by as many clients as partitions", got, err)
	}
}

// TestProduceInTransactions checks that a transaction ends after the configured number of records
// or time, and that all records are committed.
func TestProduceInTransactions(t *testing.T) {
	target := cluster(t)
	byRecords := produceOptions(target)
	byRecords.TransactionRecords, byRecords.Producers = 100, 2
	got, err := Produce(t.Context(), byRecords)
	if err != nil || got.Err() != nil {
		t.Fatalf("%v, %+v", err, got)
	}
	if got.Records != 1000 || got.Transactions != 10 {
		t.Fatalf("%+v, want 1000 records in 10 transactions", got)
	}
	if got.Commit == nil || got.Commit.Records != 10 {
		t.Fatalf("commits %+v, want 10", got.Commit)
	}
	byTime := produceOptions(target)
	byTime.Transaction, byTime.Rate = 10*time.Millisecond, 10_000
	got, err = Produce(t.Context(), byTime)
	if err != nil || got.Err() != nil || got.Records != 1000 {
		t.Fatalf("%v, %+v", err, got)
	}
	// On a slow machine, a producer commits less often, but at least once.
	producers := int64(byTime.Producers)
	most := producers * (2 + int64(got.WallSeconds/byTime.Transaction.Seconds()))
	if got.Transactions < producers || got.Transactions > most {
		t.Errorf("got %d transactions, want %d to %d", got.Transactions, producers, most)
	}
	reader, err := target.connect(kgo.ConsumeTopics(target.Topic), kgo.FetchIsolationLevel(
		kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for read := 0; read < 2000; {
		fetches := reader.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		read += fetches.NumRecords()
	}
}

func TestTransactionIsDueAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := producer{opts: ProduceOptions{Transaction: 10 * time.Millisecond},
			open: transaction{began: time.Now(), records: 1}}
		time.Sleep(10*time.Millisecond - 1)
		if p.isDue() {
			t.Error("a transaction is due before its time")
		}
		time.Sleep(time.Nanosecond)
		if !p.isDue() {
			t.Error("a transaction is not due after its time")
		}
		p.open.records = 0
		if p.isDue() {
			t.Error("a transaction without records is due")
		}
	})
}

// TestEndToEndLatency runs a consumer with Latest while a producer sends records. The result must
// contain the latency of each record.
func TestEndToEndLatency(t *testing.T) {
	target := cluster(t)
	if _, err := Produce(t.Context(), produceOptions(target)); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		*Result
		error
	}
	read := make(chan outcome, 1)
	go func() {
		opts := consumeOptions(target)
		opts.Latest, opts.Records = true, 500
		got, err := Consume(t.Context(), opts)
		read <- outcome{got, err}
	}()
	// The test cannot observe when the consumer has found its offsets, so the producer sends
	// records until the consumer has enough. The run's Duration limits this time.
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan outcome, 1)
	go func() {
		opts := produceOptions(target)
		opts.Records, opts.Rate = recordsMax, 2000
		got, err := Produce(ctx, opts)
		sent <- outcome{got, err}
	}()
	got := <-read
	cancel()
	if got.error != nil || got.Latency == nil {
		t.Fatalf("read %+v, %v", got.Result, got.error)
	}
	if got.Records != 500 || got.Latency.Records == 0 {
		t.Errorf("read %+v, want 500 records", got.Result)
	}
	if got.Latency.P50 <= 0 || got.Latency.P50 > got.Latency.Max {
		t.Errorf("latency %+v, want ascending percentiles", got.Latency)
	}
	if result := <-sent; result.error != nil || result.Err() != nil {
		t.Errorf("sent %+v, %v", result.Result, result.error)
	}
}

func TestRunEndsAfterItsDuration(t *testing.T) {
	opts := produceOptions(cluster(t))
	opts.Records, opts.Rate, opts.Duration = recordsMax, 1000, 300*time.Millisecond
	got, err := Produce(t.Context(), opts)
	if err != nil || got.Err() != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	// Records that are due after the end of the run are not sent; a slow machine sends fewer.
	if got.Records > 300 {
		t.Errorf("%d records in 0.3 s at 1000 per second", got.Records)
	}
}

func TestValidateReturnsAllFaults(t *testing.T) {
	produce := ProduceOptions{Target: Target{Bootstrap: []string{"nowhere"}}, Rate: -1, Acks: "2",
		Codec: "brotli", Linger: -1}
	err := produce.Validate()
	for _, want := range []string{
		`bootstrap address "nowhere"`, "no topic", "partitions 0", "records 0", "duration 0s",
		"rate -1", `acks "2"`, `codec "brotli"`,
		"batch bytes 0", "linger -1ns", "producers 0", "record bytes 0",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %s", err, want)
		}
	}
	err = ConsumeOptions{Records: -1}.Validate()
	for _, want := range []string{"no bootstrap", "no topic", "records -1", "duration 0s",
		"consumers 0", "max wait 0s", "max bytes 0"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not contain %s", err, want)
		}
	}
	large := produceOptions(Target{Bootstrap: []string{"a:1"}, Topic: "t"})
	large.RecordBytes = large.BatchBytes
	unsafe := produceOptions(Target{Bootstrap: []string{"a:1"}, Topic: "t"})
	unsafe.Acks, unsafe.Transaction = "1", time.Second
	if err := unsafe.Validate(); err == nil || !strings.Contains(err.Error(), `acks "1"`) {
		t.Errorf("transactions with acks=1: %v", err)
	}
	if err := large.Validate(); err == nil ||
		!strings.Contains(err.Error(), "fits in a batch of 16384") {
		t.Errorf("a record as large as its batch: %v", err)
	}
}

func TestResultWithFailuresOrWithoutRecords(t *testing.T) {
	failed := newTally()
	for range errorKindsMax + 5 {
		failed.failed++
		failed.addError(errors.New(strings.Repeat("x", int(failed.failed))))
	}
	if len(failed.errors) != errorKindsMax+1 || failed.errors["other errors"] != 5 {
		t.Errorf("%d kinds of errors, %d others", len(failed.errors), failed.errors["other errors"])
	}
	r := &Result{}
	r.set([]*tally{failed}, 0, 0)
	if r.Err() == nil || r.Failed != errorKindsMax+5 || r.Latency != nil {
		t.Errorf("%+v", r)
	}
	var out bytes.Buffer
	if err := r.Print(&out, true); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("%v: %s", err, out.Bytes())
	}
	if err := r.Print(io.Discard, false); err != nil {
		t.Error(err)
	}
	if new(Result).Err() == nil {
		t.Error("a result without records has no error")
	}
}
