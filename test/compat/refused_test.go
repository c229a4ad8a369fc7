//go:build compat

package compat

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// transactionalChecks describes these tests in the table of docs/compatibility.md.
const transactionalChecks = "a transactional producer starts"

func TestTransactionalProducerConfluent(t *testing.T) {
	proof := newRow(t, "confluent-kafka (librdkafka)", transactionalChecks)
	python := need(t, "python3", "-c", "import confluent_kafka")
	testTransactional(t, proof, python, "testdata/transactional.py", "confluent")
}

func TestTransactionalProducerKafkaPython(t *testing.T) {
	proof := newRow(t, "kafka-python", transactionalChecks)
	python := need(t, "python3", "-c", "import kafka.admin")
	testTransactional(t, proof, python, "testdata/transactional.py", "kafka_python")
}

func TestTransactionalProducerJava(t *testing.T) {
	proof := newRow(t, "Java clients", transactionalChecks)
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	testTransactional(t, proof, java, "-cp", classes, "testdata/Transactional.java")
}

// testTransactional runs a program that starts a transactional producer. The bootstrap address is
// its last argument.
func testTransactional(t *testing.T, proof *row, command ...string) {
	t.Helper()
	t.Parallel()
	_, bootstrap := startCluster(t, topicManifest)
	out := output(t, "", append(command, bootstrap)...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	var got struct {
		Version string // of the client library
		Error   *string
	}
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	proof.version = cmp.Or(got.Version, proof.version)
	if got.Error != nil {
		t.Errorf("got error %q", *got.Error)
	}
}

// TestToolsReportMissingFeatures runs Kafka's tools for features that the cluster does not have.
// Each tool must exit and name the reason. Some tools, such as kafka-acls, also print a stack trace
// after it, here and with Apache Kafka.
func TestToolsReportMissingFeatures(t *testing.T) {
	proof := newRow(t, "Kafka's command line tools",
		"features that the cluster lacks are named: ACLs, delegation tokens, feature levels, "+
			"log directories, quorum, quotas of client ids, share and streams groups")
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	t.Parallel()
	s, bootstrap := startCluster(t, topicManifest)
	config := filepath.Join(t.TempDir(), "client.properties")
	plan := filepath.Join(t.TempDir(), "plan.json")
	for name, content := range map[string]string{
		config: "security.protocol=PLAINTEXT\n",
		plan: fmt.Sprintf(`{"version": 1, "partitions": [{"topic": %q, "partition": 0, `+
			`"replicas": [0], "log_dirs": ["/other"]}]}`, topic),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const tools, groups = "org.apache.kafka.tools.", "org.apache.kafka.tools.consumer.group."
	for command, want := range map[string]string{
		tools + "AclCommand --list": "SecurityDisabledException: No Authorizer is configured",
		tools + "DelegationTokenCommand --describe --command-config " +
			config: "UnsupportedByAuthenticationException: Delegation Token requests are not allowed",
		tools + "FeatureCommand upgrade --feature group.version=1": "group.version was upgraded to 1",
		tools + "FeatureCommand upgrade --feature group.version=2": "supports only version 1",
		tools + "reassign.ReassignPartitionsCommand --execute --reassignment-json-file " +
			plan: "LogDirNotFoundException",
		tools + "MetadataQuorumCommand describe --status": "does not support DESCRIBE_QUORUM",
		"org.apache.kafka.tools.ConfigCommand --alter --entity-type clients --entity-name a --add-config " +
			"producer_byte_rate=1": "quotas of client ids and of IP addresses are not supported",
		groups + "ShareGroupCommand --describe --group g": "does not support SHARE_GROUP_DESCRIBE",
		tools + "streams.StreamsGroupCommand --describe --group " +
			"g": "does not support STREAMS_GROUP_DESCRIBE",
		tools + "consumer.ConsoleShareConsumer --timeout-ms 3000 --topic " +
			topic: "does not support the share group protocol",
	} {
		args := strings.Fields(command)
		args = append(javaTool(java, classes, args[0]), append([]string{"--bootstrap-server",
			bootstrap}, args[1:]...)...)
		out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
		var failed *exec.ExitError // most of these tools exit with a code other than 0
		if err != nil && !errors.As(err, &failed) || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v, got %s\nwant %q", command, err, out, want)
		}
	}
	if n := requests(t, s)["DescribeAcls"]; n == 0 {
		t.Error("the broker has answered no request of kafka-acls")
	}
}
