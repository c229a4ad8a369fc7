package smoke

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/test/kit/process"
)

var openFilesRow = regexp.MustCompile(`Max open files +(\d+) +(\d+)`)

// TestSoftLimitOfOpenFilesIsRaised starts the process with a low soft limit. The process must raise
// it to the hard limit, log both limits, and export both and the number of open files as metrics.
func TestSoftLimitOfOpenFilesIsRaised(t *testing.T) {
	t.Parallel()
	const soft = 200
	var hard syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &hard); err != nil {
		t.Fatal(err)
	}
	if hard.Max <= soft {
		t.Skipf("the hard limit is %d", hard.Max)
	}
	s := process.NewSetup(t, 1, cluster, tickets)
	p := process.StartLimited(t, soft, append(s.Args(), "--log-level", "info")...)
	p.Ready(t)
	limits, err := os.ReadFile(fmt.Sprintf("/proc/%d/limits", p.PID()))
	if err != nil {
		t.Skipf("no /proc: %v", err)
	}
	want := fmt.Sprint(hard.Max)
	row := openFilesRow.FindStringSubmatch(string(limits))
	if len(row) != 3 || row[1] != want || row[2] != want {
		t.Errorf("limits of the process are %v, want %s", row, want)
	}
	if line := "hardLimit=" + want; !strings.Contains(p.Stderr.String(), line) {
		t.Errorf("the log does not contain %s:\n%s", line, p.Stderr.String())
	}
	_, page := s.Get(t, "/metrics")
	for _, name := range []string{"process_open_fds", "process_max_fds"} {
		if !strings.Contains(string(page), "\n"+name+" ") {
			t.Errorf("metric %s is not exported", name)
		}
	}
}
