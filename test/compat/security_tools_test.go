//go:build compat

package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

// securedManifest describes a cluster that authorizes requests. The clients of its plain listener
// are super users, so the tools need no credentials.
const securedManifest = `apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: compat}
spec:
  brokers: 1
  listeners:
  - {name: plain, port: 9092}
  - {name: sasl, port: 9093, authentication: [{type: ScramSha256}, {type: ScramSha512}]}
  - {name: mtls, port: 9094, tls: {}, authentication: [{type: TLS}]}
  authorization: {type: Simple, superUsers: [ANONYMOUS, tester]}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: scrammer}
spec: {cluster: compat, authentication: {type: Scram}}
---
apiVersion: heartwood.dev/v1alpha1
kind: LogUser
metadata: {name: tester}
spec: {cluster: compat, authentication: {type: TLS}}
`

// startSecured starts one broker with securedManifest. It returns the listeners' addresses and the
// directories of the users' files, by name.
func startSecured(t *testing.T) (listeners, users map[string]string) {
	t.Helper()
	s := process.NewSetup(t, 1, securedManifest)
	_, lines := process.Start(t, s.Args()...).Ready(t)
	listeners, users = map[string]string{}, map[string]string{}
	for _, line := range lines {
		fields := strings.Fields(line)
		for _, field := range fields {
			key, value, _ := strings.Cut(field, "=")
			switch {
			case fields[0] == "listener" && key == "bootstrap":
				listeners[fields[1]] = value
			case fields[0] == "user" && key == "files":
				users[fields[1]] = value
			}
		}
	}
	return listeners, users
}

// Kafka's tools, and the patterns for the compared parts of their output.
const (
	aclTool    = "org.apache.kafka.tools.AclCommand"
	configTool = "org.apache.kafka.tools.ConfigCommand"
)

// securitySteps are commands of kafka-acls and kafka-configs, in this order. Their values cannot
// contain spaces.
var securitySteps = []string{
	aclTool + " --list",
	aclTool + " --add --allow-principal User:alice --operation Read --operation Write --topic orders",
	aclTool + " --add --allow-principal User:alice --consumer --topic orders --group g",
	aclTool + " --add --allow-principal User:bob --producer --topic orders --transactional-id tx",
	aclTool + " --add --allow-principal User:CN=carol,O=corp --operation All --topic team- " +
		"--resource-pattern-type prefixed",
	aclTool + " --add --deny-principal User:mallory --deny-host 10.0.0.1 --operation Read --topic *",
	aclTool + " --add --allow-principal User:* --operation Describe --cluster",
	aclTool + " --list",
	aclTool + " --list --topic orders",
	aclTool + " --list --principal User:alice",
	aclTool + " --list --topic team-x --resource-pattern-type match",
	aclTool + " --remove --force --allow-principal User:alice --operation Write --topic orders",
	aclTool + " --remove --force --topic nothing",
	aclTool + " --list --topic orders",
	aclTool + " --add --allow-principal alice --operation Read --topic orders",
	configTool + " --alter --entity-type users --entity-name alice --add-config " +
		"SCRAM-SHA-256=[iterations=8192,password=secret]",
	configTool + " --alter --entity-type users --entity-name alice --add-config " +
		"SCRAM-SHA-512=[password=secret]",
	configTool + " --alter --entity-type users --entity-name alice --add-config " +
		"producer_byte_rate=1048576,consumer_byte_rate=2097152",
	configTool + " --describe --entity-type users --entity-name alice",
	configTool + " --alter --entity-type users --entity-name alice --add-config " +
		"SCRAM-SHA-512=[iterations=100,password=secret]",
	configTool + " --alter --entity-type users --entity-name alice --add-config " +
		"SCRAM-SHA-512=[iterations=20000,password=secret]",
	configTool + " --alter --entity-type users --entity-default --add-config request_percentage=200",
	configTool + " --alter --entity-type users --entity-name bob --add-config " +
		"controller_mutation_rate=10,request_percentage=50",
	configTool + " --describe --entity-type users --entity-default",
	configTool + " --describe --entity-type users --entity-name bob",
	configTool + " --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256",
	configTool + " --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-256",
	configTool + " --alter --entity-type users --entity-name alice --delete-config consumer_byte_rate",
	configTool + " --describe --entity-type users --entity-name alice",
	configTool + " --alter --entity-type users --entity-name alice --add-config producer_byte_rate=0",
	configTool + " --alter --entity-type users --entity-name alice --add-config no_such=1",
	configTool + " --describe --entity-type clients",
}

// stackLine matches a line of a stack trace, and a line of the logging framework.
var stackLine = regexp.MustCompile(`^\s+at |^\s+\.\.\. \d+ more|^SLF4J|^\[|^WARNING`)

// compared returns the lines of a tool's output, without stack traces and addresses. The lines are
// sorted, because Kafka prints sets in the order of hashes.
func compared(out, bootstrap string) []string {
	var lines []string
	for line := range strings.Lines(strings.ReplaceAll(out, bootstrap, "HOST:PORT")) {
		if line = strings.TrimRight(line, " \n"); line != "" && !stackLine.MatchString(line) {
			// Neither the end of a sentence nor the order of its parts is compared.
			parts := strings.Split(strings.TrimRight(line, "."), ", ")
			if head, first, found := strings.Cut(parts[0], " are "); found {
				parts[0] = first
				slices.Sort(parts)
				parts[0] = head + " are " + parts[0]
			}
			lines = append(lines, strings.Join(parts, ", "))
		}
	}
	slices.Sort(lines)
	return lines
}

// TestSecurityToolsPrintTheSame runs kafka-acls and kafka-configs on Apache Kafka with its
// StandardAuthorizer, and on a broker of this repository. It checks that the outputs are equal.
func TestSecurityToolsPrintTheSame(t *testing.T) {
	proof := newRow(t, "kafka-acls and kafka-configs",
		"ACLs, SCRAM credentials and quotas of users: the same output as on Apache Kafka")
	java, classes := need(t, "java", "-version"), jars(t)
	proof.version = toolsVersion(classes)
	t.Parallel()
	listeners, _ := startSecured(t)
	kafka := startKafka(t, "super.users=User:ANONYMOUS",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")
	for _, step := range securitySteps {
		var printed [2][]string
		for i, bootstrap := range []string{kafka, listeners["plain"]} {
			args := strings.Fields(step)
			args = append(javaTool(java, classes, args[0]),
				append([]string{"--bootstrap-server", bootstrap}, args[1:]...)...)
			out, _ := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput()
			printed[i] = compared(string(out), bootstrap)
		}
		if !slices.Equal(printed[0], printed[1]) {
			t.Errorf("%s\nKafka:\n%s\nhere:\n%s", step, strings.Join(printed[0], "\n"),
				strings.Join(printed[1], "\n"))
		}
	}
}

// franzSecurityTests selects franz-go's tests for SCRAM, and some tests of the whole client, which
// run with a certificate. TestIssue769 is missing, because it sets a dialer, which cannot be
// combined with TLS.
const franzSecurityTests = "TestSCRAM|TestPing|TestConsumeTopic|" +
	"TestIssue(325|337|434|523|810|831|865|1034|1377)"

// TestFranzGoSecurity runs franz-go's own tests with SCRAM and with client certificates.
func TestFranzGoSecurity(t *testing.T) {
	proof := newRow(t, "franz-go's own tests", "SCRAM, wrong credentials; the client over TLS with a "+
		"certificate")
	clone, version := franzClone(t)
	proof.version = version
	t.Parallel()
	listeners, users := startSecured(t)
	file := func(user, name string) string { return filepath.Join(users[user], name) }
	for _, bits := range []string{"256", "512"} {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-v", "-run",
			franzSecurityTests, ".")
		cmd.Dir = filepath.Join(clone, "pkg", "kgo")
		cmd.Env = append(cmd.Environ(), "KGO_SEEDS="+listeners["mtls"], "KGO_TEST_RF=1",
			"KGO_TEST_RECORDS=5000", "KGO_TEST_TLS=ca:"+file("tester", "ca.crt")+",cert:"+
				file("tester", "user.crt")+",key:"+file("tester", "user.key"),
			"KGO_TEST_SCRAM=scrammer:"+content(t, file("scrammer", "password"))+":"+bits,
			"KGO_TEST_SCRAM_SEEDS="+listeners["sasl"])
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestSCRAMAuth ") ||
			!strings.Contains(string(out), "--- PASS: TestSCRAMAuthBadCredentials ") {
			t.Errorf("SCRAM-SHA-%s: %v\n%s", bits, err, out)
		}
	}
}

// content returns the content of a file.
func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
