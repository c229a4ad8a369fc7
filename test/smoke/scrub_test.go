package smoke

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/internal/remote"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
)

// TestScrubOnRequest flips a bit in a segment of a running broker. `heartwood scrub --wait` must
// find the damage and fail. Then the scrub is turned off, and requests must fail with a message
// that says what to do.
func TestScrubOnRequest(t *testing.T) {
	t.Parallel()
	s := process.NewSetup(t, 1, cluster, onRequest("minDirtyPercent: 100", ""))
	bootstrap, _ := process.Start(t, s.Args()...).Ready(t)
	load(t, bootstrap, ledger.New(), 5)
	await.For(t, func() string {
		code, out, errOut := heartwood(t, "scrub", "--wait", "--address", s.HTTP)
		if code != 0 || !strings.Contains(out, "1 of 1 brokers have checked everything at rest") {
			return fmt.Sprintf("exit code %d: %s %s", code, out, errOut)
		}
		return ""
	})
	var state report.Scrubs
	s.GetJSON(t, "/api/v1/scrub", &state)
	if len(state.Scrubs) != 1 {
		t.Fatalf("%+v, want one broker", state)
	}
	scrub := state.Scrubs[0]
	if scrub.CheckedSince == nil || scrub.State != report.ScrubWaiting {
		t.Errorf("%+v, want a complete round", scrub)
	}
	if scrub.Segments == 0 || scrub.CheckedBytes == 0 {
		t.Errorf("%+v, want segments and bytes", scrub)
	}
	checkRepair(t, s)
	flipBit(t, filepath.Join(s.DataDir, "*", "tickets-0", "00000000000000000000.log"), 100)
	await.For(t, func() string {
		code, out, errOut := heartwood(t, "scrub", "tickets", "--wait", "--json", "--address", s.HTTP)
		var got remote.Scrubbing
		if err := json.Unmarshal([]byte(out), &got); err != nil {
			return err.Error()
		}
		if len(got.Brokers) != 1 || len(got.Brokers[0].Damage) != 1 || code != 1 ||
			!strings.Contains(errOut, "1 damaged place found at rest") {
			return fmt.Sprintf("exit code %d: %s %s", code, out, errOut)
		}
		d := got.Brokers[0].Damage[0]
		if d.File != "tickets-0/00000000000000000000.log" || d.Topic != "tickets" ||
			!strings.Contains(d.Problem, "checksum") {
			t.Errorf("damage: %+v", d)
		}
		return ""
	})
	s.Apply(t, "cluster.yaml", strings.Replace(cluster, "brokers: 1",
		`brokers: 1, scrub: {interval: Never}`, 1)+"---\n"+onRequest("minDirtyPercent: 100", ""))
	await.For(t, func() string {
		code, _, errOut := heartwood(t, "scrub", "--address", s.HTTP)
		if code != 1 || !strings.Contains(errOut, "the scrub is off: set spec.scrub.interval") {
			return fmt.Sprintf("exit code %d: %s", code, errOut)
		}
		return ""
	})
}

// checkRepair flips a bit in an offset index. A scrub must replace the file and report this.
func checkRepair(t *testing.T, s process.Setup) {
	t.Helper()
	index := filepath.Join(s.DataDir, "*", "tickets-0", "00000000000000000000.timeindex")
	await.Until(t, "the first segment has its index", func() bool {
		names, err := filepath.Glob(index)
		if err != nil || len(names) != 1 {
			return false
		}
		info, err := os.Stat(names[0])
		return err == nil && info.Size() > 4
	})
	flipBit(t, index, 4)
	await.For(t, func() string { // the scrub omits the segment until its end is synced
		code, out, errOut := heartwood(t, "scrub", "tickets", "--wait", "--address", s.HTTP)
		if want := "repaired on broker 0: tickets-0/00000000000000000000.timeindex: "; code != 0 ||
			!strings.Contains(out, want) {
			return fmt.Sprintf("exit code %d, want 0: %s %s, want %q", code, out, errOut, want)
		}
		return ""
	})
	code, out, _ := heartwood(t, "scrub", "tickets", "--wait", "--address", s.HTTP)
	if code != 0 || strings.Contains(out, "repaired") {
		t.Errorf("the next scrub reports an earlier repair: exit code %d: %s", code, out)
	}
}

// flipBit flips a bit of the byte at a position in the file that matches a pattern.
func flipBit(t *testing.T, pattern string, position int64) {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) != 1 {
		t.Fatalf("files %v, %v", names, err)
	}
	file, err := os.OpenFile(names[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	content := make([]byte, 1)
	if _, err := file.ReadAt(content, position); err != nil {
		t.Fatal(err)
	}
	content[0] ^= 4
	if _, err := file.WriteAt(content, position); err != nil {
		t.Fatal(err)
	}
}
