//go:build compat

package compat

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
)

// line is an observation that a program in testdata prints as a line of JSON. Each program executes
// these steps with a topic that has one partition:
//
//  1. list the topics
//  2. create <topic>-made (2 partitions, compact, zstd), describe its settings, delete it
//  3. for each of the five codecs, with idempotence on: a record with a key, one with a null value,
//     one without a key; record n has the timestamp begin + n seconds and the header codec
//  4. read from the beginning, and from a timestamp half a second before record 4
//  5. wait at the end of the topic for the time idle, in which it must receive no record; then
//     send one record and receive it
//  6. begin a transaction
//
// The program prints the steps "idle" and "idled" before and after the wait. The comments of the
// fields name the steps that set them.
type line struct {
	Step      string
	Version   string            // client: version of the client library
	Plain     bool              // client: the library has no idempotent producer
	Topics    []string          // list: names of all topics
	Configs   map[string]string // describe: settings of the created topic
	Codec     string            // missing: codec that the client does not support
	Error     string            // error, transaction: error message of the client
	Seconds   float64           // transaction: time in seconds to begin it
	Source    string            // record: beginning, timestamp or end
	Offset    int64
	Timestamp int64
	Key       *string
	Value     *string
	Headers   map[string]string
}

const (
	begin  = 1_700_000_000_000
	idle   = 5 * time.Second
	atTime = 4 // number of the first record that is read from the timestamp
)

var codecs = []string{"none", "gzip", "snappy", "lz4", "zstd"}

// attributes are the numbers of the codecs in a batch (KIP-110).
var attributes = map[string]uint8{"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

// programChecks describes these programs' steps in the table of docs/compatibility.md.
const programChecks = "list, create, describe and delete topics; five codecs, idempotent; read from " +
	"the beginning and a timestamp; idle at the end; a transaction begins"

func TestConfluentKafka(t *testing.T) {
	proof := newRow(t, "confluent-kafka (librdkafka)", programChecks)
	python := need(t, "python3", "-c", "import confluent_kafka")
	testProgram(t, proof, python, "testdata/confluent.py")
}

func TestKafkaPython(t *testing.T) {
	proof := newRow(t, "kafka-python", programChecks)
	python := need(t, "python3", "-c", "import kafka.admin")
	testProgram(t, proof, python, "testdata/kafka_python.py")
}

func TestJava(t *testing.T) {
	proof := newRow(t, "Java clients", programChecks)
	testProgram(t, proof, need(t, "java", "-version"), "-cp", jars(t), "testdata/Client.java")
}

func TestKafkaJSClient(t *testing.T) {
	checks := strings.Replace(programChecks, "five codecs", "no codec and gzip", 1)
	proof := newRow(t, "kafkajs", checks)
	testProgram(t, proof, need(t, "node", "-e", "require('kafkajs')"), "testdata/kafkajs_client.js")
}

func TestAIOKafka(t *testing.T) {
	proof := newRow(t, "aiokafka", programChecks)
	python := need(t, "python3", "-c", "import aiokafka.admin")
	testProgram(t, proof, python, "testdata/aiokafka_client.py")
}

func TestSarama(t *testing.T) {
	testProgram(t, newRow(t, "sarama", programChecks), goClient(t, "saramaclient"))
}

func TestKafkaGo(t *testing.T) {
	checks := strings.Replace(programChecks, ", idempotent", "", 1)
	testProgram(t, newRow(t, "segmentio/kafka-go", checks), goClient(t, "kafkagoclient"))
}

func TestRustRdkafka(t *testing.T) {
	testProgram(t, newRow(t, "rust-rdkafka", programChecks), rustClient(t))
}

// rustClient builds the program testdata/rustclient and returns its path. The folder of compiled
// crates is kept between runs, because compiling librdkafka takes minutes.
func rustClient(t *testing.T) string {
	t.Helper()
	cargo := need(t, "cargo", "--version")
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skipf("skipped: no folder for compiled crates: %v", err)
	}
	target := filepath.Join(cache, "heartwood", "compat-rust")
	build := exec.CommandContext(t.Context(), cargo, "build", "--locked", "--target-dir", target)
	build.Dir = "testdata/rustclient"
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("skipped: build rustclient: %v: %s", err, out)
	}
	return filepath.Join(target, "debug", "rustclient")
}

// goClient builds a program of the Go module testdata/goclients and returns its path.
func goClient(t *testing.T, name string) string {
	t.Helper()
	tool := need(t, "go", "version")
	path := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), tool, "build", "-o", path, "./"+name)
	build.Dir = "testdata/goclients"
	if out, err := build.CombinedOutput(); err != nil {
		t.Skipf("skipped: build %s: %v: %s", name, err, out)
	}
	return path
}

func testProgram(t *testing.T, proof *row, command ...string) {
	t.Parallel()
	s, bootstrap := startCluster(t, topicManifest)
	lines := make(chan line)
	ended := make(chan error, 1)
	go func() {
		ended <- run(t.Context(),
			append(command, bootstrap, topic, fmt.Sprint(idle.Milliseconds())), lines)
	}()
	observed := map[string][]line{}
	var before, after map[string]int
	for l := range lines {
		switch l.Step {
		case "idle":
			before = requests(t, s)
		case "idled":
			after = requests(t, s)
		}
		observed[l.Step] = append(observed[l.Step], l)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	proof.version = observed["client"][0].Version
	t.Log(proof.version)
	checkAdmin(t, observed)
	sent := expected(t, observed["missing"])
	checkRead(t, observed["record"], sent)
	checkStored(t, bootstrap, sent, observed["client"][0].Plain)
	checkIdle(t, before, after)
	checkTransaction(t, proof, observed["transaction"])
	if rejected := sum(s.Metrics(t)["heartwood_broker_connection_rejected_total"]); rejected != 0 ||
		len(observed["error"]) != 0 {
		t.Errorf("%d connections were closed because of invalid requests; the client printed %v",
			rejected,
			observed["error"])
	}
}

// run runs a program until it exits. It sends the lines that the program prints to the channel, and
// finally closes the channel.
func run(ctx context.Context, command []string, lines chan<- line) error {
	defer close(lines)
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(out)
	for decoder.More() {
		var l line
		if err = decoder.Decode(&l); err != nil {
			cancel()
			break
		}
		lines <- l
	}
	if ended := cmd.Wait(); ended != nil || err != nil {
		return fmt.Errorf("%v: %w %w\n%s", command, ended, err, stderr.String())
	}
	return nil
}

func checkAdmin(t *testing.T, observed map[string][]line) {
	t.Helper()
	if topics := observed["list"][0].Topics; !slices.Contains(topics, topic) {
		t.Errorf("topics are %v", topics)
	}
	for name, want := range map[string]string{"cleanup.policy": "compact",
		"compression.type": "zstd", "delete.retention.ms": "86400000"} {
		if got := observed["describe"][0].Configs[name]; got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if len(observed["deleted"]) != 1 {
		t.Error("the created topic was not deleted")
	}
}

// checkTransaction checks that the client has begun a transaction, and adds the duration to the
// row. There is no limit for the duration, because it depends on the machine.
func checkTransaction(t *testing.T, proof *row, observed []line) {
	t.Helper()
	if len(observed) != 1 || observed[0].Error != "" {
		t.Errorf("transaction: got %+v, want no error", observed)
		return
	}
	proof.notes = append(proof.notes,
		fmt.Sprintf("transaction begun after %.2f s", observed[0].Seconds))
}

// expected returns the records that a program sends, in order. It omits codecs that the client does
// not support.
func expected(t *testing.T, missing []line) []line {
	t.Helper()
	var all []line
	add := func(codec string, key, value *string) {
		n := int64(len(all))
		all = append(all, line{Offset: n, Timestamp: begin + n*1000, Key: key, Value: value,
			Headers: map[string]string{"codec": codec}})
	}
	for _, codec := range codecs {
		if slices.ContainsFunc(missing, func(l line) bool { return l.Codec == codec }) {
			t.Logf("the client lacks %s on this machine", codec)
			continue
		}
		key, value, unkeyed := codec+"-key", strings.Repeat(codec+" ", 100),
			strings.Repeat(codec+" without a key ", 100)
		add(codec, &key, &value)
		add(codec, &key, nil)
		add(codec, nil, &unkeyed)
	}
	key, value := "last", "while the consumer waits"
	add("", &key, &value)
	all[len(all)-1].Headers = map[string]string{}
	return all
}

// checkRead compares the sent records with the records that the program has read: from the
// beginning, from the timestamp, and at the end.
func checkRead(t *testing.T, read, sent []line) {
	t.Helper()
	last := len(sent) - 1
	for source, want := range map[string][]line{"beginning": sent[:last],
		"timestamp": sent[atTime:last], "end": sent[last:]} {
		var got []line
		for _, l := range read {
			if l.Source == source {
				got = append(got, l)
			}
		}
		if len(got) != len(want) {
			t.Errorf("from the %s %d records were read, want %d", source, len(got), len(want))
			continue
		}
		for i := range want {
			if !same(got[i], want[i]) {
				t.Errorf("from the %s: got %s, want %s", source, show(got[i]), show(want[i]))
			}
		}
	}
}

func same(a, b line) bool {
	return a.Offset == b.Offset && a.Timestamp == b.Timestamp && equal(a.Key, b.Key) &&
		equal(a.Value, b.Value) && maps.Equal(a.Headers, b.Headers)
}

func equal(a, b *string) bool { return (a == nil) == (b == nil) && (a == nil || *a == *b) }

func show(l line) string {
	text, _ := json.Marshal(l) // encoding a line never fails
	return string(text)
}

// checkStored reads the topic with franz-go, which reports each stored batch's codec. This must be
// the codec that the producer used. All batches except the last record's must have a producer id,
// unless the producer is plain, which means not idempotent.
func checkStored(t *testing.T, bootstrap string, sent []line, plain bool) {
	t.Helper()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap),
		kgo.ConsumePartitions(
			map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}},
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for index := 0; index < len(sent); {
		fetches := client.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			if codec := sent[index].Headers["codec"]; r.Attrs.CompressionType() != attributes[codec] {
				t.Errorf("record %d was sent with %s and is stored with codec %d", r.Offset, codec,
					r.Attrs.CompressionType())
			}
			if r.ProducerID < 0 && index < len(sent)-1 && !plain {
				t.Errorf("record %d has no producer id: idempotence was disabled", r.Offset)
			}
			index++
		}
	}
}
