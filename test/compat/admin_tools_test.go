//go:build compat

package compat

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// TestJavaAdminTools runs Kafka's own tools against three brokers. The tools alter topics, add
// partitions, delete records, describe log directories, move partitions and elect leaders.
func TestJavaAdminTools(t *testing.T) {
	proof := newRow(
		t,
		"Kafka's command line tools",
		"alter topics and configs, assign replicas, delete records, log dirs, reassign partitions, elect leaders; three brokers",
	)
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	t.Parallel()
	s := process.NewSetup(t, 3, strings.Replace(clusterManifest, "brokers: 1", "brokers: 3", 1),
		topicManifest)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	server := []string{"--bootstrap-server", strings.Join(bootstrap, ",")}
	tool := func(class string, args ...string) string {
		return output(t, "one\ntwo\nthree\n",
			slices.Concat(javaTool(java, classes, class), args, server)...)
	}
	file := func(content string) string {
		name := filepath.Join(t.TempDir(), "input.json")
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	topics := func(args ...string) string {
		return tool("org.apache.kafka.tools.TopicCommand",
			args...)
	}
	topics("--create", "--topic", "Made_by.Tools", "--partitions", "1", "--replication-factor", "2")
	tool("org.apache.kafka.tools.ConsoleProducer", "--topic", "Made_by.Tools")

	topics("--alter", "--topic", "Made_by.Tools", "--partitions", "3")
	expect(t, topics("--describe", "--topic", "Made_by.Tools"), `PartitionCount: 3`,
		`ReplicationFactor: 2`, `Partition: 2\s+Leader: \d`)
	checkAssignments(t, topics)
	checkConfigs(t, tool)

	offsets := file(
		`{"version": 1, "partitions": [{"topic": "Made_by.Tools", "partition": 0, "offset": 2}]}`,
	)
	expect(t, tool("org.apache.kafka.tools.DeleteRecordsCommand", "--offset-json-file", offsets),
		`partition: Made_by.Tools-0\s+low_watermark: 2`)
	expect(t, tool("org.apache.kafka.tools.GetOffsetShell", "--topic", "Made_by.Tools", "--time",
		"earliest"), `Made_by.Tools:0:2`)
	expect(t, tool("org.apache.kafka.tools.LogDirsCommand", "--describe", "--topic-list",
		"Made_by.Tools"), `"partition":"Made_by.Tools-0","size":[1-9]`)
	checkMoves(t, tool, topics, file)
}

// checkAssignments creates a topic with assigned replicas, and adds partitions with assigned
// replicas. The tool itself rejects some assignments, but does not reject brokers that do not
// exist.
func checkAssignments(t *testing.T, topics func(args ...string) string) {
	t.Helper()
	topics("--create", "--topic", "placed", "--replica-assignment", "2:0,1:2")
	topics("--alter", "--topic", "placed", "--partitions", "4", "--replica-assignment",
		"2:0,1:2,0:1,2:1")
	expect(t, topics("--describe", "--topic", "placed"), `PartitionCount: 4`, `ReplicationFactor: 2`,
		`Partition: 0\s+Leader: 2\s+Replicas: 2,0`, `Partition: 1\s+Leader: 1\s+Replicas: 1,2`,
		`Partition: 2\s+Leader: 0\s+Replicas: 0,1`, `Partition: 3\s+Leader: 2\s+Replicas: 2,1`)
	topics("--delete", "--topic", "placed")
}

// checkConfigs sets, describes and deletes a topic's settings with kafka-configs, and describes the
// brokers' settings.
func checkConfigs(t *testing.T, tool func(class string, args ...string) string) {
	t.Helper()
	configs := func(args ...string) string { return tool("org.apache.kafka.tools.ConfigCommand", args...) }
	made := []string{"--entity-type", "topics", "--entity-name", "Made_by.Tools"}
	configs(append(
		made,
		"--alter",
		"--add-config",
		"retention.ms=3600000,cleanup.policy=[compact,delete],segment.jitter.ms=1000,preallocate=true",
	)...)
	described := configs(append(made, "--describe")...)
	expect(
		t,
		described,
		`retention\.ms=3600000 .*DYNAMIC_TOPIC_CONFIG:retention\.ms=3600000, DEFAULT_CONFIG:log\.retention\.ms=604800000`,
		`cleanup\.policy=compact,delete`,
		`segment\.jitter\.ms=1000`,
		`preallocate=true`,
	)
	configs(append(made, "--alter", "--delete-config", "retention.ms,preallocate")...)
	if described = configs(append(made, "--describe")...); strings.Contains(described,
		"retention.ms=3600000") || !strings.Contains(described, "segment.jitter.ms") {
		t.Errorf("after the deletion:\n%s", described)
	}
	expect(t, configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1"),
		`node\.id=1`, `num\.partitions=1 `, `log\.retention\.ms=null `)
	configs("--describe", "--entity-type", "broker-loggers", "--entity-name", "1")
}

// TestJavaBrokerConfigs sets, describes and deletes settings of all brokers with kafka-configs. The
// cluster has no LogCluster manifest, with which the change would be rejected.
func TestJavaBrokerConfigs(t *testing.T) {
	java, classes := need(t, "java", "-version"), jars(t)
	t.Parallel()
	s := process.NewSetup(t, 1, topicManifest)
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	configs := func(args ...string) string {
		return output(t, "", slices.Concat(
			javaTool(java, classes, "org.apache.kafka.tools.ConfigCommand"), args, []string{"--entity-type", "brokers", "--bootstrap-server", bootstrap[0]})...)
	}
	configs("--entity-default", "--alter", "--add-config", "log.roll.ms=3600000")
	expect(t, configs("--entity-default", "--describe"),
		`log\.roll\.ms=3600000 .*\{DYNAMIC_DEFAULT_BROKER_CONFIG:log\.roll\.ms=3600000\}`)
	expect(t, configs("--entity-name", "0", "--describe", "--all"),
		`log\.roll\.ms=3600000 .*DEFAULT_CONFIG:log\.roll\.hours=168`)
	configs("--entity-default", "--alter", "--delete-config", "log.roll.ms")
	expect(t, configs("--entity-name", "0", "--describe", "--all"), `log\.roll\.ms=null `)
}

// checkMoves moves a partition to other brokers, and waits until the tool reports that the move is
// complete. Then it requests a preferred leader election.
func checkMoves(t *testing.T, tool func(class string, args ...string) string,
	topics func(args ...string) string, file func(string) string) {
	t.Helper()
	for _, replicas := range []string{"[0,1]", "[2,0]"} {
		plan := file(
			fmt.Sprintf(
				`{"version": 1, "partitions": [{"topic": "Made_by.Tools", "partition": 0, "replicas": %s}]}`,
				replicas,
			),
		)
		reassign := func(args ...string) string {
			return tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
				append([]string{"--reassignment-json-file", plan}, args...)...)
		}
		expect(t, reassign("--execute"), `Successfully started partition reassignment`)
		verified := ""
		// No pause is needed between two polls, because starting Java takes a second.
		for range 20 {
			if verified = reassign("--verify"); strings.Contains(verified, "is completed") {
				break
			}
		}
		expect(t, verified, `Reassignment of partition Made_by.Tools-0 is completed`)
		expect(t, topics("--describe", "--topic", "Made_by.Tools"),
			`Partition: 0\s+Leader: \d\s+Replicas: `+strings.Trim(replicas, "[]"))
	}
	elected := tool("org.apache.kafka.tools.LeaderElectionCommand", "--election-type", "preferred",
		"--topic", "Made_by.Tools", "--partition", "0")
	expect(t, elected, `(Successfully completed|Valid replica already elected) .*Made_by.Tools-0`)
	expect(t, topics("--describe", "--topic", "Made_by.Tools"), `Partition: 0\s+Leader: 2`)
	expect(t, tool("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--list"),
		`No partition reassignments found`)
}
