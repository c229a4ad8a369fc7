package smoke

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/api/report"
	"heartwood.dev/heartwood/test/kit/await"
	"heartwood.dev/heartwood/test/kit/ledger"
	"heartwood.dev/heartwood/test/kit/process"
)

// compactions returns the cleaner's reports on topic tickets by partition.
func compactions(t *testing.T, s process.Setup) map[int32]report.Compaction {
	t.Helper()
	var all report.Partitions
	s.GetJSON(t, "/api/v1/partitions", &all)
	found := map[int32]report.Compaction{}
	for _, row := range all.Partitions {
		if row.Topic == "tickets" && row.Compaction != nil {
			found[row.Partition] = *row.Compaction
		}
	}
	return found
}

// figures returns the values in reports that survive a restart.
func figures(compactions map[int32]report.Compaction) map[int32]report.Compaction {
	kept := map[int32]report.Compaction{}
	for partition, c := range compactions {
		kept[partition] = report.Compaction{Runs: c.Runs, ReadBytes: c.ReadBytes,
			WrittenBytes: c.WrittenBytes, SidecarReadBytes: c.SidecarReadBytes,
			SidecarWrittenBytes: c.SidecarWrittenBytes, ReclaimedBytes: c.ReclaimedBytes,
			RemovedRecords: c.RemovedRecords, LastSuccess: c.LastSuccess, LastPass: c.LastPass}
	}
	return kept
}

// TestCleanerFiguresSurviveKill kills the process in the middle of a pass, and damages the last
// line of the file with the cleaner's totals. After the restart, the counts of passes, their bytes
// and the time of the last clean must have their values from before the pass. If the topic is
// deleted and created again, its values must start at 0, although the topic continues with the
// retained records.
func TestCleanerFiguresSurviveKill(t *testing.T) {
	t.Parallel()
	topic := onRequest("minDirtyPercent: 100", "")
	s := process.NewSetup(t, 1, fmt.Sprintf(limited, 1, fast), topic)
	p := process.Start(t, s.Args()...)
	bootstrap, _ := p.Ready(t)
	book := ledger.New()
	load(t, bootstrap, book, 1)
	if code, _, errOut := heartwood(t, "clean", "tickets", "--address", s.HTTP,
		"--wait"); code != 0 {
		t.Fatalf("clean ended with code %d, %s", code, errOut)
	}
	want := figures(compactions(t, s))
	for partition, c := range want {
		if c.Runs[report.ResultSuccess] != 1 || c.LastSuccess == nil || c.ReclaimedBytes <= 0 {
			t.Fatalf("partition %d: %+v", partition, c)
		}
	}
	check := func(when string) {
		t.Helper()
		if got := figures(compactions(t, s)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", when, got, want)
		}
		if code, out, errOut := heartwood(t, "topics", "--address", s.HTTP); code != 0 ||
			!strings.Contains(out, " ago") {
			t.Errorf("%s: topics ended with code %d, %s %s", when, code, out, errOut)
		}
	}

	if code := p.Stop(t, syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT ended the process with code %d", code)
	}
	s.Apply(t, "cluster.yaml", fmt.Sprintf(limited, 1, slow)+"---\n"+topic)
	p = process.Start(t, s.Args()...)
	p.Ready(t)
	check("after SIGINT")
	load(t, bootstrap, book, 2)
	await.For(t, func() string {
		if code, _, errOut := heartwood(t, "clean", "tickets", "--address", s.HTTP); code != 0 {
			t.Fatalf("clean ended with code %d, %s", code, errOut)
		}
		for _, c := range compactions(t, s) {
			if c.RunningPass != nil && c.RunningPass.ReadBytes > 0 {
				return ""
			}
		}
		return "no pass runs"
	})
	p.Stop(t, syscall.SIGKILL)
	p = process.Start(t, s.Args()...)
	p.Ready(t)
	check("after SIGKILL")
	m := s.Metrics(t)
	for partition := range partitions {
		if got := valueOf(t, m, partition, "cleaner_runs_total", "result", "success"); got != 0 {
			t.Errorf("partition %d: %f passes of this process", partition, got)
		}
		if got := valueOf(t, m, partition, "cleaner_last_success_timestamp_seconds"); got !=
			*want[int32(partition)].LastSuccess {
			t.Errorf("partition %d: last cleaned at %f", partition, got)
		}
	}

	if code := p.Stop(t, syscall.SIGINT); code != 0 {
		t.Errorf("SIGINT ended the process with code %d", code)
	}
	tearTotals(t, s.DataDir)
	p = process.Start(t, s.Args()...)
	p.Ready(t)
	check("after SIGINT, with an incomplete line")

	s.Apply(t, "cluster.yaml", fmt.Sprintf(limited, 1, fast))
	await.For(t, func() string {
		if left := compactions(t, s); len(left) > 0 {
			return fmt.Sprintf("partitions of a deleted topic: %v", left)
		}
		return ""
	})
	s.Apply(t, "cluster.yaml", fmt.Sprintf(limited, 1, fast)+"---\n"+topic)
	var anew map[int32]report.Compaction
	await.For(t, func() string {
		if anew = compactions(t, s); len(anew) < partitions {
			return fmt.Sprintf("%d partitions", len(anew))
		}
		return ""
	})
	for partition, c := range anew {
		for result := range maps.Keys(c.Runs) {
			if c.Runs[result] != 0 {
				t.Errorf("partition %d of the new topic has %d passes: %s", partition,
					c.Runs[result], result)
			}
		}
		if c.LastSuccess != nil || c.LastPass != nil || c.ReadBytes != 0 {
			t.Errorf("partition %d of the new topic has %+v", partition, c)
		}
	}
	p.Stop(t, syscall.SIGINT)
}

// tearTotals appends an incomplete line to the file with the cleaner's totals.
func tearTotals(t *testing.T, dataDir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dataDir, "*", "cleaner-totals"))
	if err != nil || len(files) != 1 {
		t.Fatalf("found %q, %v", files, err)
	}
	file, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(`{"topicId":"`); err != nil {
		t.Fatal(err)
	}
}
