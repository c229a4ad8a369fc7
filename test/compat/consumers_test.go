//go:build compat

package compat

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ports"
	"heartwood.dev/heartwood/test/kit/process"
)

// consumerChecks describes a scenario's steps in the table of docs/compatibility.md.
const consumerChecks = "consumer protocol, three brokers: members come, die, come back as static ones; coordinator killed; expression and a later topic; offsets continue"

// consumerSession is the consumerSessionTimeout in consumerManifest. It is longer than the time
// that a Java program needs to start, so a static member can rejoin in time.
const consumerSession = 20 * time.Second

const consumerManifest = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: compat}
spec: {brokers: 3, groups: {consumerHeartbeatInterval: 500ms, consumerSessionTimeout: 20s}}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: ` + topic + `}
spec: {cluster: compat, partitions: 6, replicas: 3, minInSyncReplicas: 2, cleanupPolicy: Delete}
`

func TestJavaConsumers(t *testing.T) {
	proof := newRow(t, "Java clients", consumerChecks)
	java, classes := need(t, "java", "-version"), jars(t)
	t.Parallel()
	s := startScenario(t, proof, javaTool(java, classes, "testdata/Member.java"))
	s.tools = func(args ...string) string {
		return output(t, "", slices.Concat(javaTool(java, classes,
			"org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"), args,
			[]string{"--bootstrap-server", s.bootstrap})...)
	}
	s.dump = func(files []string) string {
		return output(t, "", append(javaTool(java, classes,
			"org.apache.kafka.tools.DumpLogSegments"),
			"--offsets-decoder", "--files", strings.Join(files, ","))...)
	}
	s.run()
	s.stored()
}

func TestConfluentConsumers(t *testing.T) {
	proof := newRow(t, "confluent-kafka (librdkafka)", consumerChecks)
	python := need(t, "python3", "-c", "import confluent_kafka")
	t.Parallel()
	startScenario(t, proof, []string{python, "testdata/member.py"}).run()
}

// scenario is a sequence of events in a consumer group whose members all use the same client
// library.
type scenario struct {
	t         *testing.T
	proof     *row
	command   []string // command line of a member
	bootstrap string
	pids      map[int]int // process ids of the brokers, by broker id
	client    *kgo.Client
	tools     func(args ...string) string // runs kafka-consumer-groups; nil if not installed
	dump      func(files []string) string
	dataDir   string
	sent      int
}

func startScenario(t *testing.T, proof *row, command []string) *scenario {
	t.Helper()
	setup := process.NewSetup(t, 3, consumerManifest)
	setup.HTTP = ports.Free(t, 4) // one port for the cluster and one for each broker
	running := process.Start(t, append(setup.Args(), "--processes")...)
	bootstrap, before := running.Ready(t)
	s := &scenario{t: t, proof: proof, command: command, bootstrap: strings.Join(bootstrap, ","),
		pids: map[int]int{}, dataDir: setup.DataDir}
	for _, line := range before {
		var id, pid int
		if n, _ := fmt.Sscanf(line, "broker %d started pid=%d", &id, &pid); n == 2 {
			s.pids[id] = pid
		}
	}
	go func() {
		for range running.Lines { // discards the output, because otherwise the process would block
		}
	}()
	var err error
	s.client, err = kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.client.Close)
	return s
}

func (s *scenario) member(group, instance, subscription string) *member {
	s.t.Helper()
	return startMember(s.t, s.command, s.bootstrap, group, instance, subscription)
}

// send produces n records with consecutive numbers. It distributes them over all partitions,
// round-robin.
func (s *scenario) send(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), await.Limit)
	defer cancel()
	for range n {
		record := &kgo.Record{Partition: int32(s.sent % partitions),
			Value: fmt.Appendf(nil, "value %d", s.sent)}
		if err := s.client.ProduceSync(ctx, record).FirstErr(); err != nil {
			s.t.Fatal(err)
		}
		s.sent++
	}
}

// committed waits until all produced records' offsets are committed.
func (s *scenario) committed() {
	s.t.Helper()
	await.For(s.t, func() string {
		offsets, err := kadm.NewClient(s.client).FetchOffsets(process.WithDeadline(s.t), "readers")
		if err != nil {
			return err.Error()
		}
		sum := int64(0)
		offsets.Each(func(o kadm.OffsetResponse) { sum += o.At })
		if sum != int64(s.sent) {
			return fmt.Sprintf("%d of %d are committed", sum, s.sent)
		}
		return ""
	})
}

func (s *scenario) run() {
	s.send(60)
	first := s.member("readers", "first", topic)
	share(s.t, 6, first)
	read(s.t, 0, 60, first)
	s.proof.version = first.observed().version
	second := s.member("readers", "", topic)
	share(s.t, 3, first, second)
	s.describe()

	second.kill() // the coordinator removes the member when its session expires
	share(s.t, 6, first)
	third := s.member("readers", "third", topic)
	share(s.t, 3, first, third)
	s.rejoin(first, third)
}

// rejoin restarts the static member third. The restarted member must get the same partitions as
// before, and the assignment of member first must not change. Then rejoin kills the coordinator;
// both members must continue to read.
func (s *scenario) rejoin(first, third *member) {
	had, changes := third.observed().owned, first.observed().changes
	third.leave()
	left := time.Now()
	third = s.member("readers", "third", topic)
	share(s.t, 3, first, third)
	got, again := third.observed().owned, first.observed().changes
	switch took := time.Since(left); {
	case took > consumerSession:
		s.t.Logf(
			"the static member took %v to rejoin, longer than its session, on a busy machine",
			took,
		)
	case !slices.Equal(got, had), again != changes:
		s.t.Errorf(
			"the static member rejoined with partitions %v, want %v; the partitions of the other member changed %d times, want 0",
			got,
			had,
			again-changes,
		)
	}
	s.committed()
	found := kadm.NewClient(s.client).FindGroupCoordinators(process.WithDeadline(s.t),
		"readers")["readers"]
	if found.Err != nil {
		s.t.Fatal(found.Err)
	}
	if err := syscall.Kill(s.pids[int(found.NodeID)], syscall.SIGKILL); err != nil {
		s.t.Fatal(err)
	}
	before := s.sent
	s.send(60)
	read(s.t, before, s.sent, first, third)
	s.end(first, third)
}

// end stops all members. A member that joins later must read only new records. A second group
// subscribes to a regular expression. It must be assigned the partitions of a matching topic that
// is created later.
func (s *scenario) end(first, third *member) {
	share(s.t, 3, first, third)
	s.committed()
	first.leave()
	third.leave()
	before := s.sent
	s.send(6)
	// The new member uses the instance id of the static member "first", because this member's
	// partitions are still reserved for this id.
	watcher, last := s.member("watchers", "", "^made-.*"), s.member("readers", "first", topic)
	read(s.t, before, s.sent, last)
	for number, n := range last.observed().read {
		if number < before || n > 1 {
			s.t.Errorf("the member read record %d %d times, want only records from %d on, each once",
				number, n, before)
		}
	}
	admin, ctx := kadm.NewClient(s.client), process.WithDeadline(s.t)
	if _, err := admin.CreateTopic(ctx, 2, 3, nil, "made-later"); err != nil {
		s.t.Fatal(err)
	}
	share(s.t, 2, watcher)
	watcher.leave()
	last.leave()
	s.committed()
}

// describe describes the group with kafka-consumer-groups while two members share the partitions.
func (s *scenario) describe() {
	if s.tools == nil {
		return
	}
	group := []string{"--describe", "--group", "readers"}
	await.For(s.t, func() string {
		if state := s.tools(append(group, "--state", "--verbose")...); !strings.Contains(state,
			"Stable") {
			return state
		}
		return ""
	})
	expect(s.t, s.tools(append(group, "--state", "--verbose")...),
		`readers\s+\S+\s+\(\d\)\s+uniform\s+Stable\s+2\s+2\s+2`)
	expect(s.t, s.tools(append(group, "--members", "--verbose")...),
		`readers\s+\S+\s+first\s+/127\.0\.0\.1\s+\S+\s+3\s+2\s+`+topic+`:0,1,2\s+2\s+`+topic+
			`:0,1,2`, `(?m)^readers\s+.*`+topic+`:3,4,5`)
	expect(s.t, s.tools(group...), `(?m)^readers\s+`+topic+`\s+0\s+10\s+10\s+0\s`)
	expect(s.t, s.tools("--list", "--type", "--state"), `readers\s+Consumer\s+Stable`)
}

// stored checks that Kafka's dump-log tool can decode the groups' records on all brokers.
func (s *scenario) stored() {
	logs, err := filepath.Glob(filepath.Join(s.dataDir, "broker-*", "__consumer_offsets-*",
		"*.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	logs = slices.DeleteFunc(logs, func(name string) bool {
		info, err := os.Stat(name)
		return err != nil || info.Size() == 0
	})
	expect(
		s.t,
		s.dump(logs),
		`"type":"3","data":\{"groupId":"readers"\}\} payload: \{"version":"0","data":\{"epoch":\d+,"metadataHash":-?\d+\}`,
		`"type":"5".*"instanceId":"first".*"subscribedTopicNames":\["`+topic+`"\]`,
		`"type":"6".*"assignmentEpoch":2,"assignmentTimestamp":\d+`,
		`"type":"7".*"topicPartitions":\[\{"topicId":"\S+","partitions":\[0,1,2\]`,
		`"type":"8".*"state":1,.*"assignmentEpochs":\[1,1,1\]`,
		`"type":"16".*"regularExpression":"\^made-\.\*".*"topics":\["made-later"\]`,
		`"type":"8".*payload: <DELETE>`,
	)
}
