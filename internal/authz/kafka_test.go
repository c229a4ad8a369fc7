package authz

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/seed"
)

// kafkaSets and kafkaAsks determine the size of the comparison with Kafka: 100,000 checks against
// random sets of ACLs.
const (
	kafkaSets = 5000
	kafkaAsks = 20
)

// kafkaQuery is one input line for testdata/Authorize.java, with the Matcher's answer.
type kafkaQuery struct {
	text string
	acls []ACL
	got  bool
}

// TestMatcherAgreesWithKafka checks that the Matcher and Kafka's StandardAuthorizer give the same
// answers. KAFKA_LIB is the directory of Kafka's jars.
func TestMatcherAgreesWithKafka(t *testing.T) {
	java, lib := kafka(t)
	input, queries := kafkaInput(rand.New(rand.NewPCG(seed.New(t), 3)))
	cmd := exec.CommandContext(t.Context(), java, "-Xmx256m", "-cp", filepath.Join(lib, "*"),
		filepath.Join("testdata", "Authorize.java"))
	cmd.Stdin = strings.NewReader(input)
	var faults bytes.Buffer
	cmd.Stderr = &faults
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("run StandardAuthorizer: %v: %s", err, faults.String())
	}
	results := strings.TrimSpace(string(output))
	if len(results) != len(queries) {
		t.Fatalf("got %d results for %d checks", len(results), len(queries))
	}
	allowed := 0
	for i, q := range queries {
		if (results[i] == '1') != q.got {
			t.Fatalf("%q: Kafka answers %c, the Matcher %t; ACLs: %s", q.text, results[i], q.got,
				printed(q.acls))
		}
		if q.got {
			allowed++
		}
	}
	if allowed < len(queries)/20 || allowed > len(queries)*19/20 {
		t.Errorf("%d of %d checks are allowed: the comparison is one-sided", allowed, len(queries))
	}
}

// kafka returns the path of the java program and the directory of Kafka's jars. It skips the test
// if one is missing.
func kafka(t *testing.T) (java, lib string) {
	t.Helper()
	if testing.Short() {
		t.Skip("skipped: starts a JVM")
	}
	java, err := exec.LookPath("java")
	if err != nil {
		t.Skip("skipped: java is not installed")
	}
	lib = os.Getenv("KAFKA_LIB")
	if home, err := os.UserHomeDir(); lib == "" && err == nil {
		lib = filepath.Join(home, ".cache", "kafka-lab", "lib")
	}
	if found, _ := filepath.Glob(filepath.Join(lib, "kafka-metadata-*.jar")); len(found) == 0 {
		t.Skipf("skipped: no kafka-metadata-*.jar in %q; KAFKA_LIB names another folder", lib)
	}
	return java, lib
}

func kafkaInput(r *rand.Rand) (input string, queries []kafkaQuery) {
	var b strings.Builder
	for range kafkaSets {
		acls := randomACLs(r)
		var supers []Principal
		if r.IntN(10) == 0 {
			supers = append(supers, modelPrincipals[r.IntN(2)])
		}
		m := New(acls, supers)
		text := ""
		for _, p := range supers {
			text = p.String()
		}
		fmt.Fprintf(&b, "new\t%s\n", text)
		for _, a := range m.ACLs() {
			fmt.Fprintf(&b, "acl\t%d\t%d\t%s\t%s\t%s\t%d\t%d\n", a.Type, a.Pattern, a.Name,
				a.Principal, a.Host, a.Operation, a.Permission)
		}
		for i := range kafkaAsks {
			q := randomQuery(r, m, i%10 == 0)
			q.acls = acls
			b.WriteString(q.text + "\n")
			queries = append(queries, q)
		}
	}
	return b.String(), queries
}

// randomQuery returns one random query. If anyTopic is set, the query asks whether a client may
// write to any topic.
func randomQuery(r *rand.Rand, m *Matcher, anyTopic bool) kafkaQuery {
	p, host := pick(r, modelPrincipals[:3]), pick(r, modelHosts)
	address := netip.MustParseAddr(host)
	if anyTopic {
		return kafkaQuery{
			text: fmt.Sprintf("any\t%s\t%s\t%d\t%d", p, host, OpWrite, ResourceTopic),
			got:  m.AllowedAny(p, address, OpWrite, ResourceTopic),
		}
	}
	o, kind := pick(r, modelOperations), pick(r, modelTypes)
	name := pick(r, modelNames)
	for strings.HasPrefix(name, "*") {
		// StandardAuthorizer does not apply the literal ACL "*" to names that begin with an asterisk,
		// such as a group "*a". There, even a Deny on all groups does not apply to that group. The
		// Matcher applies the ACL.
		name = pick(r, modelNames)
	}
	return kafkaQuery{
		text: fmt.Sprintf("ask\t%s\t%s\t%d\t%d\t%s", p, host, o, kind, name),
		got:  m.Allowed(p, address, o, kind, name),
	}
}
