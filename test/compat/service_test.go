//go:build compat

package compat

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
)

// service is a program that runs until it receives SIGTERM, such as a worker of Kafka Connect.
type service struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	log   serviceLog
}

// serviceLog is the output of a service.
type serviceLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *serviceLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *serviceLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startService starts a program. It kills the program at the end of the test.
func startService(t *testing.T, command ...string) *service {
	t.Helper()
	s := &service{t: t, cmd: exec.Command(command[0], command[1:]...), ended: make(chan struct{})}
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	s.cmd.WaitDelay = time.Second
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait() // error after a signal is expected
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // error for a process that has ended is harmless
		<-s.ended
		if t.Failed() {
			text := s.log.String()
			t.Logf("%v:\n%s", command, text[max(0, len(text)-20_000):])
		}
	})
	return s
}

// stop stops the program with SIGTERM, and waits until it has exited.
func (s *service) stop() {
	s.t.Helper()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(await.Limit):
		s.t.Fatalf("%v does not exit after SIGTERM", s.cmd.Args)
	}
}

// await waits until check returns "". It fails at once if the program exits earlier.
func (s *service) await(check func() string) {
	s.t.Helper()
	await.For(s.t, func() string {
		missing := check()
		select {
		case <-s.ended:
			if missing != "" {
				s.t.Fatalf("the program has exited: %s", missing)
			}
		default:
		}
		return missing
	})
}

// version returns the version that the program has printed as a line of JSON.
func (s *service) version() string {
	for _, text := range strings.Split(s.log.String(), "\n") {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.Step == "client" {
			return l.Version
		}
	}
	return "-"
}

// startBroker starts one broker without topics and returns its bootstrap address. With
// COMPAT_ON_KAFKA=1, this is an Apache Kafka broker, so the same test shows Kafka's outcome.
func startBroker(t *testing.T) string {
	t.Helper()
	if os.Getenv("COMPAT_ON_KAFKA") != "" {
		return startKafka(t)
	}
	s := process.NewSetup(t, 1, clusterManifest)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	return bootstrap[0]
}

// startKafka starts one Apache Kafka broker with the given additional properties, and returns its
// bootstrap address.
func startKafka(t *testing.T, properties ...string) string {
	t.Helper()
	java, classes := need(t, "java", "-version"), jars(t)
	if found, _ := filepath.Glob(filepath.Join(filepath.Dir(classes), "kafka_2.13-*.jar")); len(
		found) == 0 {
		t.Skipf("skipped: no kafka_2.13-*.jar in %s: Apache Kafka cannot run", classes)
	}
	bootstrap := ports.Free(t, 1)
	runKafka(t, java, classes, bootstrap, properties)
	return bootstrap
}

// runKafka starts an Apache Kafka broker with a listener without TLS at bootstrap. A property
// "listeners=NAME://HOST:PORT" adds another listener.
func runKafka(t *testing.T, java, classes, bootstrap string, properties []string) {
	t.Helper()
	others := ""
	for i, property := range properties {
		if listener, found := strings.CutPrefix(property, "listeners="); found {
			others, properties = ","+listener, slices.Delete(slices.Clone(properties), i, i+1)
			break
		}
	}
	controller, dir := ports.Free(t, 1), t.TempDir()
	config := writeProperties(t, dir, "server.properties", append(properties,
		"process.roles=broker,controller",
		"node.id=1", "controller.quorum.voters=1@"+controller,
		"listeners=PLAINTEXT://"+bootstrap+others+",CONTROLLER://"+controller,
		"advertised.listeners=PLAINTEXT://"+bootstrap+others, "controller.listener.names=CONTROLLER",
		"log.dirs="+filepath.Join(dir, "data"), "offsets.topic.replication.factor=1",
		"offsets.topic.num.partitions=3", "transaction.state.log.replication.factor=1",
		"transaction.state.log.min.isr=1", "group.initial.rebalance.delay.ms=0")...)
	output(t, "", append(javaTool(java, classes, "kafka.tools.StorageTool"), "format", "-t",
		"AAAAAAAAAAAAAAAAAAAAAQ", "-c", config)...)
	broker := startService(t, append(javaTool(java, classes, "kafka.Kafka"), config)...)
	broker.await(func() string {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := newAdmin(t, bootstrap).ListBrokers(ctx); err != nil {
			return err.Error()
		}
		return ""
	})
}

func writeProperties(t *testing.T, dir, name string, lines ...string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newClient(t *testing.T, bootstrap string, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(options, kgo.SeedBrokers(bootstrap))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func newAdmin(t *testing.T, bootstrap string) *kadm.Client {
	t.Helper()
	return kadm.NewClient(newClient(t, bootstrap))
}

func createTopic(t *testing.T, bootstrap, name string, partitions int32) {
	t.Helper()
	created, err := newAdmin(t, bootstrap).CreateTopic(t.Context(), partitions, 1, nil, name)
	if err == nil {
		err = created.Err
	}
	if err != nil {
		t.Fatalf("create topic %s: %v", name, err)
	}
}

// readAll returns all records of a topic, by partition and in the order of their offsets.
func readAll(t *testing.T, bootstrap, name string) map[int32][]*kgo.Record {
	t.Helper()
	// t.Context has already ended when a cleanup reads a topic.
	ctx, cancel := context.WithTimeout(context.Background(), await.Limit)
	defer cancel()
	ends, err := newAdmin(t, bootstrap).ListEndOffsets(ctx, name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil // the topic does not exist yet
	}
	client := newClient(t, bootstrap, kgo.ConsumeTopics(name),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer client.Close()
	records, positions := map[int32][]*kgo.Record{}, map[int32]int64{}
	for {
		done := true
		ends.Each(func(end kadm.ListedOffset) { done = done && positions[end.Partition] >= end.Offset })
		if done {
			return records
		}
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			records[r.Partition] = append(records[r.Partition], r)
			positions[r.Partition] = r.Offset + 1
		}
	}
}

// ecosystem returns the Java class path of Kafka Connect, MirrorMaker 2 and Kafka Streams, and
// their version. Maven downloads missing jars into its repository.
func ecosystem(t *testing.T) (java, classes, version string) {
	t.Helper()
	java = need(t, "java", "-version")
	maven := need(t, "mvn", "-version")
	file := filepath.Join(t.TempDir(), "classpath")
	resolve := exec.CommandContext(t.Context(), maven, "-B", "-q", "-f",
		"testdata/javaprograms/pom.xml", "dependency:build-classpath", "-Dmdep.outputFile="+file)
	if out, err := resolve.CombinedOutput(); err != nil {
		t.Skipf("skipped: the jars of Kafka's ecosystem are not available: %v: %s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "connect-runtime-")
	version, _, _ = strings.Cut(after, ".jar")
	return java, string(text), version
}
