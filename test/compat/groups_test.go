//go:build compat

package compat

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

func TestJavaGroup(t *testing.T) {
	testJavaGroup(t, "classic", `"protocolType":"consumer"`, `"subscription":\{"topics":\["`+topic)
}

// TestJavaConsumerProtocolGroup uses the consumer protocol (KIP-848). The coordinator stores groups
// of this protocol in other kinds of records than groups of the classic protocol.
func TestJavaConsumerProtocolGroup(t *testing.T) {
	testJavaGroup(t, "consumer", `"subscribedTopicNames":\["`+topic, `"assignmentEpoch"`)
}

// testJavaGroup runs Java's console consumer in a group. The consumer reads and commits. After the
// broker was killed and restarted, the consumer must read no record again. Kafka's tools must
// describe, list and delete the group. Kafka's dump-log must decode the group's stored records, and
// its output must match the expressions in dumped.
func testJavaGroup(t *testing.T, protocol string, dumped ...string) {
	t.Helper()
	proof := newRow(t, "Kafka's command line tools",
		"console consumer in a group, protocol "+protocol+
			", over kill -9 of the broker; consumer-groups; dump-log of offsets")
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	t.Parallel()
	s := process.NewSetup(t, 1, clusterManifest, topicManifest)
	running := process.Start(t, s.Args()...)
	bootstrap, _ := running.Ready(t)
	tool := func(stdin, class string, args ...string) string {
		return output(t, stdin, append(javaTool(java, classes, class), args...)...)
	}
	server := []string{"--bootstrap-server", bootstrap[0]}
	send := func(from, count int) {
		var input strings.Builder
		for i := range count {
			fmt.Fprintf(&input, "value %d\n", from+i)
		}
		tool(input.String(), "org.apache.kafka.tools.ConsoleProducer",
			append(server, "--topic", topic)...)
	}
	read := func(count int) string {
		return tool("", "org.apache.kafka.tools.consumer.ConsoleConsumer",
			append(server, "--topic", topic, "--group", "readers",
				"--command-property", "group.protocol="+protocol, "--from-beginning",
				"--max-messages",
				fmt.Sprint(count), "--timeout-ms", "60000")...)
	}
	groups := func(args ...string) string {
		return tool("", "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
			append(server, args...)...)
	}
	send(0, 10)
	expect(t, read(10), `(?m)^value 0$`, `(?m)^value 9$`)
	expect(t, groups("--describe", "--group", "readers"), `readers\s+`+topic+`\s+0\s+10\s+10\s+0\s`)
	expect(t, groups("--list"), `(?m)^readers$`)

	running.Stop(t, syscall.SIGKILL)
	bootstrap, _ = process.Start(t, s.Args()...).Ready(t)
	server = []string{"--bootstrap-server", bootstrap[0]}
	send(10, 5)
	if again := read(5); strings.Contains(again, "value 9\n") ||
		!strings.Contains(again, "value 14\n") {
		t.Errorf("after the restart the group reads committed records again: %s", again)
	}
	logs, err := filepath.Glob(filepath.Join(s.DataDir, "broker-0", "__consumer_offsets-*",
		"*.log"))
	if err != nil || len(logs) != 50 {
		t.Fatalf("%d logs of __consumer_offsets, error %v", len(logs), err)
	}
	dump := tool("", "org.apache.kafka.tools.DumpLogSegments", "--offsets-decoder", "--files",
		strings.Join(logs, ","))
	expect(t, dump, `"group":"readers","topic":"`+topic+`","partition":0`, `"offset":15`)
	expect(t, dump, dumped...)
	expect(t, groups("--delete", "--group", "readers"), `'readers'\) was successful`)
}
