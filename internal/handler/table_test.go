package handler

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// schema contains the key and the versions in an API's Kafka message schema.
type schema struct {
	key, min, max, flexible int16
}

func parseSchema(t *testing.T, key, valid, flexible string) schema {
	t.Helper()
	var s schema
	if flexible == "none" {
		flexible = fmt.Sprint(neverFlexible)
	}
	if !strings.Contains(valid, "-") {
		valid += "-" + valid
	}
	_, err := fmt.Sscan(key+" "+strings.TrimSuffix(flexible, "+"), &s.key, &s.flexible)
	must(t, err)
	if _, err := fmt.Sscanf(valid, "%d-%d", &s.min, &s.max); err != nil {
		t.Fatalf("versions %q: %v", valid, err)
	}
	return s
}

func checkAgainst(t *testing.T, schemas map[string]schema) {
	t.Helper()
	for _, row := range slices.Concat(table, refused) {
		s, ok := schemas[row.name]
		if !ok {
			t.Errorf("%s has no schema", row.name)
			continue
		}
		if row.name == "Produce" {
			s.min = 0 // Kafka advertises versions 0-2 but rejects them (KAFKA-18659)
		}
		if row.key != s.key || row.flexible != s.flexible || row.min != s.min || row.max > s.max {
			t.Errorf("%s: table has %d, %d-%d, flexible from %d; Kafka %+v", row.name, row.key,
				row.min, row.max, row.flexible, s)
		}
	}
}

// TestTableAgreesWithKafkasSchemas checks that the minimum versions are the same as Kafka's
// (KIP-896), and that the table contains no version that Kafka does not have.
func TestTableAgreesWithKafkasSchemas(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-4.4.0-schemas.txt")
	must(t, err)
	schemas := map[string]schema{}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); fields[0] != "#" {
			schemas[fields[1]] = parseSchema(t, fields[0], fields[2], fields[3])
		}
	}
	checkAgainst(t, schemas)
}

// TestTableAgreesWithTheJar compares the table with the schemas in Kafka's jar if the jar exists on
// this machine, to detect differences between the copy in testdata and Kafka.
func TestTableAgreesWithTheJar(t *testing.T) {
	home, err := os.UserHomeDir()
	must(t, err)
	jars, err := filepath.Glob(filepath.Join(home, ".cache", "kafka-lab", "lib",
		"kafka-clients-*.jar"))
	must(t, err)
	if len(jars) == 0 {
		t.Skip("no kafka-clients jar here; TestTableAgreesWithKafkasSchemas checks against a copy")
	}
	jar, err := zip.OpenReader(jars[len(jars)-1])
	must(t, err)
	defer jar.Close()
	schemas := map[string]schema{}
	for _, row := range slices.Concat(table, refused) {
		file, err := jar.Open("common/message/" + row.name + "Request.json")
		must(t, err)
		text, err := io.ReadAll(file)
		must(t, err)
		label := func(name string) string {
			return string(regexp.MustCompile(`"` + name + `": "?([^",]+)"?,`).FindSubmatch(text)[1])
		}
		schemas[row.name] = parseSchema(t, label("apiKey"), label("validVersions"),
			label("flexibleVersions"))
	}
	checkAgainst(t, schemas)
}

func TestTableIsSortedAndAgreesWithKmsg(t *testing.T) {
	for _, rows := range [][]row{table, refused} {
		if !slices.IsSortedFunc(rows, func(a, b row) int { return int(a.key) - int(b.key) }) {
			t.Error("not sorted by key")
		}
	}
	for _, row := range slices.Concat(table, refused) {
		for version := row.min; version <= row.max; version++ {
			request := kmsg.RequestForKey(row.key)
			request.SetVersion(version)
			if request.IsFlexible() != row.isFlexible(version) || version > request.MaxVersion() {
				t.Errorf("%s version %d: flexible %v, kmsg supports up to %d", row.name, version,
					row.isFlexible(version), request.MaxVersion())
			}
		}
		if got := APIName(row.key); got != row.name {
			t.Errorf("APIName(%d) = %q", row.key, got)
		}
	}
	if APIName(99) != "99" || APIName(-1) != "-1" || APIName(4) != "4" {
		t.Error("a key that is not served must be named by its number")
	}
}

// TestProtocolPageShowsTheTable checks that docs/internals/protocol.md contains the table between
// two markers. With UPDATE=1 it writes the table there.
func TestProtocolPageShowsTheTable(t *testing.T) {
	const page, begin, end = "../../docs/internals/protocol.md", "<!-- table -->\n", "<!-- /table -->"
	text, err := os.ReadFile(page)
	must(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatal("docs/internals/protocol.md has no table markers")
	}
	var want strings.Builder
	want.WriteString(
		"| key | API | versions | flexible from | largest request |\n|---|---|---|---|---|\n",
	)
	for _, row := range table {
		flexible := fmt.Sprint(row.flexible)
		if row.flexible == neverFlexible {
			flexible = "never"
		}
		fmt.Fprintf(&want, "| %d | %s | %d-%d | %s | %d MiB |\n", row.key, row.name, row.min,
			row.max, flexible, row.frameMax()>>20)
	}
	whole := before + begin + want.String() + end + after
	if os.Getenv("UPDATE") != "" {
		must(t, os.WriteFile(page, []byte(whole), 0o600))
	} else if whole != string(text) {
		t.Error("docs/internals/protocol.md differs from table.go; run this test with UPDATE=1")
	}
}
