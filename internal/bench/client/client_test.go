package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/dev"
)

// cluster runs a development cluster until the test ends, and returns a topic in it.
func cluster(t *testing.T) Target {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, lines := make(chan string, 1), &lineWriter{}
	lines.ready = ready
	ended := make(chan error, 1)
	// the test framework removes it after the cluster has stopped
	dir := filepath.Join(t.TempDir(), "data")
	go func() {
		ended <- dev.Run(ctx, dev.Options{Listen: "127.0.0.1:0", HTTP: "127.0.0.1:0", DataDir: dir,
			Out: lines})
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
				return Target{Bootstrap: strings.Split(value, ","), Topic: "bench"}
			}
		}
		t.Fatalf("no bootstrap address in %q", line)
	case err := <-ended:
		ended <- err
		t.Fatalf("the cluster stopped: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the cluster was not ready after a minute")
	}
	return Target{}
}

// lineWriter is the output of the cluster. It sends the line that reports a ready cluster to a
// channel.
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

func TestProduceAndConsume(t *testing.T) {
	at := cluster(t)
	absent := produceOptions(at)
	absent.Create = false
	if _, err := Produce(t.Context(), absent); !errors.Is(err, ErrNoTopic) {
		t.Errorf("produce to an absent topic without create: %v", err)
	}
	if _, err := Consume(t.Context(), consumeOptions(at)); !errors.Is(err, ErrNoTopic) {
		t.Errorf("consume an absent topic: %v", err)
	}
	want := int64(0)
	for _, codec := range []string{"none", "gzip", "snappy", "lz4", "zstd"} {
		for _, acks := range []string{"0", "1", "all"} {
			opts := produceOptions(at)
			opts.Codec, opts.Acks = codec, acks
			got, err := Produce(t.Context(), opts)
			if err != nil || got.Err() != nil {
				t.Fatalf("%s, acks %s: %v, %+v", codec, acks, err, got)
			}
			if got.Records != 1000 || got.Bytes != 200_000 ||
				(got.Latency == nil) != (acks == "0") || got.CPUSeconds <= 0 ||
				got.RecordsSecond <= 0 {
				t.Errorf("%s, acks %s: %+v", codec, acks, got)
			}
			want += 1000
		}
	}
	got, err := Consume(t.Context(), consumeOptions(at))
	if err != nil || got.Records != want || got.Bytes != 200*want || got.Latency != nil ||
		len(got.Errors) > 0 {
		t.Errorf("read %+v, %v; want %d records", got, err, want)
	}
	some := consumeOptions(at)
	some.Records, some.Consumers = 1234, 7
	if got, err := Consume(t.Context(), some); err != nil || got.Records != 1234 ||
		got.Clients != 3 {
		t.Errorf("read %+v, %v; want 1234 records by as many clients as partitions", got, err)
	}
}

// TestEndToEndLatency runs a consumer with Latest while a producer sends records. The result must
// contain the latency of each record.
func TestEndToEndLatency(t *testing.T) {
	at := cluster(t)
	if _, err := Produce(t.Context(), produceOptions(at)); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		*Result
		error
	}
	read := make(chan outcome, 1)
	go func() {
		opts := consumeOptions(at)
		opts.Latest, opts.Records = true, 500
		got, err := Consume(t.Context(), opts)
		read <- outcome{got, err}
	}()
	// The test cannot observe when the consumer has found its offsets, so the producer sends
	// records until the consumer has enough. The run's Duration limits this time.
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan outcome, 1)
	go func() {
		opts := produceOptions(at)
		opts.Records, opts.Rate = recordsMax, 2000
		got, err := Produce(ctx, opts)
		sent <- outcome{got, err}
	}()
	got := <-read
	cancel()
	if got.error != nil || got.Records != 500 || got.Latency == nil || got.Latency.Records == 0 ||
		got.Latency.P50 <= 0 || got.Latency.P50 > got.Latency.Max {
		t.Errorf("read %+v, %v", got.Result, got.error)
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
	// records that are due after the end of the run are not sent; a slow machine sends fewer
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
