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

	"heartwood.dev/heartwood/test/kit/process"
)

// consumerChecks is what each client does by the consumer protocol (KIP-848), in the matrix.
const consumerChecks = "consumer protocol, three brokers: members come, die, come back as static ones; coordinator killed; expression and a later topic; offsets continue"

// consumerSession is as in consumerManifest: long enough to start a Java program.
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
	proof := proves(t, "Java clients", consumerChecks)
	java, classes := need(t, "java", "-version"), jars(t)
	t.Parallel()
	s := startStory(t, proof, javaTool(java, classes, "testdata/Member.java"))
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
	proof := proves(t, "confluent-kafka (librdkafka)", consumerChecks)
	python := need(t, "python3", "-c", "import confluent_kafka")
	t.Parallel()
	startStory(t, proof, []string{python, "testdata/member.py"}).run()
}

// story is what happens to a group of one client's members.
type story struct {
	t         *testing.T
	proof     *row
	command   []string // of a member
	bootstrap string
	pids      map[int]int // of brokers
	client    *kgo.Client
	tools     func(args ...string) string // kafka-consumer-groups; nil: not on the machine
	dump      func(files []string) string
	dataDir   string
	sent      int
}

func startStory(t *testing.T, proof *row, command []string) *story {
	t.Helper()
	setup := process.NewSetup(t, 3, consumerManifest)
	setup.HTTP = process.FreePorts(t, 4) // the cluster's, and each broker's
	running := process.Start(t, append(setup.Args(), "--processes")...)
	bootstrap, before := running.Ready(t)
	s := &story{t: t, proof: proof, command: command, bootstrap: strings.Join(bootstrap, ","),
		pids: map[int]int{}, dataDir: setup.DataDir}
	for _, line := range before {
		var id, pid int
		if n, _ := fmt.Sscanf(line, "broker %d started pid=%d", &id, &pid); n == 2 {
			s.pids[id] = pid
		}
	}
	go func() {
		for range running.Lines { // nobody else reads them
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

func (s *story) member(group, instance, subscription string) *member {
	s.t.Helper()
	return startMember(s.t, s.command, s.bootstrap, group, instance, subscription)
}

// send writes records, numbered on, to all partitions by turns.
func (s *story) send(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), process.Deadline)
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

// committed waits until all that was sent is committed.
func (s *story) committed() {
	s.t.Helper()
	process.Until(s.t, func() string {
		offsets, err := kadm.NewClient(s.client).FetchOffsets(process.Limited(s.t), "readers")
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

func (s *story) run() {
	s.send(60)
	first := s.member("readers", "first", topic)
	share(s.t, 6, first)
	read(s.t, 0, 60, first)
	s.proof.version = first.says().version
	second := s.member("readers", "", topic)
	share(s.t, 3, first, second)
	s.describe()

	second.kill() // it is out when its session is over
	share(s.t, 6, first)
	third := s.member("readers", "third", topic)
	share(s.t, 3, first, third)
	s.comeBack(first, third)
}

// comeBack has a static member leave and come again: it gets what it had, and nobody else is
// troubled. Then the coordinator is killed.
func (s *story) comeBack(first, third *member) {
	had, changes := third.says().owned, first.says().changes
	third.leave()
	left := time.Now()
	third = s.member("readers", "third", topic)
	share(s.t, 3, first, third)
	got, again := third.says().owned, first.says().changes
	switch took := time.Since(left); {
	case took > consumerSession:
		s.t.Logf(
			"it took a static member %v to come back, on a busy machine: its place was not kept so long",
			took,
		)
	case !slices.Equal(got, had), again != changes:
		s.t.Errorf(
			"a static member comes back to %v, and had %v; another's partitions have changed %d times",
			got,
			had,
			again-changes,
		)
	}
	s.committed()
	found := kadm.NewClient(s.client).FindGroupCoordinators(process.Limited(s.t),
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

// end has everybody leave; who comes then reads what is new. And an expression finds a topic that
// is made later.
func (s *story) end(first, third *member) {
	share(s.t, 3, first, third)
	s.committed()
	first.leave()
	third.leave()
	before := s.sent
	s.send(6)
	// the place of "first" is kept for it
	watcher, last := s.member("watchers", "", "^made-.*"), s.member("readers", "first", topic)
	read(s.t, before, s.sent, last)
	for number, n := range last.says().read {
		if number < before || n > 1 {
			s.t.Errorf("record %d, which the group has read, is read again; %d times", number, n)
		}
	}
	admin, ctx := kadm.NewClient(s.client), process.Limited(s.t)
	if _, err := admin.CreateTopic(ctx, 2, 3, nil, "made-later"); err != nil {
		s.t.Fatal(err)
	}
	share(s.t, 2, watcher)
	watcher.leave()
	last.leave()
	s.committed()
}

// describe looks at the group with Kafka's tool while two members share it.
func (s *story) describe() {
	if s.tools == nil {
		return
	}
	group := []string{"--describe", "--group", "readers"}
	process.Until(s.t, func() string {
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

// stored has Kafka's tool read what is stored of the groups, on all brokers.
func (s *story) stored() {
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
